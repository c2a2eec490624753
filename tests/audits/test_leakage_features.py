"""What kept partitions show: by hand, against slow versions, and unchanged when shards are renamed."""

from __future__ import annotations

import math
from itertools import combinations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.audits.leakage import features
from unlearnbench.testing.graphs import toy_graph

# Node 0 has neighbours 1, 2, 3; 1 and 2 are neighbours; 3 has neighbour 4, 1 has neighbours 5 and 6.
EDGES = features.undirected(torch.tensor([[0, 0, 0, 1, 3, 5, 1], [1, 2, 3, 2, 4, 1, 6]]), 7)
#                      0  1  2  3  4  5  6
SHARD = torch.tensor([-1, 0, 0, 1, 1, 0, 2])


def test_edges_stand_once_in_both_directions_without_loops() -> None:
    found = features.undirected(torch.tensor([[2, 0, 1, 1], [0, 2, 1, 0]]), 3)
    assert found.tolist() == [[0, 0, 1, 2], [1, 2, 0, 0]]


def test_surroundings_by_hand() -> None:
    where = features.neighbourhoods(EDGES, 7, torch.tensor([0]))
    assert where.neighbours.tolist() == [[0, 0, 0], [1, 2, 3]]
    assert where.ring.tolist() == [[0, 0, 0], [4, 5, 6]]
    assert sorted(where.edges[1:].t().tolist()) == [[1, 2], [1, 5], [1, 6], [2, 1], [3, 4]]
    # Of three pairs of neighbours one is together; at distance two none of three pairs. Of nine pairs of
    # a neighbour and a node at distance two, 3 4, 1 5 and 2 5 are together. Of five edges one is cut: 1 6.
    expected = [1 / 3, 2 / 3, 0, 1 / 3, 3 / 9, 1 / 5]
    assert features.context(where, SHARD, 3)[0].tolist() == pytest.approx(expected)


def test_what_stands_in_the_neighbours_shards_by_hand() -> None:
    where = features.neighbourhoods(EDGES, 7, torch.tensor([0]))
    y = torch.tensor([0, 0, 1, 0, 0, 1, 1])
    x = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1], [1, 0], [0, 1], [0, 1]])
    # Shard 0: 1, 2, 5 with labels 0 1 1, two neighbours there; shard 1: 3, 4 with labels 0 0, one neighbour.
    entropy = 2 / 3 * -(1 / 3 * math.log(1 / 3) + 2 / 3 * math.log(2 / 3))
    own = 2 / 3 * 1 / 3 + 1 / 3 * 1
    likeness = 2 / 3 * 1 / 3 + 1 / 3 * 1 / 2
    assert features.content(where, SHARD, x, y, 2, 3)[0].tolist() == pytest.approx([entropy, own, likeness])


def test_the_shard_that_lost_a_node_by_hand() -> None:
    where = features.neighbourhoods(EDGES, 7, torch.tensor([0, 0]))
    y = torch.tensor([0, 0, 1, 0, 0, 1, 1])
    x = torch.tensor([[1.0, 0], [1, 0], [0, 1], [0, 1], [1, 0], [0, 1], [0, 1]])
    # Of the neighbours 1, 2, 3 two are in shard 0, of the ring 4, 5, 6 one; labels and features as above.
    found = features.of_shards(where, torch.tensor([0, 1]), SHARD, x, y, 2, 3)
    assert found[0].tolist() == pytest.approx([2 / 3, 1 / 3, 1 / 3, 1 / 3])
    assert found[1].tolist() == pytest.approx([1 / 3, 1 / 3, 1, 1 / 2])


def test_the_nearest_nodes_and_their_pairs_by_hand() -> None:
    where = features.neighbourhoods(EDGES, 7, torch.tensor([0, 4]))
    nodes = features.closest(where, torch.bincount(EDGES[0], minlength=7), 5)
    # Degrees of 1, 2, 3: 4, 2, 2; of 4, 5, 6: 1. Around 4 there is 3, then 0.
    assert nodes.tolist() == [[2, 3, 1, 4, 5], [3, 0, -1, -1, -1]]
    together = features.pairs_together(nodes, SHARD)
    shards = [0, 1, 0, 1, 0]
    assert together[0].tolist() == [one == other for one, other in combinations(shards, 2)]
    # Node 0 has no shard: nothing is with it, nor is anything with a node that is not there.
    assert not bool(together[1].any())


def test_nothing_to_count_gives_zero() -> None:
    edges = features.undirected(torch.tensor([[0], [1]]), 3)
    where = features.neighbourhoods(edges, 3, torch.tensor([0, 2]))
    # Node 0 has one neighbour, which has no other; node 2 has none.
    assert features.context(where, torch.tensor([0, 1, 0]), 2).tolist() == [[0, 1, 0, 0, 0, 0], [0] * 6]


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6))
def test_surroundings_are_those_of_a_slow_search(seed: int) -> None:
    graph = toy_graph(num_nodes=18, edges=30, seed=seed)
    rng = torch.Generator().manual_seed(seed)
    edges = features.undirected(graph.edge_index, 18)
    near: dict[int, set[int]] = {node: set() for node in range(18)}
    for a, b in edges.t().tolist():
        near[a].add(b)
    shard = torch.randint(3, (18,), generator=rng)
    nodes = torch.arange(18)
    values = features.context(features.neighbourhoods(edges, 18, nodes), shard, 3)
    for v in range(18):
        ring = {c for b in near[v] for c in near[b]} - near[v] - {v}

        def together(pairs: list[tuple[int, int]]) -> float:
            same = [bool(shard[a] == shard[b]) for a, b in pairs]
            return sum(same) / len(same) if same else 0.0

        def largest(members: set[int]) -> float:
            return max((sum(bool(shard[m] == k) for m in members) for k in range(3)), default=0) / max(len(members), 1)

        leaving = [(a, b) for a in near[v] for b in near[a] - {v}]
        expected = [
            together(list(combinations(near[v], 2))), largest(near[v]), together(list(combinations(ring, 2))),
            largest(ring), together([(a, b) for a in near[v] for b in ring]), 1 - together(leaving) if leaving else 0,
        ]  # fmt: skip
        assert values[v].tolist() == pytest.approx(expected)


@settings(max_examples=30, deadline=None)
@given(st.integers(0, 10**6), st.permutations(range(4)))
def test_renaming_shards_changes_nothing_and_no_nodes_own_shard_is_read(seed: int, names: list[int]) -> None:
    graph = toy_graph(num_nodes=24, edges=40, seed=seed)
    edges = features.undirected(graph.edge_index, 24)
    target = torch.tensor([3])
    where = features.neighbourhoods(edges, 24, target)
    shard = torch.randint(4, (24,), generator=torch.Generator().manual_seed(seed))
    shard[target] = -1
    renamed = torch.where(shard >= 0, torch.tensor(names)[shard], -1)
    x = torch.nn.functional.normalize(graph.x, dim=1)
    for describe in (
        lambda held: features.context(where, held, 4),
        lambda held: features.content(where, held, x, graph.y, 3, 4),
    ):
        torch.testing.assert_close(describe(shard), describe(renamed))
    elsewhere = shard.clone()
    elsewhere[target] = 2
    assert torch.equal(features.context(where, shard, 4), features.context(where, elsewhere, 4))


def test_matched_nodes_are_allowed_and_of_the_nearest_degree() -> None:
    degree = torch.tensor([3, 3, 1, 2, 9, 3, 4])
    allowed = torch.tensor([False, True, True, True, True, True, False])
    found = features.matched_nodes(degree, torch.tensor([0]), allowed, 3, torch.Generator().manual_seed(0))
    assert set(found[0].tolist()) == {1, 5, 3}
    assert features.matched_nodes(degree, torch.tensor([0]), allowed, 99, torch.Generator()).shape == (1, 5)
    own, others = torch.tensor([[1.0], [2.0]]), torch.tensor([[0.0], [1.0], [2.0], [4.0]])
    assert features.less_matched(own, others).tolist() == [[0.5], [-1.0]]
    assert torch.equal(features.less_matched(own, others[:0]), own)


def test_how_often_neighbours_and_strangers_of_like_degree_are_together() -> None:
    # Two rings of four: all degrees are two. Shards are the rings.
    ring = torch.tensor([[0, 1, 2, 3], [1, 2, 3, 0]])
    edges = features.undirected(torch.cat([ring, ring + 4], dim=1), 8)
    shard = torch.arange(8) // 4
    near, far = zip(
        *(features.together_rates(edges, 8, shard, torch.Generator().manual_seed(seed)).tolist() for seed in range(50)),
        strict=True,
    )
    assert set(near) == {1.0}
    # A stranger of a node is the one across its ring, or one of the four of the other.
    assert sum(far) / 50 == pytest.approx(1 / 5, abs=0.05)
