"""Neighbour lists of nodes, compressed by rows (CSR), and distances between nodes."""

from __future__ import annotations

from typing import TYPE_CHECKING

import torch
from torch import Tensor

from unlearnbench.graph.edge_keys import is_loop, pair_keys, unique_keys, without_loops

if TYPE_CHECKING:
    from unlearnbench.graph.graph import Graph

# Of `neighbour_weights`: three digits of each weight count.
LARGEST_WEIGHT = 1000


def row_starts(counts: Tensor) -> Tensor:
    """Return where each row's entries begin, and after the last row their number: int64 [n] to [n + 1]."""
    starts = torch.zeros(len(counts) + 1, dtype=torch.int64, device=counts.device)
    torch.cumsum(counts, dim=0, out=starts[1:])
    return starts


def row_entries(starts: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
    """Return the entries of some rows, row by row.

    Args:
        starts: int64 [n + 1], from `row_starts`.
        rows: int64 [m], positions in [0, n).

    Returns:
        int64 [k], positions of entries; int64 [m + 1], where those of each of the rows begin.
    """
    first = starts[rows]
    counts = starts[rows + 1] - first
    new_starts = row_starts(counts)
    entries = torch.arange(int(new_starts[-1]), device=rows.device)
    entries += torch.repeat_interleave(first - new_starts[:-1], counts, output_size=len(entries))
    return entries, new_starts


def both_directions(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return the distinct keys of all edges in both directions, ascending, without self-loops: int64 [k].

    Args:
        edge_index: int64 [2, E].
        num_nodes: n.
    """
    source, target = edge_index
    both = torch.cat([pair_keys(source, target, num_nodes), pair_keys(target, source, num_nodes)])
    return without_loops(unique_keys(both), num_nodes)


def neighbours(graph: Graph) -> tuple[Tensor, Tensor]:
    """Return each node's neighbours, over edges of either direction, each once and never the node itself.

    As for the size of a cut: a self-loop cannot be cut, and an edge stored twice is cut once.

    Returns:
        int64 [n + 1] and int64 [k], on the graph's device: node v's neighbours are
        `adjacent[starts[v]:starts[v + 1]]`, ascending.
    """
    n = graph.num_nodes
    keys = both_directions(graph.edge_index, n)
    starts = torch.searchsorted(keys, torch.arange(n + 1, device=keys.device) * n)
    return starts, keys.remainder_(n)


def neighbour_weights(graph: Graph) -> Tensor | None:
    """Return the weight of each entry of `neighbours`, in whole numbers, so that sums have no rounding and ties stay.

    It is the total weight of the edges between the two nodes in both directions, relative to the largest one.

    Returns:
        int64 [k], 1 to `LARGEST_WEIGHT`, on the graph's device; None: edges have no weights.
    """
    if graph.edge_weight is None:
        return None
    n, (source, target) = graph.num_nodes, graph.edge_index
    keys = torch.cat([pair_keys(source, target, n), pair_keys(target, source, n)])
    distinct, group = torch.unique(keys, return_inverse=True)
    total = torch.zeros(len(distinct), dtype=torch.float64, device=keys.device)
    total.index_add_(0, group, torch.cat([graph.edge_weight, graph.edge_weight]).to(torch.float64))
    total = total[~is_loop(distinct, n)]
    if not len(total):
        return total.to(torch.int64)
    return (total * (LARGEST_WEIGHT / total.max())).round().to(torch.int64).clamp(min=1)


def hop_distance(edge_index: Tensor, origin: Tensor, most: int, directed: bool = False) -> Tensor:
    """Count the edges from the nearest of some nodes to each node.

    PyG's `k_hop_subgraph` finds the same nodes, but also builds their subgraph and sorts all
    ends of edges; masks take O(n + E) per hop.

    Args:
        edge_index: int64 [2, E].
        origin: bool [n], the nodes at distance 0.
        most: The largest distance to count.
        directed: Whether edges are followed in their direction only.

    Returns:
        int64 [n]; `most` + 1 for nodes that are farther away.
    """
    distance = torch.where(origin, 0, most + 1)
    source, target = edge_index
    ways = [(source, target)] if directed else [(source, target), (target, source)]
    for hop in range(1, most + 1):
        last = distance == hop - 1
        for begin, end in ways:
            reached = end[last[begin]]
            distance[reached] = distance[reached].clamp(max=hop)
    return distance
