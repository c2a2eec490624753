"""Partitioners that follow edges: label propagation, linear deterministic greedy, METIS."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import ONCE, command, install
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.component import Spec
from unlearnbench.gnn import GCN
from unlearnbench.graph import Graph
from unlearnbench.graph.neighbours import neighbours
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task, Training
from unlearnbench.testing.graphs import toy_graph
from unlearnbench.unlearning.partitioning import checked_partition, partition_statistics, shard_bounds
from unlearnbench_grapheraser.blpa import Blpa, grant, start_balanced, wishes
from unlearnbench_grapheraser.capacity import size_limits
from unlearnbench_partitioners.ldg import Ldg
from unlearnbench_partitioners.metis import Metis
from unlearnbench_partitioners.streaming import place, release

__all__ = ["command", "install"]

needs_metis = pytest.mark.skipif(importlib.util.find_spec("pymetis") is None, reason="pymetis is not installed")
PARTITIONERS = [Blpa, Ldg, pytest.param(Metis, marks=needs_metis)]


def graph_of(pairs: list[tuple[int, int]], n: int, both: bool = True) -> Graph:
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).t()
    edges = torch.cat([edges, edges.flip(0)], dim=1) if both else edges
    return Graph(torch.ones(n, 2), torch.arange(n) % 2, edges, torch.arange(n) + 10**9, 2)


def make_task(graph: Graph, seed: int = 0) -> Task:
    model = Spec("model", "gcn", GCN.version, GCN, GCN.Params())
    return Task(graph, model, Training(epochs=1), torch.device("cpu"), seed)


def cliques(count: int, size: int) -> Graph:
    """Cliques, their nodes dealt out in turn, without edges between them."""
    return graph_of(
        [
            (a, b)
            for k in range(count)
            for a in range(k, count * size, count)
            for b in range(a + count, count * size, count)
        ],
        count * size,
    )


@st.composite
def graphs(draw: st.DrawFn, most: int = 24) -> Graph:
    n = draw(st.integers(1, most))
    end = st.integers(0, n - 1)
    # Loops, doubles and one-way edges are all allowed.
    return graph_of(draw(st.lists(st.tuples(end, end), max_size=3 * n)), n, both=draw(st.booleans()))


def test_neighbours_by_hand() -> None:
    graph = graph_of([(0, 1), (0, 1), (1, 0), (2, 2), (3, 1)], 5, both=False)
    starts, members = neighbours(graph)
    assert starts.tolist() == [0, 1, 3, 3, 4, 4]
    assert members.tolist() == [1, 0, 3, 1]


@pytest.mark.parametrize("cls", PARTITIONERS)
@settings(max_examples=60, deadline=None)
@given(graph=graphs(), count=st.integers(1, 6), slack=st.sampled_from([0.0, 0.1, 0.5]), seed=st.integers(0, 3))
def test_every_node_has_one_shard_within_the_limits_and_always_the_same(
    cls: type[Any], graph: Graph, count: int, slack: float, seed: int
) -> None:
    n = graph.num_nodes
    count = min(count, n)
    task = make_task(graph, seed)
    shard = checked_partition(cls(cls.Params(slack=slack)), task, count)
    assert torch.equal(shard, checked_partition(cls(cls.Params(slack=slack)), task, count))
    sizes = torch.bincount(shard, minlength=count)
    low, high = shard_bounds(n, count, slack)
    assert int(sizes.sum()) == n
    assert low <= int(sizes.min()) <= int(sizes.max()) <= high


@pytest.mark.slow
@settings(max_examples=60, deadline=None)
@given(graph=graphs(), count=st.integers(1, 6), delta=st.sampled_from([0.0, 0.005, 0.3, 1.0]))
def test_label_propagation_keeps_the_capacity_of_the_paper(graph: Graph, count: int, delta: float) -> None:
    count = min(count, graph.num_nodes)
    shard = checked_partition(Blpa(Blpa.Params(capacity="paper", delta=delta)), make_task(graph), count)
    _, high = size_limits(graph.num_nodes, count, "paper", 0.1, delta)
    assert int(torch.bincount(shard).max()) <= high


# Label propagation from a start by chance may leave a group in two shards; by chance a fifth of the edges stay.
@pytest.mark.parametrize(("cls", "least"), [(Blpa, 0.6), (Ldg, 1.0), pytest.param(Metis, 1.0, marks=needs_metis)])
def test_groups_without_edges_between_them_are_found(cls: type[Any], least: float) -> None:
    graph = cliques(4, 12)
    kept = partition_statistics(graph, checked_partition(cls(cls.Params(slack=0.5)), make_task(graph), 4), 4)
    assert float(str(kept["edges_kept"])) >= least


@pytest.mark.parametrize("cls", PARTITIONERS)
def test_more_edges_stay_whole_than_by_chance_and_another_seed_may_give_another_answer(cls: type[Any]) -> None:
    graph = toy_graph(num_nodes=200, edges=400)
    shards = [checked_partition(cls(cls.Params()), make_task(graph, seed), 5) for seed in range(3)]
    kept = [float(str(partition_statistics(graph, shard, 5)["edges_kept"])) for shard in shards]
    assert min(kept) > 0.3
    assert any(not torch.equal(shards[0], other) for other in shards[1:])


# --- label propagation ------------------------------------------------------------------------


def slow_round(
    graph: Graph, shard: list[int], count: int, low: int, high: int, choose: Callable[[int, list[int]], int]
) -> list[int]:
    """One round in plain words: sets of neighbours, lists of who waits, sizes counted anew each time."""
    n = graph.num_nodes
    near: list[set[int]] = [set() for _ in range(n)]
    for a, b in graph.edge_index.t().tolist():
        if a != b:
            near[a].add(b)
            near[b].add(a)
    wish: dict[int, tuple[int, int]] = {}
    for v in range(n):
        votes = [sum(shard[u] == k for u in near[v]) for k in range(count)]
        if max(votes, default=0) > 0:
            best = [k for k in range(count) if votes[k] == max(votes)]
            wish[v] = choose(v, best), max(votes)
    now = list(shard)
    waiting: dict[int, list[int]] = {k: [] for k in range(count)}
    for v in sorted((v for v in wish if wish[v][0] != shard[v]), key=lambda v: -wish[v][1]):
        if now.count(wish[v][0]) == high or now.count(now[v]) == low:
            waiting[wish[v][0]].append(v)
            continue
        mover: int | None = v
        while mover is not None:
            left, now[mover] = now[mover], wish[mover][0]
            mover = None
            while waiting[left] and mover is None:
                u = waiting[left].pop(0)
                mover = u if now.count(now[u]) > low else None
    return now


@settings(max_examples=150, deadline=None)
@given(graph=graphs(), count=st.integers(1, 5), slack=st.sampled_from([0.0, 0.1, 0.3, 0.9]), seed=st.integers(0, 9))
def test_label_propagation_is_the_slow_version(graph: Graph, count: int, slack: float, seed: int) -> None:
    n = graph.num_nodes
    count = min(count, n)
    low, high = shard_bounds(n, count, slack)
    generator = torch.Generator().manual_seed(seed)
    starts, members = neighbours(graph)
    shard = start_balanced(n, count, generator)
    for _ in range(3):
        wish, votes = wishes(starts, members, shard, count, generator)

        def choose(v: int, best: list[int], wish: torch.Tensor = wish) -> int:
            assert int(wish[v]) in best
            return int(wish[v])

        moved = grant(wish, votes, shard, count, low, high)
        assert moved.tolist() == slow_round(graph, shard.tolist(), count, low, high, choose)
        lonely = starts.diff() == 0
        assert bool((wish[lonely] == -1).all())
        assert torch.equal(moved[lonely], shard[lonely])
        shard = moved


def test_ties_are_drawn_among_all_that_have_most() -> None:
    # Node 0 has two neighbours in shards 0 and 2 each, and one in shard 1.
    graph = graph_of([(0, v) for v in range(1, 6)], 6)
    shard = torch.tensor([1, 0, 0, 1, 2, 2])
    starts, members = neighbours(graph)
    drawn = {int(wishes(starts, members, shard, 3, torch.Generator().manual_seed(s))[0][0]) for s in range(20)}
    assert drawn == {0, 2}


def test_one_vacancy_takes_in_one_node_by_hand() -> None:
    # Shards of two to three. 0, 1 and 2 wait for the full shard 1; 3 leaves it for shard 2: 0 alone takes its place.
    shard = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2])
    wish = torch.tensor([1, 1, 1, 2, -1, -1, -1, -1])
    count = torch.tensor([9, 8, 7, 1, 0, 0, 0, 0])
    assert grant(wish, count, shard, 3, 2, 3).tolist() == [1, 0, 0, 2, 1, 1, 2, 2]


def test_a_chain_goes_on_with_the_former_shard_by_hand() -> None:
    # 3 waits for shard 0, 6 for shard 1; when 0 leaves for shard 3, 3 takes its place and 6 that of 3.
    shard = torch.tensor([0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3])
    wish = torch.tensor([3, -1, -1, 0, -1, -1, 1, -1, -1, -1, -1])
    count = torch.tensor([1, 0, 0, 3, 0, 0, 2, 0, 0, 0, 0])
    assert grant(wish, count, shard, 4, 1, 3).tolist() == [3, 0, 0, 0, 1, 1, 1, 2, 2, 3, 3]


def test_nobody_leaves_a_shard_at_its_smallest() -> None:
    shard = torch.tensor([0, 0, 1, 1, 1])
    wish = torch.tensor([1, -1, -1, -1, -1])
    count = torch.tensor([1, 0, 0, 0, 0])
    assert grant(wish, count, shard, 2, 2, 4).tolist() == shard.tolist()
    assert grant(wish, count, shard, 2, 1, 4).tolist() == [1, 0, 1, 1, 1]


def test_label_propagation_ends_on_a_graph_whose_wishes_never_rest() -> None:
    # Two shards of a complete bipartite graph exchange their wishes in each round.
    graph = graph_of([(a, b) for a in range(10) for b in range(10, 20)], 20)
    shard = checked_partition(Blpa(Blpa.Params(slack=0.9)), make_task(graph), 2)
    assert int(torch.bincount(shard).min()) >= 1


def test_grapheraser_takes_label_propagation() -> None:
    task = make_task(toy_graph(num_nodes=60))
    for parts in ("partitioner=blpa", "preset=paper,partitioner=blpa[capacity=paper]"):
        method = resolve(load_catalogue(), "unlearner", f"grapheraser[num_shards=3,{parts}]").build()
        method.fit(task)
        assert torch.equal(
            method.kept()["partition"][:, 1], checked_partition(method.params.partitioner.build(), task, 3)
        )
        assert method.claim_reason == "content"


# --- linear deterministic greedy --------------------------------------------------------------


def slow_greedy(order: list[int], graph: Graph, shard: list[int], count: int, low: int, high: int) -> list[int]:
    near: list[set[int]] = [set() for _ in shard]
    for a, b in graph.edge_index.t().tolist():
        if a != b:
            near[a].add(b)
            near[b].add(a)
    for at, v in enumerate(order):
        left = len(order) - at
        lacking = sum(max(0, low - shard.count(k)) for k in range(count))
        open_shards = [k for k in range(count) if shard.count(k) < (low if left == lacking else high)]
        # Times `high`: whole numbers have no rounding that could decide a tie.
        shard[v] = min(
            open_shards,
            key=lambda k: (-sum(shard[u] == k for u in near[v]) * (high - shard.count(k)), shard.count(k), k),
        )
    return shard


@settings(max_examples=150, deadline=None)
@given(graph=graphs(), count=st.integers(1, 5), slack=st.sampled_from([0.0, 0.1, 0.9]), seed=st.integers(0, 9))
def test_placing_is_the_slow_version(graph: Graph, count: int, slack: float, seed: int) -> None:
    n = graph.num_nodes
    count = min(count, n)
    low, high = shard_bounds(n, count, slack)
    order = torch.randperm(n, generator=torch.Generator().manual_seed(seed))
    nobody = torch.full((n,), -1)
    placed = place(order, *neighbours(graph), nobody, count, low, high)
    assert placed.tolist() == slow_greedy(order.tolist(), graph, [-1] * n, count, low, high)
    assert bool((nobody == -1).all())


def test_placing_by_hand() -> None:
    # Capacity 4. Node 4 has two neighbours in shard 0 of three (2 * 1/4) and one in shard 1 of one (1 * 3/4).
    graph = graph_of([(4, 0), (4, 1), (4, 3)], 5)
    shard = torch.tensor([0, 0, 0, 1, -1])
    starts, members = neighbours(graph)
    assert place(torch.tensor([4]), starts, members, shard, 2, 1, 4).tolist() == [0, 0, 0, 1, 1]
    # Capacity 10: 2 * 7/10 against 1 * 9/10.
    assert place(torch.tensor([4]), starts, members, shard, 2, 1, 10).tolist() == [0, 0, 0, 1, 0]


def test_the_order_of_arrival_of_those_that_stay_is_the_same_without_the_others() -> None:
    # With one node a shard, the order of arrival is the shard.
    graph = graph_of([], 12)
    whole = checked_partition(Ldg(), make_task(graph), 12)
    few = checked_partition(Ldg(), make_task(graph.induced(graph.ids[::2])), 6)
    assert torch.equal(whole[::2].argsort(), few.argsort())


# --- METIS ------------------------------------------------------------------------------------


@settings(max_examples=100, deadline=None)
@given(graph=graphs(), count=st.integers(1, 5), slack=st.sampled_from([0.0, 0.1, 0.5]), seed=st.integers(0, 9))
def test_any_partition_is_brought_within_the_limits(graph: Graph, count: int, slack: float, seed: int) -> None:
    n = graph.num_nodes
    count = min(count, n)
    low, high = shard_bounds(n, count, slack)
    generator = torch.Generator().manual_seed(seed)
    shard = (torch.rand(n, generator=generator) ** 3 * count).long()
    starts, members = neighbours(graph)
    free = release(starts, members, shard, count, low, high)
    sizes = torch.bincount(shard, minlength=count)
    # No more nodes move than must.
    assert len(free) == max(int((sizes - high).clamp(min=0).sum()), int((low - sizes).clamp(min=0).sum()))
    kept = shard.clone()
    kept[free] = -1
    placed = place(free, starts, members, kept, count, low, high)
    assert torch.equal(placed[kept >= 0], shard[kept >= 0])
    sizes = torch.bincount(placed, minlength=count)
    assert low <= int(sizes.min()) <= int(sizes.max()) <= high


def test_who_has_fewest_neighbours_inside_is_released_first() -> None:
    graph = graph_of([(0, 1), (0, 2), (1, 2), (3, 0), (4, 5)], 6)
    starts, members = neighbours(graph)
    shard = torch.tensor([0, 0, 0, 0, 0, 1])
    # Neighbours inside: 3, 2, 2, 1, 0.
    assert release(starts, members, shard, 2, 3, 3).tolist() == [3, 4]
    # Shard 1 lacks one, though shard 0 is not too large.
    assert release(starts, members, shard, 2, 2, 5).tolist() == [4]
    assert release(starts, members, shard, 2, 1, 5).tolist() == []


@needs_metis
@pytest.mark.parametrize("scheme", ["kway", "recursive"])
def test_metis_cuts_fewer_edges_than_one_pass(scheme: Any) -> None:
    graph = toy_graph(num_nodes=300, edges=500)
    task = make_task(graph)
    kept = [
        float(str(partition_statistics(graph, checked_partition(one, task, 6), 6)["edges_kept"]))
        for one in (Metis(Metis.Params(scheme=scheme)), Ldg())
    ]
    assert kept[0] > kept[1] + 0.05


@needs_metis
def test_eight_nodes_in_four_shards_by_metis() -> None:
    shard = checked_partition(Metis(Metis.Params(slack=0)), make_task(graph_of([], 8)), 4)
    assert torch.bincount(shard).tolist() == [2, 2, 2, 2]


def test_a_missing_pymetis_is_told_before_any_cell(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "pymetis", None)
    told = command("run", "-m", "sharded[partitioner=metis,num_shards=3]", *ONCE, "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert "The partitioner 'metis' of sharded[partitioner=metis," in told.err
    assert "needs the module 'pymetis', which is not installed" in told.err
    assert 'pip install "unlearnbench[metis]"' in told.err
    assert not (tmp_path / "out").exists()
