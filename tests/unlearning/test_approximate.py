"""What must hold for every method that changes a trained network and claims to be approximate."""

from dataclasses import replace

import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from method_samples import answers, fitted, same, setting

from unlearnbench.api.run import run
from unlearnbench.audits.exactness.reach import reachable_tensors
from unlearnbench.protocol import Request, protocol
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.runner import run_cell, warm_up
from unlearnbench.task import Training
from unlearnbench.unlearning import Claim

METHODS = ["gnndelete[epochs=5]", "megu[epochs=3]", "scrub[epochs=3,max_steps=2]", "gradient-ascent"]
OTHERS = ["etr[lr=0.1,ratio=0.1]", "cognac[epochs=3]", "d2dgn[epochs=3]"]
BASELINES = ["finetune[epochs=3]", "neggrad-plus[epochs=3]", "bad-teacher[epochs=3]", "ssd"]
EACH = pytest.mark.parametrize("text", [*METHODS, *BASELINES, *OTHERS])


@EACH
def test_before_the_request_each_has_the_bits_of_retrain_and_its_claim_is_approximate(text):
    _, task, _ = setting()
    method = fitted(text, task)
    assert same(method.state(), fitted("retrain", task).state()) == []
    assert method.claim is Claim.APPROXIMATE


@EACH
def test_nothing_of_the_former_task_is_held_after_one_request_and_another(text):
    graph, task, request = setting()
    method, before = fitted(text, task), None
    for part in (request.ids[:2], request.ids[2:]):
        gone = Request(part)
        retained = task.without(gone)
        method.unlearn(gone, retained)
        assert before is None or same(before, {name: method.state()[name] for name in before}) != []
        before = {name: value for name, value in method.state().items() if not name.startswith("operators")}
        before |= {name: value for name, value in method.state().items() if name.endswith("nodes")}
        task = retained
        answers(method, graph, retained)
    forgotten = graph.induced(request.ids)
    constants = forgotten.x[forgotten.x > 0].double()
    held = list(reachable_tensors(method))
    assert held
    for tensor in held:
        assert not bool(torch.isin(tensor.double(), request.ids.double()).any())
        assert not bool(torch.isin(tensor.double(), constants).any())
    rows = task.graph.sparse_rows
    assert rows is not None
    of_retained = (task.graph.ids, task.graph.y, task.graph.edge_index, rows.starts)
    allowed = {tensor.data_ptr() for tensor in of_retained}
    declared = [value for name, value in method.state().items() if name.endswith("nodes")]
    for tensor in held:
        if tensor.dtype is torch.int64 and tensor.data_ptr() not in allowed and tensor.numel() > 1:
            # The order of the retained ids, or what the state declares: retained nodes near a deletion.
            order = torch.equal(tensor.sort().values, torch.arange(task.graph.num_nodes))
            sorted_ids = torch.equal(tensor.sort().values, task.graph.ids.sort().values)
            assert order or sorted_ids or any(torch.equal(tensor, value) for value in declared)


@EACH
def test_the_same_request_gives_the_same_bits_and_another_seed_others(text):
    graph, task, request = setting()
    found = []
    for seed in (task.seed, task.seed, task.seed + 1):
        chosen = replace(task, seed=seed)
        method = fitted(text, chosen)
        retained = chosen.without(request)
        method.unlearn(request, retained)
        found.append(method.state() | {"says": answers(method, graph, retained)[0]})
    assert same(found[0], found[1]) == []
    assert same(found[0], found[2]) != []


@EACH
def test_labels_of_validation_and_test_nodes_change_no_parameter(text):
    made = cell(text)
    split = protocol.split(GRAPH, made.seed, made.dataset_identity, made.repetition)
    hidden = GRAPH.positions(torch.cat([split.val, split.test]))
    y = GRAPH.y.clone()
    y[hidden] = (y[hidden] + 1) % 3
    found = [run_cell(made, graph, surroundings()) for graph in (GRAPH, replace(GRAPH, y=y))]
    assert [record.status for record, _, _ in found] == ["ok", "ok"]
    (first, arrays, state), (second, others, other) = found
    assert same(state, other) == []
    assert all((arrays[name] == others[name]).all() for name in arrays)
    scores = [record.metrics["f1_micro"]["full"]["after"] for record in (first, second)]
    assert scores[0] != scores[1]


@EACH
@pytest.mark.parametrize("model", ["gat", "jknet"])
def test_each_warms_up_with_other_models(text, model):
    warm_up(cell(text, model=resolve(load_catalogue(), "model", model)), torch.device("cpu"))


def test_costs_are_counted():
    wanted = {"gnndelete[epochs=5]": 10, "megu[epochs=3]": 3, "scrub[epochs=3,max_steps=2]": 5, "gradient-ascent": 2}
    for text, steps in wanted.items():
        record, _, _ = run_cell(cell(text, training=Training(epochs=2)), GRAPH, surroundings())
        assert record.counts["steps"] == steps
        assert steps / 2 * 100 < record.counts["node_epochs"] <= steps * 140
        assert not record.digests["unchanged"]


@pytest.mark.slow
def test_all_run_on_digits(tmp_path):
    records = run(methods=["noop", *METHODS, *BASELINES, *OTHERS], epochs=10, repetitions=1, out=tmp_path, device="cpu")
    assert [record.label for record in records] == ["retrain", "noop", *METHODS, *BASELINES, *OTHERS]
    assert {record.status for record in records} == {"ok"}
    claims = [record.claim["claim"] for record in records]
    assert claims == ["exact", "none", *["approximate"] * (len(records) - 2)]
    scores = {record.label: record.metrics["f1_micro"]["full"]["after"] for record in records}
    assert min(scores.values()) > scores["noop"] - 0.15


@pytest.mark.slow
def test_all_serve_edges_and_only_unlinking_changes_nothing(tmp_path):
    methods = [
        "utu",
        "gif[iterations=5]",
        "idea[iterations=5]",
        "ceu[iterations=5]",
        "cgu",
        *METHODS,
        *BASELINES,
        *OTHERS,
    ]
    settings = {"datasets": "sbm[num_nodes=100,num_edges=300]", "epochs": 5, "repetitions": 1, "device": "cpu"}
    records = run(
        methods=methods, models=["gcn", "sgc"], forget_kind="edge", forget_ratio=0.05, out=tmp_path, **settings
    )
    refused = [("cgu", "gcn"), (METHODS[0], "sgc")]
    for record in records:
        wanted = "refused" if (record.label, record.cell["model"]["name"]) in refused else "ok"
        assert record.status == wanted, (record.label, record.notes)
        assert record.status == "refused" or record.digests["unchanged"] == (record.label == "utu"), record.label
    assert len(records) == 2 * (1 + len(methods))
