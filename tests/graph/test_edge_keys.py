"""Edges counted and listed by their keys, against plain loops over sets of pairs."""

from __future__ import annotations

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.datasets.base import edge_statistics
from unlearnbench.graph import Graph
from unlearnbench.graph.edge_keys import is_loop, pair_keys, unique_keys, without_loops
from unlearnbench.graph.neighbours import neighbours


def multigraph(seed: int, n: int, edges: int, undirected: bool) -> Graph:
    """Draw a graph with loops and repeated edges, its ids in any order, some below 0."""
    rng = torch.Generator().manual_seed(seed)
    edge_index = torch.randint(n, (2, edges), generator=rng)
    if undirected:
        edge_index = torch.cat([edge_index, edge_index.flip(0)], dim=1)
    ids = torch.randperm(3 * n, generator=rng)[:n] - n
    return Graph(torch.ones(n, 1), torch.zeros(n, dtype=torch.int64), edge_index, ids, 1)


GRAPHS = st.builds(multigraph, st.integers(0, 10**6), st.integers(1, 9), st.integers(0, 30), st.booleans())


@settings(max_examples=60, deadline=None)
@given(GRAPHS)
def test_pairs_neighbours_and_counts_are_those_of_sets(graph: Graph) -> None:
    columns = [(int(a), int(b)) for a, b in graph.edge_index.T]
    joined = {frozenset(column) for column in columns if column[0] != column[1]}

    named = sorted(sorted(int(graph.ids[end]) for end in pair) for pair in joined)
    assert graph.pairs().tolist() == named
    assert graph.pairs().shape == (len(joined), 2)

    starts, adjacent = neighbours(graph)
    found = [adjacent[starts[v] : starts[v + 1]].tolist() for v in range(graph.num_nodes)]
    assert found == [
        sorted(u for u in range(graph.num_nodes) if frozenset((u, v)) in joined and u != v)
        for v in range(graph.num_nodes)
    ]

    assert edge_statistics(graph) == {
        "pairs": len(joined),
        "directed": any((b, a) not in set(columns) for a, b in columns),
        "duplicates": len(columns) - len(set(columns)),
        "self_loops": sum(a == b for a, b in columns),
        "isolated": graph.num_nodes - len(set().union(*joined)),
    }


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 8), st.lists(st.tuples(st.integers(0, 7), st.integers(0, 7))))
def test_keys_sort_as_pairs_do_and_know_their_loops(n: int, drawn: list[tuple[int, int]]) -> None:
    pairs = [(a % n, b % n) for a, b in drawn]
    first, second = (torch.tensor([pair[end] for pair in pairs], dtype=torch.int64) for end in (0, 1))
    assert is_loop(pair_keys(first, second, n), n).tolist() == [a == b for a, b in pairs]
    kept = without_loops(unique_keys(pair_keys(first, second, n)), n)
    assert [(key // n, key % n) for key in kept.tolist()] == sorted({(a, b) for a, b in pairs if a != b})
