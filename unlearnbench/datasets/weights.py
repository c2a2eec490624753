"""The rules of edge weights, looked at on entry: positive, finite, and the same in both directions."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench.errors import DataError
from unlearnbench.graph import Graph
from unlearnbench.graph.edge_keys import pair_keys


def check_weights(graph: Graph, name: str) -> None:
    """Check the edge weights of a graph, if it has any.

    In a directed graph, one with an edge that lacks its reverse, each direction has a weight of its own.

    Args:
        graph: The graph; its edges have been checked.
        name: What messages call it.

    Raises:
        DataError: Names the rule and the first edge that breaks it, by the ids of its nodes.
    """
    weight = graph.edge_weight
    if weight is None:
        return
    wrong = torch.nonzero(~(torch.isfinite(weight) & (weight > 0)))[:, 0]
    if len(wrong):
        column = int(wrong[0])
        source, target = graph.ids[graph.edge_index[:, column]].tolist()
        raise DataError(
            f"Dataset {name}: the weight of edge {column}, from {source} to {target}, is {float(weight[column]):g}.",
            "Weights are positive, finite numbers of 32 bits; leave out edges that do not count.",
        )
    n = graph.num_nodes
    source, target = graph.edge_index
    forward, forward_total = _totals(pair_keys(source, target, n), weight)
    backward, backward_total = _totals(pair_keys(target, source, n), weight)
    if not torch.equal(forward, backward):
        return
    differ = torch.nonzero(forward_total != backward_total)[:, 0]
    if len(differ):
        at = int(differ[0])
        ends = graph.ids[torch.stack([forward[at] // n, forward[at] % n])].tolist()
        raise DataError(
            f"Dataset {name}: the edge between {ends[0]} and {ends[1]} has the weight {float(forward_total[at]):g} in"
            f" one direction and {float(backward_total[at]):g} in the other.",
            "An undirected edge has one weight: give both directions their mean, or the larger one.",
        )


def _totals(keys: Tensor, weight: Tensor) -> tuple[Tensor, Tensor]:
    """Return the distinct keys in ascending order, and the total weight of each, float64."""
    distinct, group = torch.unique(keys, return_inverse=True)
    return distinct, torch.zeros(len(distinct), dtype=torch.float64).index_add_(0, group, weight.to(torch.float64))
