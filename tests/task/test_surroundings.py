"""Inductive or transductive: what training, queries and forgetting see of nodes that are no training nodes."""

from __future__ import annotations

import warnings
from dataclasses import replace

import pytest
import torch
from cell_samples import CATALOGUE, GRAPH, cell
from cell_samples import surroundings as run_context
from plain_versions import edges_by_id
from pyg_models import PygGCN, far
from torch.nn import functional

import unlearnbench
from unlearnbench.datasets.base import little_seen
from unlearnbench.errors import UsageError
from unlearnbench.gnn import train_networks
from unlearnbench.gnn.sampling import NeighbourSampler
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, Protocol, Request
from unlearnbench.protocol.poison import Poison
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.frame.record_groups import group_records
from unlearnbench.running.backends.sealed import seal, unseal
from unlearnbench.running.cell_codec import cell_from_plain, cell_to_plain
from unlearnbench.running.config import make_config
from unlearnbench.running.plan import make_plan
from unlearnbench.running.runner import cell_data, run_cell, run_unscored
from unlearnbench.task import Training, View, make_query, surroundings
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task

TRANSDUCTIVE = Protocol(forget=Forget(0.02), setting="transductive")
# A path 10-11-12-13-14; nodes 12 and 14 are no training nodes.
PATH = Graph(
    torch.eye(5),
    torch.tensor([0, 1, 0, 1, 0]),
    torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]]),
    torch.arange(10, 15),
    2,
)
TRAIN, OTHERS = torch.tensor([10, 11, 13]), torch.tensor([12, 14])


def task_on(graph, train, others, **changes):
    task = toy_task(graph.induced(train), model=changes.pop("model", "gcn"))
    return replace(task, surroundings=surroundings(graph, others, task.device), **changes)


def pairs(graph):
    return sorted({tuple(sorted(pair)) for pair in edges_by_id(graph)})


def test_training_sees_every_edge_and_the_labels_of_training_nodes_alone():
    task = task_on(PATH, TRAIN, OTHERS)
    assert task.seen.ids.tolist() == [10, 11, 13, 12, 14]
    assert task.seen.y.tolist() == [0, 1, 1, -1, -1]
    assert pairs(task.seen) == [(10, 11), (11, 12), (12, 13), (13, 14)]
    assert torch.equal(task.seen.x, PATH.x[[0, 1, 3, 2, 4]])
    assert pairs(task.graph) == [(10, 11)]
    # An inductive task has nothing but its graph.
    assert toy_task().seen is not None
    plain = toy_task()
    assert plain.seen is plain.graph


def test_a_forgotten_node_vanishes_with_its_edges_from_training_and_queries():
    task = task_on(PATH, TRAIN, OTHERS)
    retained = task.without(Request(torch.tensor([11])))
    assert pairs(retained.seen) == [(12, 13), (13, 14)]
    assert 11 not in retained.surroundings.links
    # However a task without the node is made.
    assert 11 not in replace(task, graph=retained.graph).surroundings.links
    query = make_query(PATH, retained.graph.ids, torch.tensor([14]), View.SHARD, task.device, OTHERS)
    assert sorted(query.graph.ids.tolist()) == [10, 12, 13, 14]
    assert query.graph.y.tolist() == [-1] * 4
    assert pairs(query.context(torch.tensor([13]))) == [(12, 13), (13, 14)]
    assert query.context(torch.tensor([10])).ids.tolist() == [10, 14, 12]
    without_edge = task.without(Request(torch.tensor([[10, 11]]), "edge"))
    assert pairs(without_edge.seen) == [(11, 12), (12, 13), (13, 14)]


def test_a_shard_sees_its_own_training_nodes_and_all_others():
    task = task_on(PATH, TRAIN, OTHERS)
    first, second = task.parts(TRAIN, torch.tensor([0, 1, 1]), [0, 1])
    assert first.ids.tolist() == [10, 12, 14]
    assert pairs(first) == []
    assert second.ids.tolist() == [11, 13, 12, 14]
    assert second.y.tolist() == [1, 1, -1, -1]
    assert pairs(second) == [(11, 12), (12, 13), (13, 14)]
    asked = make_query(PATH, TRAIN, torch.tensor([14]), View.SHARD, task.device, OTHERS)
    contexts = [graph.ids.tolist() for graph in asked.contexts(TRAIN, torch.tensor([0, 1, 1]), [0, 1])]
    assert contexts == [[10, 14, 12], [11, 13, 14, 12]]


@pytest.mark.parametrize("graph", [PATH, toy_graph(40, edges=90, first_id=FIRST_ID)])
def test_a_network_equals_pygs_trained_with_a_mask(graph):
    train = TRAIN if graph is PATH else graph.ids[::3]
    others = graph.ids[~torch.isin(graph.ids, train)]
    task = task_on(graph, train, others, model="gcn[hidden=8,dropout=0]", training=Training(epochs=12))
    start = train_networks(replace(task, training=Training(epochs=0)), [task.seen], [0]).state(0)
    module = PygGCN(graph.num_features, graph.num_classes, 8, 0.0).take(start)
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=5e-4)
    mask = torch.isin(graph.ids, train)
    for _ in range(12):
        optimiser.zero_grad()
        functional.cross_entropy(module(graph.x, graph.edge_index)[mask], graph.y[mask]).backward()
        optimiser.step()
    gap, moved = far(module, start, train_networks(task, [task.seen], [0]).state(0))
    assert moved > 0.05
    assert gap < 1e-4


@pytest.mark.parametrize("batch_size", [0, 3])
def test_shards_trained_together_have_the_bits_of_each_alone(batch_size):
    graph = toy_graph(40, edges=90)
    task = task_on(graph, graph.ids[:20], graph.ids[20:], training=Training(epochs=3, batch_size=batch_size))
    parts = list(task.parts(graph.ids[:20], torch.arange(20) // 14, [0, 1]))
    together = train_networks(task, parts, [0, 1])
    for place, part in enumerate(parts):
        alone = train_networks(task, [part], [place]).state(0)
        assert all(torch.equal(value, alone[name]) for name, value in together.state(place).items())


def test_batches_are_drawn_from_nodes_with_a_label():
    task = task_on(toy_graph(40, edges=90), torch.arange(20), torch.arange(20, 40))
    batches = NeighbourSampler(task.seen).batches(8, (5, 5), torch.Generator().manual_seed(0))
    counted = [graph.ids[:count] for graph, count in batches]
    assert [len(ids) for ids in counted] == [8, 8, 4]
    assert torch.cat(counted).sort().values.tolist() == list(range(20))


@pytest.mark.parametrize("method", ["retrain", "sisa[num_shards=3]", "gif[iterations=2]"])
def test_labels_of_other_nodes_change_nothing_and_other_features_do(method):
    record, arrays, _ = run_cell(cell(method, protocol=TRANSDUCTIVE), GRAPH, run_context())
    assert record.status == "ok", record.error
    other = ~torch.isin(GRAPH.ids, torch.from_numpy(arrays["train"]))
    noisy = replace(GRAPH, y=torch.where(other, (GRAPH.y + 1) % 3, GRAPH.y))
    shifted = replace(GRAPH, x=torch.where(other[:, None], GRAPH.x + 1, GRAPH.x))
    digests = [
        run_cell(cell(method, graph, protocol=TRANSDUCTIVE), graph, run_context())[0].digests
        for graph in (noisy, shifted)
    ]
    assert digests[0] == record.digests
    assert digests[1]["before"] != record.digests["before"]
    inductive, _, _ = run_cell(cell(method), GRAPH, run_context())
    assert inductive.digests["before"] != record.digests["before"]
    assert inductive.requests[0]["ids_sha256"] == record.requests[0]["ids_sha256"]


def test_only_a_transductive_cell_names_its_setting_and_it_comes_back():
    inductive, transductive = cell("retrain"), cell("retrain", protocol=TRANSDUCTIVE)
    assert "setting" not in inductive.canonical()["protocol"]
    assert transductive.canonical()["protocol"]["setting"] == "transductive"
    assert cell_from_plain(cell_to_plain(transductive), CATALOGUE).key == transductive.key != inductive.key


@pytest.mark.parametrize("poison", [None, Poison(5, 4)])
def test_a_process_of_its_own_gets_the_setting_too(poison):
    protocol = replace(TRANSDUCTIVE, poison=poison)
    data_here = cell_data(cell("retrain", protocol=protocol), GRAPH)
    there = unseal(seal(data_here))
    assert there.unlabelled is not None
    assert torch.equal(there.unlabelled, data_here.unlabelled)
    assert bool((there.graph.y[there.graph.positions(there.unlabelled)] == -1).all())
    records = [run_unscored(cell("retrain", protocol=protocol), one, run_context())[0] for one in (data_here, there)]
    assert records[0].status == "ok", records[0].error
    assert records[0].digests == records[1].digests


def test_settings_never_share_a_table():
    records = [
        run_cell(cell("retrain", protocol=one), GRAPH, run_context())[0]
        for one in (cell("retrain").protocol, TRANSDUCTIVE)
    ]
    groups = group_records(frame_of(records))
    assert [len(group.rows) for group in groups] == [1, 1]
    assert {group.facets["protocol"] for group in groups} == {"www24", "www24-transductive"}
    assert sum(group.name.endswith(", transductive") for group in groups) == 1


@pytest.mark.parametrize("method", ["tally", "cgu", "graph-editor", "smoothed[method=sisa]", "idea"])
def test_a_method_that_lacks_the_setting_is_refused_before_any_training(method, tmp_path):
    model = "sgc" if method in ("cgu", "graph-editor") else "gcn"
    config = make_config({"methods": [method], "models": [model], "setting": "transductive", "out": tmp_path})
    with pytest.raises(UsageError, match="does not support the transductive setting") as caught:
        make_plan(config, CATALOGUE)
    assert caught.value.hint == "Leave it out, or use `setting` inductive."
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        task = unlearnbench.task_from_data(data(GRAPH), model=model, setting="transductive", epochs=2)
    with pytest.raises(UsageError, match="does not support the transductive setting"):
        unlearnbench.method(method).fit(task)


def data(graph, **more):
    return {"x": graph.x, "y": graph.y, "edge_index": graph.edge_index, **more}


def test_a_method_forgets_in_a_script_and_goes_on_after_a_restart(tmp_path):
    graph = toy_graph(80, edges=300)
    task = unlearnbench.task_from_data(data(graph), setting="transductive", epochs=3)
    method, fresh = (unlearnbench.method("sisa[num_shards=3,partitioner=hash]") for _ in range(2))
    method.fit(task)
    first, second = task.split.train[:2].tolist()
    method.forget([first])
    method.save(tmp_path / "state.pt")
    again = unlearnbench.load_method(tmp_path / "state.pt", data(graph))
    for one in (method, again):
        one.forget([second])
    assert torch.equal(method.predict(), again.predict())
    fresh.fit(task)
    fresh.forget([first, second])
    assert torch.equal(method.predict(view="full"), fresh.predict(view="full"))


def test_who_sees_little_of_a_graph_is_warned_and_how_to_see_more(tmp_path):
    graph = toy_graph(80, edges=300)
    order = torch.arange(80)
    masks = {"train_mask": order < 6, "val_mask": (order >= 6) & (order < 40), "test_mask": order >= 40}
    seen = len(graph.induced(order[:6]).pairs())
    text = f"training sees 6 of 80 nodes and {seen} of {len(graph.pairs())} undirected pairs"
    with pytest.warns(UserWarning, match=f'{text}.*setting="transductive"'):
        unlearnbench.task_from_data(data(graph, **masks), epochs=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        unlearnbench.task_from_data(data(graph, **masks), epochs=1, setting="transductive")
        unlearnbench.task_from_data(data(graph), epochs=1)
    torch.save(data(graph, **masks), tmp_path / "graph.pt")
    settings = {"methods": ["retrain"], "datasets": [f"file:{tmp_path / 'graph.pt'}"], "forget_count": 1}
    for setting, wanted in (("inductive", 1), ("transductive", 0)):
        plan = make_plan(make_config({**settings, "setting": setting, "out": tmp_path}), CATALOGUE)
        assert sum(text in note and "`setting` transductive" in note for note in plan.notices) == wanted


def test_few_edges_are_little_even_where_nodes_are_many():
    star = Graph(
        torch.eye(12),
        torch.arange(12) % 2,
        torch.stack([torch.zeros(11).long(), torch.arange(1, 12)]),
        torch.arange(12),
        2,
    )
    assert "training sees 6 of 12 nodes and 0 of 11 undirected pairs" in little_seen(star, torch.arange(6, 12))
    assert little_seen(star, torch.arange(6)) == ""
