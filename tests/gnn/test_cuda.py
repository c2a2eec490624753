"""What a GPU must do as well; skipped where there is none."""

import importlib
import os
from dataclasses import replace

import pytest
import torch
from model_samples import MODELS, drawn_stack, logits, shards
from pyg_models import PygGCN
from repository import ROOT

import unlearnbench
from unlearnbench.component import Spec
from unlearnbench.gnn import Model, train_networks
from unlearnbench.gnn.layout import Ragged, Shared
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import View
from unlearnbench.testing.graphs import toy_graph, toy_task

pytestmark = [
    pytest.mark.cuda,
    pytest.mark.skipif(not torch.cuda.is_available(), reason="there is no CUDA device here"),
]

CUDA = torch.device("cuda", 0)
# Sums are taken in another order than on a CPU.
CLOSE = {"atol": 1e-4, "rtol": 1e-4}
# cuSPARSE may sum in another order at each run, and Adam divides small gradients by themselves.
REPEATED = {"atol": 1e-3, "rtol": 1e-3}

if torch.cuda.is_available():
    # Read when cuBLAS starts: without it no product of matrices counts as deterministic.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")


@pytest.fixture
def deterministic():
    """Ask torch for its deterministic algorithms."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


def cuda_task(graph=None, **settings):
    task = toy_task(graph, **settings)
    return replace(task, graph=task.graph.to(CUDA), device=CUDA)


def with_densities(*densities):
    """Give shards whose features have these shares of non-zeros; below 0.15 they are multiplied as sparse."""
    return [shards(len(densities), density)[at] for at, density in enumerate(densities)]


FEATURES = {"dense": (0.9, 0.9, 0.9), "sparse": (0.05, 0.05, 0.05), "both": (0.05, 0.9, 0.05)}


def values_and_gradients(stack, layout):
    rows = logits(stack, layout)
    parameters = dict(stack.named_parameters())
    loss = rows.square().sum(dim=1).mean()
    gradients = torch.autograd.grad(loss, list(parameters.values()))
    return rows.detach(), dict(zip(parameters, gradients, strict=True))


@pytest.mark.parametrize("features", FEATURES)
@pytest.mark.parametrize("model", MODELS)
def test_a_stack_and_its_gradients_are_on_the_gpu_what_they_are_on_the_cpu(model, features):
    graphs = with_densities(*FEATURES[features])
    stack = drawn_stack(model, len(graphs), graphs[0].num_features)
    wanted, wanted_gradients = values_and_gradients(stack, Ragged(graphs))
    found, gradients = values_and_gradients(stack.to(CUDA), Ragged([graph.to(CUDA) for graph in graphs]))
    assert found.device == CUDA
    torch.testing.assert_close(found.cpu(), wanted, **CLOSE)
    for name, gradient in gradients.items():
        torch.testing.assert_close(
            gradient.cpu(), wanted_gradients[name], **CLOSE, msg=lambda text, n=name: f"{n}: {text}"
        )


@pytest.mark.parametrize("density", [0.05, 0.9])
@pytest.mark.parametrize("model", MODELS)
def test_networks_that_share_a_graph_give_on_the_gpu_what_they_give_on_the_cpu(model, density):
    (graph,) = with_densities(density)
    stack = drawn_stack(model, 3, graph.num_features)
    with torch.no_grad():
        wanted = logits(stack, Shared(graph, 3))
        found = logits(stack.to(CUDA), Shared(graph.to(CUDA), 3))
    torch.testing.assert_close(found.cpu(), wanted, **CLOSE)


@pytest.mark.parametrize("model", MODELS)
def test_a_graph_of_one_node_without_edges_works_on_the_gpu(model):
    graph = toy_graph(num_nodes=1, num_classes=1, edges=0)
    stack = drawn_stack(model, 1, graph.num_features)
    wanted, _ = values_and_gradients(stack, Ragged([graph]))
    found, _ = values_and_gradients(stack.to(CUDA), Ragged([graph.to(CUDA)]))
    torch.testing.assert_close(found.cpu(), wanted, **CLOSE)


@pytest.mark.parametrize("density", [0.05, 0.9])
@pytest.mark.parametrize("model", MODELS)
def test_a_network_trained_twice_on_the_gpu_is_the_same_within_the_tolerance(model, density):
    (graph,) = with_densities(density)
    task = cuda_task(graph, model=model, epochs=5)
    answers = [train_networks(task, [task.graph], [0]).predict([task.graph])[0][1] for _ in range(2)]
    assert torch.isfinite(answers[0]).all()
    torch.testing.assert_close(answers[0], answers[1], **REPEATED)


@pytest.mark.usefixtures("deterministic")
def test_dense_products_alone_give_the_same_bits_on_the_gpu():
    """Without sparse products (`mlp`, dense features) nothing is left whose order torch cannot fix."""
    (graph,) = with_densities(0.9)
    task = cuda_task(graph, model="mlp", epochs=20)
    first, second = (train_networks(task, [task.graph], [0]).state(0) for _ in range(2))
    assert all(torch.equal(first[name], second[name]) for name in first)


class OfAPlugin(Model):
    name = "of-a-plugin"

    def build(self, num_features, num_classes, generator):
        return PygGCN(num_features, num_classes)


def test_a_plain_module_trains_on_the_gpu_and_leaves_the_random_states_alone():
    spec = Spec("model", "of-a-plugin", 1, OfAPlugin, OfAPlugin.Params())
    task = replace(cuda_task(epochs=60), model=spec)
    before = torch.random.get_rng_state(), torch.cuda.get_rng_state(CUDA)
    networks = train_networks(task, [task.graph], [0])
    assert torch.equal(before[0], torch.random.get_rng_state())
    assert torch.equal(before[1], torch.cuda.get_rng_state(CUDA))
    ((_, found),) = networks.predict([task.graph])
    assert float((found.argmax(1) == task.graph.y).double().mean()) > 0.8


def forget_on_the_gpu(bracket, **settings):
    """Fit, forget two nodes and predict in both views; give the states before and after."""
    task = cuda_task(toy_graph(num_nodes=200, edges=600, first_id=1000), epochs=5, **settings)
    spec = resolve(load_catalogue(), "unlearner", bracket)
    method = spec.build()
    method.fit(task)
    before = {name: value.clone() for name, value in method.state().items()}
    request = Request(task.graph.ids[:2])
    retained = task.without(request)
    method.unlearn(request, retained)
    after = method.state()
    assert all(value.device == CUDA and bool(torch.isfinite(value).all()) for value in after.values()), bracket
    for view in (View.SHARD, View.FULL):
        answer = method.predict(retained.query(retained.graph.ids[:10], view))
        assert answer.device == CUDA
        torch.testing.assert_close(answer.exp().sum(dim=1), torch.ones(10, device=CUDA), **CLOSE)
    partition = method.kept().get("partition")
    if partition is not None:
        assert not torch.isin(request.ids, partition[:, 0]).any()
        assert len(partition) == 198
    return before, after


@pytest.mark.parametrize("model", MODELS)
def test_every_method_forgets_on_the_gpu(model):
    for name in load_catalogue().names("unlearner"):
        forget_on_the_gpu(name, model=model)


@pytest.mark.parametrize("kind", ["partitioner", "aggregator"])
def test_every_part_works_on_the_gpu(kind):
    catalogue = load_catalogue()
    for name in catalogue.names(kind):
        try:
            check_requirements([resolve(catalogue, kind, name)])
        except unlearnbench.UsageError:
            continue  # it needs a package that is not installed here
        forget_on_the_gpu(f"sharded[num_shards=5,{kind}={name}]")


def test_members_that_were_not_hit_keep_their_bits_on_the_gpu():
    before, after = forget_on_the_gpu("sisa[num_shards=10]")
    changed = {name.split("/")[1] for name in after if not torch.equal(before[name], after[name])}
    assert 1 <= len(changed) <= 2


def test_every_method_runs_on_the_gpu_and_its_memory_is_read(tmp_path):
    records = unlearnbench.run(
        ["sisa", "grapheraser", "graphrevoker"], device="cuda", epochs=5, num_shards=4, repetitions=1, out=tmp_path
    )
    for record in records:
        assert record.status == "ok", record
        assert record.cell["device"] == "cuda"
        assert record.provenance["readings"]["sources"]["gpu"] == "torch"
        phases = {phase["name"]: phase for phase in record.phases}
        for name in ("fit", "train", "unlearn", "unlearn/retrain"):
            phase = phases[name]
            assert 0 < phase["start_gpu_mib"] <= phase["peak_gpu_mib"] <= phase["peak_gpu_reserved_mib"]
        assert phases["fit"]["peak_gpu_mib"] >= phases["train"]["peak_gpu_mib"]
        known = phases["fit"]["gpu_process_mib"]
        assert (known is not None and known > 0) or record.provenance["readings"]["reasons"]["gpu_process_mib"]


def test_the_comparison_with_a_loop_reads_the_card_and_its_memory(monkeypatch, tmp_path):
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    loop, gpu = (importlib.import_module(name) for name in ("loop", "gpu"))
    assert gpu.what_is_missing() == ""
    record = gpu.compared(loop.cut(cuda_task(epochs=2), 4), "toy", list(loop.PLAIN), rounds=1)
    assert record["card"] == torch.cuda.get_device_name(CUDA)
    assert gpu.save(record, tmp_path).is_file()
    for found in record["models"].values():
        for sizes in found["memory"].values():
            assert 0 < sizes["peak_gpu_mib"] <= sizes["peak_gpu_reserved_mib"]
