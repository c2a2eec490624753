"""The edges of several groups of nodes, found in one pass over all edges."""

from __future__ import annotations

import torch
from torch import Tensor


def edges_by_group(edge_index: Tensor, owner: Tensor, everywhere: Tensor) -> tuple[Tensor, dict[int, Tensor]]:
    """Return the edges between common nodes, and by group number the edges that this group alone has.

    Args:
        edge_index: int64 [2, E].
        owner: int32 [n], the group of each node; -1: none.
        everywhere: bool [n], the nodes that every group has.

    Returns:
        Positions of columns of `edge_index`, int64, ascending.
    """
    source, target = edge_index
    common_source, common_target = everywhere[source], everywhere[target]
    of_edge = torch.where(common_source, owner[target], owner[source])
    single = (of_edge >= 0) & (
        common_source ^ common_target | ~(common_source | common_target) & (owner[source] == owner[target])
    )
    edges = torch.nonzero(single)[:, 0]
    of_edge = of_edge[edges]
    edges = edges[torch.argsort(of_edge, stable=True)]
    counts = torch.bincount(of_edge)
    return torch.nonzero(common_source & common_target)[:, 0], dict(enumerate(edges.split(counts.tolist())))
