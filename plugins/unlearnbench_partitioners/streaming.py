"""Greedy placement of nodes where most of their neighbours are, within limits on sizes."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor


def place(
    order: Tensor,
    starts: Tensor,
    adjacent: Tensor,
    shard: Tensor,
    num_shards: int,
    low: int,
    high: int,
    weights: Tensor | None = None,
) -> Tensor:
    """Place nodes by the linear deterministic greedy rule (Stanton and Kliot, KDD 2012, section 3).

    A node goes to the open shard with the largest (neighbours there) (1 - size / high); ties: the
    smallest, then the lowest shard. A shard is open while it holds fewer than `high` nodes and
    enough nodes remain to fill every other shard up to `low`. Takes O(E + n S).

    Args:
        order: int64 [k], the nodes to place, in order of arrival.
        starts: int64 [n + 1], from `neighbours`.
        adjacent: int64 [m], from `neighbours`.
        shard: int64 [n], the shards of the other nodes; -1 for the nodes of `order`.
        num_shards: S.
        low: Smallest size of a shard.
        high: Largest size; there must be room for all between the limits.
        weights: int64 [m], from `neighbour_weights`: how much each neighbour counts; None: 1.

    Returns:
        int64 [n], on the CPU.
    """
    # The last column counts the neighbours not placed yet.
    placed = torch.where(shard < 0, num_shards, shard).cpu().numpy().copy()
    begins, ends = starts.cpu().numpy(), adjacent.cpu().numpy()
    worth = None if weights is None else weights.cpu().numpy()
    sizes = np.bincount(placed, minlength=num_shards + 1)[:num_shards]
    missing = int(np.maximum(low - sizes, 0).sum())
    closed = sizes >= (low if len(order) == missing else high)
    for arrived, node in enumerate(order.tolist()):
        entries = slice(begins[node], begins[node + 1])
        counted = None if worth is None else worth[entries]
        near = np.bincount(placed[ends[entries]], counted, num_shards + 1)[:num_shards].astype(np.int64)
        # In integers, so that equal values are equal; ties go to the smallest shard, by less than a unit of value.
        value = near * (high - sizes) * (high + 1) - sizes
        value[closed] = np.iinfo(np.int64).min
        best = int(value.argmax())
        placed[node] = best
        missing -= int(sizes[best] < low)
        sizes[best] += 1
        if len(order) - arrived - 1 == missing:
            closed = sizes >= low
        elif sizes[best] == high:
            closed[best] = True
    return torch.from_numpy(placed)


def release(
    starts: Tensor,
    adjacent: Tensor,
    shard: Tensor,
    num_shards: int,
    low: int,
    high: int,
    weights: Tensor | None = None,
) -> Tensor:
    """Return nodes to remove from shards so that all shards can be filled within the limits.

    Nodes above `high` are removed; then, while these are too few to fill all shards up to `low`, the
    largest shards give up one node after the other. A shard gives up the nodes with fewest
    neighbours in it first (ties: the lower node), by the neighbours before any removal.

    Args:
        starts: int64 [n + 1], from `neighbours`.
        adjacent: int64 [m], from `neighbours`.
        shard: int64 [n].
        num_shards: S; S * low <= n <= S * high.
        low: Smallest size of a shard.
        high: Largest size.
        weights: As for `place`.

    Returns:
        int64 [k], the nodes, ascending.
    """
    shard, starts, adjacent = shard.cpu(), starts.cpu(), adjacent.cpu()
    sizes = torch.bincount(shard, minlength=num_shards)
    kept = sizes.clamp(max=high)
    lacking = int((low - sizes).clamp(min=0).sum()) - int((sizes - kept).sum())
    for _ in range(lacking):
        kept[kept.argmax()] -= 1
    node = torch.repeat_interleave(torch.arange(len(shard)), starts.diff())
    same = shard[node] == shard[adjacent]
    inside = torch.bincount(node[same], None if weights is None else weights[same], len(shard))
    by_ties = torch.sort(inside, stable=True).indices
    order = by_ties[torch.sort(shard[by_ties], stable=True).indices]
    first = sizes.cumsum(dim=0) - sizes
    rank = torch.arange(len(shard)) - first[shard[order]]
    return order[rank < (sizes - kept)[shard[order]]].sort().values
