"""Graphs whose edges have weights, the same in both directions."""

from dataclasses import replace

import torch

from unlearnbench.graph import Graph
from unlearnbench.testing.graphs import toy_graph


def weighted(graph: Graph, whole: bool = False, seed: int = 0) -> Graph:
    """The same graph with a weight for each edge that depends on its two ends: 1 to 3, or in [0.5, 2)."""
    rng = torch.Generator().manual_seed(seed)
    n = graph.num_nodes
    table = torch.randint(1, 4, (n, n), generator=rng).float() if whole else torch.rand(n, n, generator=rng) * 1.5 + 0.5
    table = torch.triu(table) + torch.triu(table, 1).t()
    return replace(graph, edge_weight=table[graph.edge_index[0], graph.edge_index[1]].contiguous())


def weighted_toy(nodes: int = 60, **options: int) -> Graph:
    return weighted(toy_graph(nodes, **options))


def by_ends(graph: Graph) -> dict[tuple[int, int], float]:
    """The weight of each edge by the ids of source and target."""
    assert graph.edge_weight is not None
    pairs = graph.ids[graph.edge_index].t().tolist()
    return {(a, b): weight for (a, b), weight in zip(pairs, graph.edge_weight.tolist(), strict=True)}
