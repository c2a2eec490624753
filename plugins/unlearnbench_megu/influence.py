"""Nodes under the influence of the deleted ones (Li et al., 2024, high-influence neighbourhood)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.gnn import normalised
from unlearnbench.unlearning import hop_distance

# Start and increment of the threshold.
STEP = 0.1


def flipped(x: Tensor, gone: Tensor) -> Tensor:
    """Mirror the features of some nodes within the range of all features: 1 - x if these are 0 and 1.

    Args:
        x: float [n, F].
        gone: bool [n].

    Returns:
        float [n, F].
    """
    return torch.where(gone[:, None], x.min() + x.max() - x, x)


def similarity(x: Tensor, edge_index: Tensor, gone: Tensor, hops: int, edge_weight: Tensor | None = None) -> Tensor:
    """Compare each node's propagated features with those after flipping the deleted nodes' features.

    Args:
        x: float [n, F].
        edge_index: int64 [2, E].
        gone: bool [n].
        hops: Number of times D^-1/2 (A + I) D^-1/2 is applied.
        edge_weight: float32 [E]; None: every edge counts 1.

    Returns:
        float [n], cosines.
    """
    adjacency = normalised(edge_index, x.shape[0], edge_weight)
    here, there = x, flipped(x, gone)
    for _ in range(hops):
        here, there = adjacency @ here, adjacency @ there
    return functional.cosine_similarity(here, there)


def threshold(similarity: Tensor) -> float:
    """Raise a threshold from 0.1 in steps of 0.1 until a step no longer raises the largest cosine below it.

    Args:
        similarity: float [n], at most 1 up to rounding.

    Returns:
        The largest cosine below the threshold at which it stops.
    """
    largest, steps = None, 1
    while True:
        below = similarity[similarity <= steps * STEP]
        found = float(below.max()) if len(below) else None
        if found is not None and found == largest:
            return found
        largest, steps = found, steps + 1


def influenced(x: Tensor, edge_index: Tensor, gone: Tensor, hops: int, edge_weight: Tensor | None = None) -> Tensor:
    """Return the high-influence neighbourhood: nodes near the deleted ones whose features would change much.

    Args:
        x: float [n, F].
        edge_index: int64 [2, E].
        gone: bool [n], the deleted nodes.
        hops: Range of their messages.
        edge_weight: float32 [E]; None: every edge counts 1.

    Returns:
        bool [n]; no deleted node is among them.
    """
    cosines = similarity(x, edge_index, gone, hops, edge_weight)
    distance = hop_distance(edge_index, gone, hops, directed=True)
    return (cosines <= threshold(cosines)) & (distance > 0) & (distance <= hops)
