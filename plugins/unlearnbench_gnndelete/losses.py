"""The two losses of GNNDelete for one layer (Cheng et al., 2023)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def side_by_side(rows: Tensor, pairs: Tensor) -> Tensor:
    """Return the concatenated rows of both nodes of each pair.

    Args:
        rows: float [n, d].
        pairs: int64 [2, k].

    Returns:
        float [k, 2 d].
    """
    return torch.cat([rows[pairs[0]], rows[pairs[1]]], dim=1)


def deleted_edge_consistency(rows: Tensor, deleted: Tensor, random_pairs: Tensor) -> Tensor:
    """Return the mean squared difference between the ends of deleted edges and random non-adjacent pairs.

    Args:
        rows: float [n, d], the rows of the layer after its operator.
        deleted: int64 [2, k], the deleted edges.
        random_pairs: float [k, 2 d], the original rows of both nodes of k random pairs.

    Returns:
        A scalar.
    """
    return functional.mse_loss(side_by_side(rows, deleted), random_pairs)


def neighbourhood_influence(rows: Tensor, before: Tensor, near: Tensor) -> Tensor:
    """Return the mean squared difference between the rows near a deletion and their original values.

    Args:
        rows: float [n, d], the rows of the layer after its operator.
        before: float [n, d], the network's rows on the graph without the deleted edges.
        near: int64 [k], affected nodes that are not ends of deleted edges; may be empty.

    Returns:
        A scalar; 0 without nodes.
    """
    if len(near) == 0:
        return rows.new_zeros(())
    return functional.mse_loss(rows[near], before[near])
