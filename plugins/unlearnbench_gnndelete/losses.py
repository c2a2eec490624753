"""The two losses of GNNDelete for one layer (Cheng et al., 2023)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def side_by_side(rows: Tensor, pairs: Tensor) -> Tensor:
    """Give the rows of both nodes of each pair beside each other.

    Args:
        rows: float [n, d].
        pairs: int64 [2, k].

    Returns:
        float [k, 2 d].
    """
    return torch.cat([rows[pairs[0]], rows[pairs[1]]], dim=1)


def deleted_edge_consistency(rows: Tensor, deleted: Tensor, strangers: Tensor) -> Tensor:
    """Measure how far the ends of deleted edges are from pairs that no edge ever joined.

    Args:
        rows: float [n, d], the rows of the layer after its operator.
        deleted: int64 [2, k], the deleted edges.
        strangers: float [k, 2 d], the rows, from before, of both nodes of k random pairs.

    Returns:
        The mean squared difference, a number.
    """
    return functional.mse_loss(side_by_side(rows, deleted), strangers)


def neighbourhood_influence(rows: Tensor, before: Tensor, near: Tensor) -> Tensor:
    """Measure how far the rows near a deletion are from what they were.

    Args:
        rows: float [n, d], the rows of the layer after its operator.
        before: float [n, d], the network's rows on the graph without the deleted edges.
        near: int64 [k], affected nodes that are no end of a deleted edge; may be empty.

    Returns:
        The mean squared difference, a number; 0 over no node.
    """
    if len(near) == 0:
        return rows.new_zeros(())
    return functional.mse_loss(rows[near], before[near])
