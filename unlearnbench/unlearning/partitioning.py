"""Partitioners, which assign training nodes to shards, and checks and statistics of partitions."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from unlearnbench.component import Component
from unlearnbench.errors import BrokenContractError, RefusedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.task import Task

# Nodes considered first when shards are filled: a small part of a large graph, all of a small one.
_LOOKED_AT = 4096
SLACK = 0.1


class Partitioner(Component, ABC):
    """Assigns the training nodes of a task to shards. Pure: the same task gives the same partition.

    Attributes:
        uses_data: Whether the result depends on features, labels or edges, which may later have
            to be forgotten.
        node_by_node: Whether a node's shard depends on its own id and the seed alone, and on no
            other node: then the partition of the retained nodes is the same as if the forgotten
            nodes had never been there.
        may_be_empty: Whether a shard may be empty.
    """

    kind = "partitioner"
    uses_data: ClassVar[bool] = True
    node_by_node: ClassVar[bool] = False
    may_be_empty: ClassVar[bool] = False

    @abstractmethod
    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Assign each node of `task.graph` to a shard.

        Args:
            task: The task to partition; its `generator` is the source of random numbers.
            num_shards: S, at most the number of nodes.

        Returns:
            int64 [task.graph.num_nodes], values in [0, S), every shard non-empty unless
            `may_be_empty` is true.
        """


def checked_partition(partitioner: Partitioner, task: Task, num_shards: int) -> Tensor:
    """Run a partitioner and check its result.

    Raises:
        UsageError: More shards than nodes.
        BrokenContractError: The result breaks the contract of `Partitioner.partition`.
    """
    n = task.graph.num_nodes
    if not 1 <= num_shards <= n:
        raise UsageError(
            f"{num_shards} shards for {n} training nodes.", "Use `num_shards` of at least 1 and at most that."
        )
    shard = partitioner.partition(task, num_shards)
    name = partitioner.name
    if not isinstance(shard, Tensor) or shard.dtype != torch.int64 or shard.shape != (n,):
        raise BrokenContractError(
            f"Partitioner {name} must return an int64 tensor of shape [{n}], got {_describe(shard)}."
        )
    invalid = shard[(shard < 0) | (shard >= num_shards)]
    if len(invalid):
        raise BrokenContractError(f"Partitioner {name} returned shard {int(invalid[0])} of {num_shards}.")
    sizes = torch.bincount(shard, minlength=num_shards)
    if not partitioner.may_be_empty and int(sizes.min()) == 0:
        raise BrokenContractError(f"Partitioner {name} left shard {int(sizes.argmin())} empty.")
    return shard.to(task.device)


def check_kept_partition(kept: Tensor, graph: Graph) -> Tensor:
    """Check the partition that a method reports to keep: it must hold each node of a graph once and no other.

    Args:
        kept: Expected to be int64 [graph.num_nodes, 2], rows (node id, shard).
        graph: The training nodes, or the retained ones.

    Returns:
        int64 [graph.num_nodes], the shard of each node in the order of the graph.

    Raises:
        RefusedError: Names the first node that is foreign, listed twice or missing.
    """
    if not isinstance(kept, Tensor) or kept.dtype != torch.int64 or kept.dim() != 2 or kept.shape[1] != 2:
        raise RefusedError(f"kept() must name a partition as int64 [n, 2], (node id, shard), got {_describe(kept)}.")
    ids, shard = kept.to(graph.ids.device).unbind(dim=1)
    foreign = ids[~graph.contains(ids)]
    if len(foreign):
        raise RefusedError(
            f"kept() names {len(foreign)} nodes that are not retained training nodes, the first is {int(foreign[0])}.",
            "Keep the ids of nodes, not their positions, and let go of those in a request.",
        )
    times = torch.bincount(graph.positions(ids), minlength=graph.num_nodes)
    wrong = torch.nonzero(times != 1)
    if len(wrong):
        node = int(wrong[0])
        raise RefusedError(
            f"kept() names node {int(graph.ids[node])} {int(times[node])} times.",
            "Every retained training node is in one shard.",
        )
    if len(shard) and int(shard.min()) < 0:
        raise RefusedError(f"kept() names shard {int(shard.min())}.", "Shards are numbered from 0.")
    result = torch.empty_like(shard)
    result[graph.positions(ids)] = shard
    return result


def _describe(value: object) -> str:
    return f"{value.dtype} {list(value.shape)}" if isinstance(value, Tensor) else type(value).__name__


def shard_bounds(num_nodes: int, num_shards: int, slack: float) -> tuple[int, int]:
    """Return the smallest and the largest size of a shard.

    Every shard holds between floor((1 - slack) n/S) and ceil((1 + slack) n/S) nodes, and at
    least one; with slack 0 sizes differ by at most one.
    """
    mean = num_nodes / num_shards
    # The product is rounded first, so that 1.1 * 10 counts as 11 and not as 11.000000000000002.
    low = math.floor(round((1 - slack) * mean, 9))
    high = math.ceil(round((1 + slack) * mean, 9))
    return max(low, 1), high


def assign_by_pairs(cost: Tensor, low: int, high: int) -> Tensor:
    """Assign nodes to shards by going through all (node, shard) pairs in ascending order of cost.

    A pair is taken if the node has no shard yet and the shard has room: it holds fewer than
    `high` nodes, and enough nodes remain to fill every other shard up to `low`. The result
    is that of the plain loop (ties: the lower node, then the lower shard), in at most
    2 S sorts of the nodes: until some shard closes, every node goes to its cheapest open one.

    Args:
        cost: float [n, S].
        low: Smallest size of a shard; S * low <= n.
        high: Largest size of a shard; S * high >= n.

    Returns:
        int64 [n].
    """
    return _assign(cost, low, high, by_node=False)


def assign_by_nodes(cost: Tensor, low: int, high: int) -> Tensor:
    """Assign nodes in ascending order of their cheapest pair, each to its cheapest shard with room.

    As `assign_by_pairs`, but a node whose first choice is full goes to its next best shard at
    once.
    """
    return _assign(cost, low, high, by_node=True)


def _assign(cost: Tensor, low: int, high: int, by_node: bool) -> Tensor:
    n, num_shards = cost.shape
    if not num_shards * low <= n <= num_shards * high:
        raise UsageError(f"{n} nodes do not fit into {num_shards} shards of {low} to {high} nodes.")
    shard = torch.full((n,), -1, dtype=torch.int64, device=cost.device)
    sizes = torch.zeros(num_shards, dtype=torch.int64, device=cost.device)
    best, choice = cost.min(dim=1)
    waiting = torch.sort(best, stable=True).indices
    while len(waiting):
        spare = len(waiting) - int((low - sizes).clamp(min=0).sum())
        room = ((high if spare else low) - sizes).clamp(min=0)
        # A shard that has closed stays closed: only nodes that had chosen it must choose again.
        is_stale = room[choice[waiting]] == 0
        if bool(is_stale.any()):
            stale = waiting[is_stale]
            best[stale], choice[stale] = cost[stale].masked_fill_(room == 0, float("inf")).min(dim=1)
            if not by_node:
                waiting = _merged(waiting[~is_stale], stale, best)
        first = _leaders(waiting, choice, room, (low - sizes).clamp(min=0), spare)
        shard[first] = choice[first]
        sizes += torch.bincount(choice[first], minlength=num_shards)
        waiting = waiting[len(first) :]
    return shard


def _merged(sorted_nodes: Tensor, others: Tensor, best: Tensor) -> Tensor:
    """Merge nodes into nodes that are sorted by their value in `best`, then by number."""
    others = others.sort().values
    others = others[torch.sort(best[others], stable=True).indices]
    values, other_values = best[sorted_nodes], best[others]
    low, high = torch.searchsorted(values, other_values), torch.searchsorted(values, other_values, right=True)
    # Among equal values, which are rare, the lower node comes first: bisection by number.
    while bool((low < high).any()):
        middle = (low + high) // 2
        is_before = sorted_nodes[middle.clamp(max=len(sorted_nodes) - 1)] < others
        is_open = low < high
        low = torch.where(is_open & is_before, middle + 1, low)
        high = torch.where(is_open & ~is_before, middle, high)
    result = torch.empty(len(sorted_nodes) + len(others), dtype=torch.int64, device=others.device)
    is_other = torch.zeros(len(result), dtype=torch.bool, device=others.device)
    is_other[low + torch.arange(len(others), device=others.device)] = True
    result[is_other], result[~is_other] = others, sorted_nodes
    return result


def _leaders(waiting: Tensor, choice: Tensor, room: Tensor, missing: Tensor, spare: int) -> Tensor:
    """Return the leading nodes that can be assigned before some shard closes; usually few of many."""
    length = _LOOKED_AT
    while True:
        first = waiting[:length]
        taken = _until_a_shard_closes(choice[first], room, missing, spare)
        if taken < length or length >= len(waiting):
            return first[:taken]
        length *= 4


def _until_a_shard_closes(choice: Tensor, room: Tensor, missing: Tensor, spare: int) -> int:
    """Count the leading choices that can be granted before some shard closes."""
    arrivals = _rank_within(choice, len(room)) + 1
    full = torch.nonzero(arrivals == room[choice])
    taken = int(full[0]) + 1 if len(full) else len(choice)
    if spare:
        # A node that goes to a shard with `low` nodes already uses up one spare place.
        surplus = (arrivals > missing[choice]).cumsum(dim=0)
        spent = torch.nonzero(surplus == spare)
        taken = min(taken, int(spent[0]) + 1) if len(spent) else taken
    return taken


def _rank_within(group: Tensor, num_groups: int) -> Tensor:
    """Number the members of each group 0, 1, ... in their order."""
    order = torch.sort(group, stable=True).indices
    counts = torch.bincount(group, minlength=num_groups)
    starts = counts.cumsum(dim=0) - counts
    rank = torch.empty_like(group)
    rank[order] = torch.arange(len(group), device=group.device) - starts[group[order]]
    return rank


def partition_statistics(graph: Graph, shard: Tensor, num_shards: int) -> dict[str, object]:
    """Describe a partition.

    Returns:
        `sizes`: nodes per shard. `edges_kept`: share of edges with both ends in one shard
        (null without edges). `label_entropy`: mean over shards, weighted by size, of the
        entropy of their labels in nats; `graph_entropy`: that of the whole training graph.
    """
    source, target = graph.edge_index
    sizes = torch.bincount(shard, minlength=num_shards)
    kept = float((shard[source] == shard[target]).double().mean()) if graph.num_edges else None
    table = torch.zeros(num_shards, graph.num_classes, dtype=torch.float64)
    table.index_put_((shard.cpu(), graph.y.cpu()), torch.ones(graph.num_nodes, dtype=torch.float64), accumulate=True)
    weight = table.sum(dim=1) / table.sum()
    return {
        "sizes": sizes.tolist(),
        "edges_kept": kept,
        "label_entropy": float((weight * _entropy(table)).sum()),
        "graph_entropy": float(_entropy(table.sum(dim=0, keepdim=True))[0]),
    }


def _entropy(counts: Tensor) -> Tensor:
    share = counts / counts.sum(dim=1, keepdim=True).clamp(min=1)
    entropy: Tensor = -torch.special.xlogy(share, share).sum(dim=1)
    return entropy
