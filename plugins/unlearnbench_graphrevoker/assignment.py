"""Rules that turn probabilities of shards into a shard for each node, with or without limits on sizes."""

from __future__ import annotations

import heapq
import math

import torch
from torch import Tensor


def paper_capacity(num_nodes: int, num_shards: int, delta: float) -> int:
    """Return GraphEraser's one-sided limit on the size of a shard: ceil(n/S + delta (n - n/S))."""
    mean = num_nodes / num_shards
    # Rounded first, so that rounding errors do not raise a limit of exactly 11 to 12.
    return math.ceil(round(mean + delta * (num_nodes - mean), 9))


def assign_released(assignment: Tensor, delta: float) -> Tensor:
    """Assign by the rule of the public code: the most probable shard while it has room, else the smallest.

    Nodes are visited grouped by their most probable shard, groups and nodes in ascending
    order. A node keeps that shard while it holds fewer than n/S + delta n nodes; otherwise the
    node goes to the shard that is smallest at that moment (ties: the lower shard).

    Args:
        assignment: float [n, S], P.
        delta: Capacity above the mean, as a share of all nodes.

    Returns:
        int64 [n]; a shard can be empty.
    """
    n, num_shards = assignment.shape
    limit = n / num_shards + delta * n
    wish = assignment.argmax(dim=1).cpu()
    shard = wish.clone()
    sizes = [0] * num_shards
    for k in range(num_shards):
        group = torch.nonzero(wish == k).squeeze(1)
        room = max(0, math.ceil(round(limit, 9)) - sizes[k])
        sizes[k] += min(room, len(group))
        overflow = group[room:]
        smallest = [(size, index) for index, size in enumerate(sizes)]
        heapq.heapify(smallest)
        targets = []
        for _ in range(len(overflow)):
            size, index = smallest[0]
            targets.append(index)
            heapq.heapreplace(smallest, (size + 1, index))
        shard[overflow] = torch.tensor(targets, dtype=torch.int64)
        for size, index in smallest:
            sizes[index] = size
    return shard.to(assignment.device)


def fill_empty(shard: Tensor, assignment: Tensor) -> Tensor:
    """Move a node to every empty shard: the least confident of the nodes not alone in their shard.

    Args:
        shard: int64 [n].
        assignment: float [n, S], P; n is at least S. A node's confidence is its largest
            probability; ties: the lower node.

    Returns:
        int64 [n], every shard non-empty.
    """
    shard = shard.clone()
    num_shards = assignment.shape[1]
    confidence = assignment.max(dim=1).values
    for k in torch.nonzero(torch.bincount(shard, minlength=num_shards) == 0).squeeze(1).tolist():
        alone = torch.bincount(shard, minlength=num_shards)[shard] == 1
        shard[confidence.masked_fill(alone, float("inf")).argmin()] = k
    return shard
