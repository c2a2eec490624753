"""Requests of edges: what an edge is, what goes, what it costs, and who must refuse."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import command, install, records_of
from exact_forgetting import check_forgets_exactly
from hypothesis import given, settings
from hypothesis import strategies as st

import unlearnbench
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.measure.digests import digests
from unlearnbench.protocol import Forget, Request
from unlearnbench.protocol.drawing import draw_edges
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.config import make_config
from unlearnbench.task.training import Silent
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task

__all__ = ["command", "install"]

# The example of PAINS A8: one edge twice, loops, one direction alone.
ODD = Graph(
    torch.randn(4, 2),
    torch.tensor([0, 1, 0, 1]),
    torch.tensor([[0, 0, 1, 2, 2, 3], [1, 1, 2, 2, 0, 3]]),
    torch.tensor([10, 11, 12, 13]),
    2,
)


def test_all_copies_of_an_edge_go_and_nothing_else() -> None:
    left = Request(torch.tensor([[10, 11]]), "edge").apply(ODD)
    assert left.ids[left.edge_index].T.tolist() == [[11, 12], [12, 12], [12, 10], [13, 13]]
    assert torch.equal(left.ids, ODD.ids)
    assert ODD.num_edges == 6
    assert ODD.copies(torch.tensor([[11, 10], [11, 12], [10, 99]])).tolist() == [True, True, True, False, False, False]


def test_the_nodes_of_a_request_are_those_forgotten_or_the_ends_of_its_edges() -> None:
    nodes, edges = Request(torch.tensor([10, 12])), Request(torch.tensor([[10, 11], [11, 12]]), "edge")
    assert (nodes.nodes.tolist(), nodes.removed.tolist()) == ([10, 12], [10, 12])
    assert (edges.nodes.tolist(), edges.removed.tolist()) == ([10, 11, 12], [])


def test_a_pair_counts_once_and_a_loop_not_at_all() -> None:
    assert ODD.pairs().tolist() == [[10, 11], [10, 12], [11, 12]]
    drawn = draw_edges(Forget(0.5, kind="edge"), ODD, len(ODD.pairs()), torch.Generator().manual_seed(0))
    assert drawn.ids.shape == (2, 2)


@settings(max_examples=30, deadline=None)
@given(seed=st.integers(0, 1000), count=st.integers(1, 40))
def test_a_drawn_edge_joins_training_nodes_and_is_drawn_once(seed: int, count: int) -> None:
    train = toy_graph(first_id=FIRST_ID).induced(torch.arange(10, 60) + FIRST_ID)
    request = draw_edges(Forget(None, count, kind="edge"), train, 10**6, torch.Generator().manual_seed(seed))
    known = set(map(tuple, train.pairs().tolist()))
    drawn = list(map(tuple, request.ids.tolist()))
    assert len(set(drawn)) == len(drawn) == count
    assert set(drawn) <= known
    left = request.apply(train)
    assert set(map(tuple, left.pairs().tolist())) == known - set(drawn)
    assert left.num_edges == train.num_edges - 2 * count
    assert left.num_nodes == train.num_nodes


def test_a_request_of_edges_is_served_whole_or_not_at_all() -> None:
    with pytest.raises(UsageError, match="1 edges of the request"):
        Request(torch.tensor([[10, 11], [10, 13]]), "edge").apply(ODD)


@pytest.mark.parametrize(
    ("forget", "message"),
    [
        (Forget(None, None, ((10, 13),), "edge"), "10-13: no edge"),
        (Forget(None, 4, kind="edge"), "larger than the 3 edges"),
        (Forget(0.1, kind="edge"), "rounds to none"),
    ],
)
def test_what_cannot_be_drawn_is_told(forget: Forget, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        draw_edges(forget, ODD, len(ODD.pairs()), torch.Generator())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"forget": [1, 2], "forget_kind": "edge"}, "does not name edges"),
        ({"forget": [(1, 2)]}, "does not name nodes"),
        ({"forget": [(1, 2), (3, 4), (1, 2)], "forget_kind": "edge"}, "1-2 twice"),
        ({"forget": [(3, 3)], "forget_kind": "edge"}, "self-loop"),
        ({"forget_kind": "edge", "protocol": "poison"}, "forgets what it injects"),
        ({"forget_kind": "label"}, "forget_kind"),
    ],
)
def test_settings_that_do_not_fit_are_told(values: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_config({"methods": "sisa", **values})


def test_an_edge_named_in_both_directions_is_one_edge() -> None:
    both, one = (Forget(None, ids=ids, kind="edge") for ids in (((12, 10), (10, 11), (11, 10)), ((10, 11), (10, 12))))
    assert both.canonical() == one.canonical() == {"kind": "edge", "ids": [[10, 11], [10, 12]]}
    assert both.number_of(3) == 2
    assert draw_edges(both, ODD, 3, torch.Generator()).ids.tolist() == [[10, 11], [10, 12]]
    with pytest.raises(UsageError, match="`forget` 11-13: no edge"):
        draw_edges(Forget(None, ids=((10, 11), (13, 11)), kind="edge"), ODD, 3, torch.Generator())


@pytest.mark.parametrize(
    "method",
    [
        "retrain",
        "sisa[num_shards=4]",
        "sisa[num_shards=4,partitioner=hash]",
        "sisa[num_shards=4,slices=3]",
        "sharded[num_shards=4,partitioner=random,aggregator=contrastive[sample=20]]",
    ],
)
def test_forgetting_edges_equals_never_having_had_them(method: str) -> None:
    task = toy_task(toy_graph(first_id=FIRST_ID))
    spec = resolve(load_catalogue(), "unlearner", method)
    request = draw_edges(
        Forget(0.1, kind="edge"), task.graph, len(task.graph.pairs()), torch.Generator().manual_seed(1)
    )
    # The shuffle and the hash look at ids alone, and no node is gone.
    check_forgets_exactly(spec, task, request)


def test_an_edge_between_shards_costs_no_member_and_the_count_says_so() -> None:
    counted: dict[str, int] = {}

    class CountingListener(Silent):
        def count(self, **amounts: int) -> None:
            for name, amount in amounts.items():
                counted[name] = counted.get(name, 0) + amount

    from dataclasses import replace

    task = replace(toy_task(toy_graph(first_id=FIRST_ID)), listener=CountingListener())
    method = resolve(load_catalogue(), "unlearner", "sisa[num_shards=4]").build()
    method.fit(task)
    shard = dict(method.kept()["partition"].tolist())
    pairs = task.graph.pairs().tolist()
    between = [pair for pair in pairs if shard[pair[0]] != shard[pair[1]]][:3]
    inside = [pair for pair in pairs if shard[pair[0]] == shard[pair[1]]][:1]
    before = digests(method.state())
    counted.clear()
    request = Request(torch.tensor(between), "edge")
    retained = task.without(request)
    method.unlearn(request, retained)
    assert digests(method.state()) == before
    assert counted["shards_hit"] == 0
    assert counted["edges_between_shards"] == 3
    counted.clear()
    request = Request(torch.tensor(inside), "edge")
    method.unlearn(request, retained.without(request))
    changed = {name for name, digest in digests(method.state()).items() if digest != before[name]}
    assert changed == {f"members/{shard[inside[0][0]]:03d}"}
    assert counted["shards_hit"] == 1


def test_a_run_forgets_edges_and_scores_without_them(tmp_path: Path) -> None:
    records = unlearnbench.run(
        ["sisa", "noop"], num_shards=3, epochs=3, repetitions=1, forget_kind="edge", out=tmp_path
    )
    pairs = None
    for record in records:
        assert record.status == "ok", record.notes
        assert record.cell["protocol"]["forget"] == {"kind": "edge", "ratio": 0.005}
        count = record.requests[0]["count"]
        pairs = pairs or count
        assert count == pairs > 9
    by_label = {record.label: record for record in records}
    assert by_label["sisa[num_shards=3]"].counts["edges_between_shards"] > 0
    assert by_label["noop"].digests["unchanged"]


def test_a_method_that_forgets_no_edges_stops_the_run_before_any_training(command: Any, tmp_path: Path) -> None:
    told = command("run", "-m", "sisa,steady", "-d", "toy", "--forget-kind", "edge", "--num-shards", "2")
    assert told.code == 2
    assert "steady does not forget edges" in told.err
    assert not list(tmp_path.glob("*/records"))


def test_edges_are_named_by_the_users_ids(command: Any, tmp_path: Path) -> None:
    graph = toy_graph(100, first_id=5000)
    from unlearnbench.protocol import protocol

    train = graph.induced(protocol.split(graph, 0, "toy", 0).train)
    (first, second), (third, fourth) = train.pairs()[:2].tolist()
    asked = ("run", "-m", "sisa", "-d", "toy", "--num-shards", "2", "--epochs", "2", "--repetitions", "1")
    told = command(*asked, "--forget-kind", "edge", "--forget", f"{second}-{first},{third}-{fourth}")
    assert told.code == 0, told.err
    record = records_of(tmp_path / "runs")["sisa", 0]
    assert record.cell["protocol"]["forget"]["ids"] == [[first, second], [third, fourth]]
    assert "2 of" in told.err
    assert command(*asked, "--forget-kind", "edge", "--forget", "1-2,x").code == 2
