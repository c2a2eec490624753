"""Balanced label propagation: shards are communities of neighbours, within limits on sizes."""

from __future__ import annotations

from collections import deque

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import ComponentParams, Partitioner, Task
from unlearnbench.unlearning import SLACK, neighbour_weights, neighbours
from unlearnbench_grapheraser.capacity import Capacity, size_limits


class Blpa(Partitioner):
    """GraphEraser's balanced label propagation (BLPA).

    A node wants to be where most of its neighbours are, or most of the weight of its edges. It uses edges alone: a
    partition kept after a request still depends on the edges of forgotten nodes.
    """

    name = "blpa"
    summary = "Balanced label propagation over edges (GraphEraser's BLPA)."
    reference = 'Chen et al., "Graph Unlearning", CCS 2022, balanced label propagation'
    uses_data = True

    class Params(ComponentParams):
        """Parameters of `blpa`."""

        capacity: Capacity = Field(
            default="slack",
            description="Sizes of shards: slack (between (1 - slack) n/S and (1 + slack) n/S) or paper (at most"
            " n/S + delta (n - n/S), at least one node).",
        )
        slack: float = Field(default=SLACK, ge=0, lt=1, description="Tolerated imbalance with capacity=slack.")
        delta: float = Field(default=0.005, ge=0, le=1, description="Tolerated imbalance with capacity=paper.")
        rounds: int = Field(default=100, ge=0, description="Rounds at most.")

    params: Params

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Propagate shards over the edges among the training nodes; see `Partitioner.partition`."""
        settings = self.params
        n = task.graph.num_nodes
        low, high = size_limits(n, num_shards, settings.capacity, settings.slack, settings.delta)
        starts, adjacent = (t.cpu() for t in neighbours(task.graph))
        found = neighbour_weights(task.graph)
        weights = None if found is None else found.cpu()
        generator = task.generator("blpa")
        shard = start_balanced(n, num_shards, generator)
        for _ in range(settings.rounds):
            wish, count = wishes(starts, adjacent, shard, num_shards, generator, weights)
            moved = grant(wish, count, shard, num_shards, low, high)
            if torch.equal(moved, shard):
                break
            shard = moved
        return shard.to(task.device)


def start_balanced(num_nodes: int, num_shards: int, generator: torch.Generator) -> Tensor:
    """Assign nodes at random to shards whose sizes differ by at most one: int64 [n]."""
    shard = torch.empty(num_nodes, dtype=torch.int64)
    shard[torch.randperm(num_nodes, generator=generator)] = torch.arange(num_nodes) % num_shards
    return shard


def wishes(
    starts: Tensor,
    adjacent: Tensor,
    shard: Tensor,
    num_shards: int,
    generator: torch.Generator,
    weights: Tensor | None = None,
) -> tuple[Tensor, Tensor]:
    """Return the shard that most of each node's neighbours are in.

    Args:
        starts: int64 [n + 1], from `neighbours`.
        adjacent: int64 [k], from `neighbours`.
        shard: int64 [n].
        num_shards: S.
        generator: Breaks ties between shards.
        weights: int64 [k], from `neighbour_weights`: how much each neighbour counts; None: 1.

    Returns:
        int64 [n], the shard, -1 for a node without neighbours; int64 [n], the number of neighbours in it, or their
        weight.
    """
    n = len(shard)
    node = torch.repeat_interleave(torch.arange(n), starts.diff())
    keys = node * num_shards + shard[adjacent]
    if weights is None:
        pairs, counts = torch.unique(keys, return_counts=True)
    else:
        pairs, group = torch.unique(keys, return_inverse=True)
        counts = torch.zeros_like(pairs).index_add_(0, group, weights)
    node = torch.div(pairs, num_shards, rounding_mode="floor")
    most = torch.zeros(n, dtype=torch.int64).scatter_reduce_(0, node, counts, "amax")
    tied = counts == most[node]
    pairs, node = pairs[tied], node[tied]
    choices = torch.bincount(node, minlength=n)
    drawn = (torch.rand(n, generator=generator, dtype=torch.float64) * choices).long()
    at = choices.cumsum(dim=0) - choices + torch.minimum(drawn, (choices - 1).clamp(min=0))
    wish = torch.full((n,), -1, dtype=torch.int64)
    wish[choices > 0] = pairs[at[choices > 0]] % num_shards
    return wish, most


def grant(wish: Tensor, count: Tensor, shard: Tensor, num_shards: int, low: int, high: int) -> Tensor:
    """Move nodes to their preferred shards as far as sizes allow.

    Nodes are processed in descending order of how many neighbours they would join (ties: the lower
    node). A node moves if there is room; its old place goes to the first node that waits for it and
    may leave, and so on along a chain until no node waits. A node without room waits. No node leaves
    a shard of `low` nodes. No node moves or is passed over twice, so that a round takes
    O(n log n).

    Args:
        wish: int64 [n], -1: none.
        count: int64 [n].
        shard: int64 [n], of `low` to `high` nodes each.
        num_shards: S.
        low: Smallest size of a shard, at least 1.
        high: Largest size of a shard.

    Returns:
        int64 [n].
    """
    eager = torch.nonzero((wish >= 0) & (wish != shard))[:, 0]
    order = eager[torch.sort(count[eager], descending=True, stable=True).indices]
    sizes: list[int] = torch.bincount(shard, minlength=num_shards).tolist()
    wanted, now = wish.tolist(), shard.tolist()
    waiting: list[deque[int]] = [deque() for _ in range(num_shards)]
    for first in order.tolist():
        if sizes[wanted[first]] >= high or sizes[now[first]] <= low:
            waiting[wanted[first]].append(first)
            continue
        node = first
        while True:
            place = now[node]
            now[node] = wanted[node]
            sizes[place] -= 1
            sizes[now[node]] += 1
            queue = waiting[place]
            # A node that cannot leave at its turn is dropped: trying again would cost a pass over the queue.
            while queue and sizes[now[queue[0]]] <= low:
                queue.popleft()
            if not queue:
                break
            node = queue.popleft()
    return torch.tensor(now, dtype=torch.int64)
