"""Neighbour lists against loops over nodes and edges."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch_geometric.utils import k_hop_subgraph

from unlearnbench.audits.leakage.features import neighbourhoods, undirected
from unlearnbench.graph.neighbours import both_directions, hop_distance, row_entries, row_starts


def random_edges(seed: int, num_nodes: int, num_edges: int) -> Tensor:
    return torch.randint(num_nodes, (2, num_edges), generator=torch.Generator().manual_seed(seed))


@pytest.mark.parametrize("counts", [[], [0], [3, 0, 2], [0, 0, 1]])
def test_rows_start_where_the_rows_before_end(counts: list[int]) -> None:
    starts = row_starts(torch.tensor(counts, dtype=torch.int64))
    assert starts.tolist() == [sum(counts[:row]) for row in range(len(counts) + 1)]


@pytest.mark.parametrize("rows", [[], [1], [2, 0, 2], [0, 1, 2, 3]])
def test_entries_come_row_by_row(rows: list[int]) -> None:
    counts = [3, 0, 2, 1]
    entries, starts = row_entries(row_starts(torch.tensor(counts)), torch.tensor(rows, dtype=torch.int64))
    expected = [list(range(sum(counts[:row]), sum(counts[: row + 1]))) for row in rows]
    assert entries.tolist() == [entry for of_row in expected for entry in of_row]
    assert starts.diff().tolist() == [len(of_row) for of_row in expected]


@pytest.mark.parametrize("seed", range(5))
def test_both_directions_of_every_edge_once_without_loops(seed: int) -> None:
    edges = random_edges(seed, 9, 30)
    pairs = {pair for a, b in edges.t().tolist() if a != b for pair in ((a, b), (b, a))}
    assert both_directions(edges, 9).tolist() == sorted(a * 9 + b for a, b in pairs)
    assert [tuple(pair) for pair in undirected(edges, 9).t().tolist()] == sorted(pairs)


def test_no_edge_has_no_direction() -> None:
    assert both_directions(random_edges(0, 5, 0), 5).tolist() == []
    assert undirected(torch.tensor([[2], [2]]), 5).shape == (2, 0)


@pytest.mark.parametrize("seed", range(5))
def test_neighbourhoods_are_those_of_a_walk(seed: int) -> None:
    edges = undirected(random_edges(seed, 12, 25), 12)
    near = {node: edges[1, edges[0] == node].tolist() for node in range(12)}
    nodes = torch.tensor([7, 0, 3])
    found = neighbourhoods(edges, 12, nodes)
    walked = [(row, through) for row, node in enumerate(nodes.tolist()) for through in near[node]]
    assert [tuple(pair) for pair in found.neighbours.t().tolist()] == walked
    beyond = [(row, through, end) for row, through in walked for end in near[through] if end != int(nodes[row])]
    assert [tuple(edge) for edge in found.edges.t().tolist()] == beyond
    ring = {(row, end) for row, _, end in beyond} - set(walked)
    assert [tuple(pair) for pair in found.ring.t().tolist()] == sorted(ring)


def test_distances_on_a_path() -> None:
    path = torch.stack([torch.arange(6), torch.arange(1, 7)])
    origin = torch.isin(torch.arange(7), torch.tensor([0, 5]))
    assert hop_distance(path, origin, 3).tolist() == [0, 1, 2, 2, 1, 0, 1]
    assert hop_distance(path, origin, 1).tolist() == [0, 1, 2, 2, 1, 0, 1]
    assert hop_distance(path, origin, 3, directed=True).tolist() == [0, 1, 2, 3, 4, 0, 1]
    assert hop_distance(path, origin, 0).tolist() == [0, 1, 1, 1, 1, 0, 1]


@pytest.mark.parametrize("directed", [True, False])
@pytest.mark.parametrize("most", range(5))
@pytest.mark.parametrize("seed", range(3))
def test_nodes_within_hops_are_those_of_pyg(seed: int, most: int, directed: bool) -> None:
    edges = random_edges(seed, 30, 25)
    origin = torch.isin(torch.arange(30), torch.tensor([4, 11]))
    distance = hop_distance(edges, origin, most, directed)
    links = edges if directed else torch.cat([edges, edges.flip(0)], dim=1)
    for hops in range(most + 1):
        subset = k_hop_subgraph([4, 11], hops, links, num_nodes=30, flow="target_to_source")[0]
        assert torch.nonzero(distance <= hops)[:, 0].tolist() == subset.tolist()
    assert int(distance.max()) <= most + 1
