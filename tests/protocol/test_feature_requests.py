"""Requests of features: which become zero, what stays, who serves them exactly, and who must refuse."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import command, install, records_of
from exact_forgetting import check_forgets_exactly
from hypothesis import given, settings
from hypothesis import strategies as st
from torch_geometric.data import Data

import unlearnbench
from unlearnbench.errors import RefusedError, UsageError
from unlearnbench.measure.digests import digests
from unlearnbench.protocol import Forget, Protocol, Request, protocol
from unlearnbench.protocol.drawing import draw_features
from unlearnbench.protocol.poison import Poison
from unlearnbench.protocol.requests import ALL_COLUMNS
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell_codec import _protocol
from unlearnbench.running.config import make_config
from unlearnbench.running.outcome import RunContext
from unlearnbench.running.runner import run_cell
from unlearnbench.task import Task
from unlearnbench.testing.audits import toy_subject
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task
from unlearnbench.unlearning import Step
from unlearnbench_idea.bound import Constants, distance_bound
from unlearnbench_idea.idea import Idea, claimed

__all__ = ["command", "install"]

CPU = torch.device("cpu")

GRAPH = toy_graph(first_id=FIRST_ID)
NODES, COLUMNS = GRAPH.ids.tolist(), GRAPH.num_features


def drawn(forget: Forget, seed: int = 0) -> Request:
    return draw_features(forget, GRAPH.ids, GRAPH.num_nodes, COLUMNS, torch.Generator().manual_seed(seed))


@pytest.fixture(scope="module")
def task() -> Task:
    return toy_task(toy_graph(first_id=FIRST_ID))


@settings(max_examples=50, deadline=None)
@given(
    rows=st.sets(st.sampled_from(NODES), min_size=1),
    values=st.sets(st.tuples(st.sampled_from(NODES), st.integers(0, COLUMNS - 1)), min_size=1),
    one_by_one=st.booleans(),
)
def test_the_retained_task_differs_in_the_named_entries_alone(
    task: Task, rows: set[int], values: set[tuple[int, int]], one_by_one: bool
) -> None:
    before = task.graph.checksum()
    ids = tuple(sorted(values)) if one_by_one else tuple(sorted(rows))
    left = task.without(drawn(Forget(None, ids=ids, kind="feature"))).graph
    wanted = task.graph.x.clone()
    for row, node in enumerate(NODES):
        for column in range(COLUMNS):
            if (node, column) in values if one_by_one else node in rows:
                wanted[row, column] = 0
    assert torch.equal(left.x, wanted)
    for name in ("y", "edge_index", "ids"):
        assert torch.equal(getattr(left, name), getattr(task.graph, name))
    assert task.graph.checksum() == before


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(1, 60))
def test_drawn_requests_are_all_features_of_distinct_nodes(seed: int, count: int) -> None:
    request = drawn(Forget(None, count, kind="feature"), seed)
    assert request.ids[:, 0].tolist() == sorted(set(request.ids[:, 0].tolist()))
    assert (len(request.ids), request.ids[:, 1].unique().tolist()) == (count, [ALL_COLUMNS])
    assert torch.equal(request.nodes, request.ids[:, 0])
    assert int((request.apply(GRAPH).x != 0).any(dim=1).sum()) == 60 - count


def test_sparse_features_are_forgotten_in_subgraphs_too() -> None:
    x = torch.zeros(60, 200)
    x[:, 3], x[7, 5] = 1, 2
    graph = toy_graph(first_id=FIRST_ID)
    graph = replace(graph, x=x).induced(graph.ids[5:])
    assert graph.sparse_rows is not None
    left = Request(torch.tensor([[FIRST_ID + 7, 3]]), "feature").apply(graph)
    assert left.x[2].nonzero().tolist() == [[5]]
    assert torch.equal(left.induced(graph.ids[2:4]).x, left.x[2:4])
    assert graph.x[2].nonzero().tolist() == [[3], [5]]


@pytest.mark.parametrize(
    ("forget", "message"),
    [
        (Forget(None, None, (5,), "feature"), "`forget` 5: not a training node"),
        (Forget(None, None, ((NODES[0], COLUMNS),), "feature"), f"{NODES[0]}:{COLUMNS}: no such column, .* has"),
        (Forget(None, 61, kind="feature"), "features of 61 nodes is larger than the 60"),
        (Forget(0.001, kind="feature"), "of 60 nodes rounds to none"),
    ],
)
def test_what_cannot_be_drawn_is_named(forget: Forget, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        drawn(forget)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"forget": "3:1,4:0,3:1"}, "`forget` names 3:1 twice"),
        ({"forget": "3:1,4:x"}, "`forget` '4:x' is not a node and a column"),
        ({"forget": "x:1"}, "`forget` 'x:1' is not a whole number"),
        ({"forget": "3:1,4"}, "`forget` '4' is not a node and a column"),
        ({"forget": "3:-1"}, "`forget` '3:-1' is not a whole number"),
        ({"forget": [(3, -1)]}, "`forget` 3:-1: no such column"),
        ({"forget": [(3, 2**70)]}, f"`forget` 3:{2**70}: no such column"),
        ({"forget": "3-17"}, "`forget` '3-17' names an edge, but `forget_kind` is feature"),
        ({"forget": "3:17", "forget_kind": "node"}, "`forget` '3:17' names a feature, but `forget_kind` is node"),
        ({"protocol": "poison", "set": {"poison.edges": 3}}, r"poison\.edges: injected features have no edges"),
        ({"protocol": "poison", "forget_ratio": 0.1}, "forgets what it injects"),
    ],
)
def test_settings_that_do_not_fit_are_named(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_config({"methods": "sisa", "forget_kind": "feature", **values})


@pytest.mark.parametrize(
    ("forget", "protocol_name", "canonical"),
    [
        ("17,3", "www24", {"kind": "feature", "ids": [3, 17]}),
        ("17:2,3:0, 3 : 5", "www24", {"kind": "feature", "ids": [[3, 0], [3, 5], [17, 2]]}),
        (None, "www24", {"kind": "feature", "ratio": 0.005}),
        (None, "poison", {"kind": "feature", "injected": 100}),
    ],
)
def test_a_cell_names_its_request_and_is_read_back(forget: str | None, protocol_name: str, canonical: Any) -> None:
    config = make_config({"forget_kind": "feature", "forget": forget, "protocol": protocol_name})
    rules = Protocol(protocol_name, forget=config.forget_amount(), poison=config.poison())
    assert rules.canonical()["forget"] == canonical
    assert _protocol(rules.canonical()).canonical() == rules.canonical()


EXACT = [
    "retrain",
    "sisa[num_shards=4]",
    "sisa[num_shards=4,partitioner=hash,slices=3]",
    "sharded[num_shards=4,partitioner=random,aggregator=contrastive[sample=20]]",
    "tally",
    "tally[hops=1]",
    "tally[hops=1,normalisation=sym,random=relu,width=32]",
    "tally[solver=rows]",
]


@pytest.mark.parametrize("method", EXACT)
@pytest.mark.parametrize("ids", [(FIRST_ID + 3, FIRST_ID + 20), ((FIRST_ID + 3, 0), (FIRST_ID + 20, 2))])
def test_forgetting_features_equals_never_having_had_them(task: Task, method: str, ids: Any) -> None:
    spec = resolve(load_catalogue(), "unlearner", method)
    # The partition looks at ids alone, and no node is gone.
    check_forgets_exactly(spec, task, drawn(Forget(None, ids=ids, kind="feature")))


def test_members_of_other_shards_stay_and_nodes_of_no_shard_are_refused(task: Task) -> None:
    method = resolve(load_catalogue(), "unlearner", "sisa[num_shards=4]").build()
    method.fit(task)
    partition, before = method.kept()["partition"], digests(method.state())
    first = partition[partition[:, 1] == 2, 0][:2].sort().values
    request = Request.of_features(first)
    method.unlearn(request, task.without(request))
    assert {name for name, digest in digests(method.state()).items() if digest != before[name]} == {"members/002"}
    assert torch.equal(method.kept()["partition"], partition)
    with pytest.raises(RefusedError, match="1 nodes of the request are in no shard"):
        method.unlearn(Request.of_features(torch.tensor([5])), task)


@pytest.mark.parametrize("model", ["gcn", "sgc"])
def test_an_influence_step_counts_the_loss_of_the_nodes_that_stay(model: str) -> None:
    """Forgotten features that were zero leave no influence: former and retained losses are those of the same nodes."""
    task = toy_task(toy_graph(first_id=FIRST_ID), model=model)
    request = Request(torch.tensor([[FIRST_ID + 3, 0]]), "feature")
    zero = task.without(request)
    method = resolve(load_catalogue(), "unlearner", "gif").build()
    method.fit(zero)
    with pytest.raises(RefusedError, match="no-op"):
        method.unlearn(request, zero.without(request))
    method.fit(task)
    method.unlearn(request, zero)


def test_a_leak_keeps_a_share_of_the_features(task: Task) -> None:
    request = Request.of_features(task.graph.ids[:20])
    states = {}
    for name in ("retrain", "noop", "retrain-leak[k=0]", "retrain-leak[k=0.5]", "retrain-leak[k=1]"):
        method = resolve(load_catalogue(), "unlearner", name).build()
        method.fit(task)
        method.unlearn(request, task.without(request))
        states[name] = digests(method.state())
    assert states["retrain-leak[k=0]"] == states["retrain"] != states["retrain-leak[k=0.5]"]
    assert states["retrain-leak[k=1]"] == states["noop"] != states["retrain-leak[k=0.5]"]


@settings(max_examples=20, deadline=None)
@given(nodes=st.integers(1, 40), repetition=st.integers(0, 9))
def test_injected_features_are_those_of_another_class_and_the_request(nodes: int, repetition: int) -> None:
    rules = Protocol("poison", forget=Forget(kind="feature"), poison=Poison(nodes))
    data = protocol.repetition_data(rules, GRAPH, 0, "toy", repetition)
    train = protocol.split(GRAPH, 0, "toy", repetition).train
    assert torch.equal(data.split.train, train)
    assert data.clean is not None
    assert torch.equal(data.clean, train)
    assert (len(data.request.ids), data.request.kind) == (nodes, "feature")
    assert torch.equal(data.graph.y, GRAPH.y)
    assert torch.equal(data.graph.edge_index, GRAPH.edge_index)
    at = GRAPH.positions(data.request.nodes)
    assert GRAPH.ids[(data.graph.x != GRAPH.x).any(dim=1)].tolist() == data.request.nodes.tolist()
    label_of = {tuple(row.tolist()): int(label) for row, label in zip(GRAPH.x, GRAPH.y, strict=True)}
    for row, label in zip(data.graph.x[at], GRAPH.y[at], strict=True):
        assert label_of[tuple(row.tolist())] != int(label)
    with pytest.raises(UsageError, match="Features of 50 nodes"):
        protocol.repetition_data(Protocol("poison", forget=Forget(kind="feature"), poison=Poison(50)), GRAPH, 0, "t", 0)


@pytest.mark.slow
def test_a_run_forgets_features_at_inference_too_and_a_poisoned_one_is_scored(tmp_path: Path) -> None:
    common = {"num_shards": 3, "epochs": 3, "repetitions": 1, "forget_kind": "feature", "out": tmp_path}
    for record in unlearnbench.run(["sisa", "noop"], **common, forget_ratio=0.3):
        assert record.status == "ok", record.notes
        assert record.cell["protocol"]["forget"] == {"kind": "feature", "ratio": 0.3}
        assert record.requests[0]["count"] == 539
        scores = record.metrics["f1_macro"]["full"]
        assert record.label != "noop" or scores["after"] != scores["before"]
    poisoned = unlearnbench.run("sisa", **common, protocol="poison", set={"poison.nodes": 50})
    for record in poisoned:
        assert record.status == "ok", record.notes
        assert record.cell["protocol"]["poison"] == {"nodes": 50}
        scores = record.metrics["f1_micro"]["full"]
        assert set(scores) == {"before", "after", "clean", "fresh"}
        # Given the same partition, which looks at ids alone, what was never injected is what was forgotten.
        assert scores["clean"] == scores["after"]


def test_features_are_named_by_the_users_ids_and_columns(command: Any, tmp_path: Path) -> None:
    train = protocol.split(toy_graph(100, first_id=5000), 0, "toy", 0).train[:2].tolist()
    asked = ("run", "-m", "sisa", "-d", "toy", "--num-shards", "2", "--epochs", "2", "--repetitions", "1")
    asked = (*asked, "--forget-kind", "feature")
    told = command(*asked, "--forget", f"{train[1]}:0,{train[0]}:3")
    assert told.code == 0, told.err
    record = records_of(tmp_path / "runs")["sisa", 0]
    assert record.cell["protocol"]["forget"]["ids"] == [[train[0], 3], [train[1], 0]]
    assert "feature values forgotten" in told.err
    wrong = command(*asked, "--forget", f"{train[1]}:99999")
    assert wrong.code == 2
    assert f"--forget {train[1]}:99999: no such column" in wrong.err


def test_a_method_that_forgets_no_features_stops_the_run_before_any_training(command: Any, tmp_path: Path) -> None:
    told = command("run", "-m", "sisa,steady", "-d", "toy", "--forget-kind", "feature", "--num-shards", "2")
    assert told.code == 2
    assert "steady does not forget features" in told.err
    assert not list(tmp_path.glob("*/records"))


def test_a_certificate_counts_no_node_as_gone(task: Task) -> None:
    params, step = Idea.Params(), Step([torch.ones(1)], 4, None, 1.0, 0.0)  # type: ignore[arg-type]
    constants = Constants(params.lipschitz, params.convexity, params.loss)
    request = Request.of_features(task.graph.ids[:3])
    assert claimed(params, task, request, step) == distance_bound(constants, 60, 0, 4, 1.0)
    assert claimed(params, task, Request(task.graph.ids[:3]), step) == distance_bound(constants, 60, 3, 4, 1.0)


def test_a_method_used_directly_forgets_features_request_by_request() -> None:
    data = unlearnbench.task_from_data(Data(x=GRAPH.x, y=GRAPH.y, edge_index=GRAPH.edge_index), epochs=2)
    method = unlearnbench.method("sisa[num_shards=2]")
    method.fit(data)
    first, second, third = data.split.train[:3].tolist()
    with pytest.raises(UsageError, match="A feature is a node and a column"):
        method.forget(features=[(first, 1), (second, 1, 2)])
    with pytest.raises(UsageError, match=f"{first}:8: no such column"):
        method.forget(features=[(first, 8)])
    with pytest.raises(UsageError, match="takes nodes, edges or features"):
        method.forget([first], features=[second])
    before = method.predict([third])
    method.forget(features=[second, first])
    method.forget(features=torch.tensor([[third, 7]]))
    assert not torch.equal(method.predict([third]), before)
    assert method.state().forgotten.tolist() == [[first, -1], [second, -1], [third, 7]]
    assert method.state().cell["protocol"]["forget"]["kind"] == "feature"
    with pytest.raises(UsageError, match="features were forgotten before"):
        method.forget([first])


@pytest.mark.parametrize("columns", [40, 200], ids=["sparse afterwards", "sparse"])
@pytest.mark.parametrize("method", ["retrain", "tally"])
def test_features_are_compressed_before_a_method_gets_them(columns: int, method: str) -> None:
    """Else the first to ask for them seemed to have changed the graph."""
    graph = toy_graph(first_id=FIRST_ID, num_features=columns)
    graph = replace(graph, x=graph.x * (torch.arange(columns) < 7))
    catalogue = load_catalogue()
    subject = toy_subject(method, graph, forget=0.2, epochs=2, catalogue=catalogue, kind="feature")
    context = RunContext(CPU, 1, "toy", [resolve(catalogue, "metric", "f1_micro")], {"packages": {}, "plugins": {}})
    record, _, _ = run_cell(subject.cell, graph, context)
    assert record.status == "ok", record.notes
    retained = subject.request.apply(subject.train_graph)
    assert (subject.train_graph.sparse_rows is None, retained.sparse_rows is None) == (columns == 40, False)
