"""How many nodes a shard of GraphEraser's partitioners may hold."""

from __future__ import annotations

import math
from typing import Literal

from unlearnbench import UsageError
from unlearnbench.unlearning import shard_bounds

Capacity = Literal["slack", "paper"]


def size_limits(num_nodes: int, num_shards: int, capacity: Capacity, slack: float, delta: float) -> tuple[int, int]:
    """Return the smallest and the largest size of a shard.

    Args:
        num_nodes: n.
        num_shards: S.
        capacity: `slack`: between (1 - slack) n/S and (1 + slack) n/S. `paper`: at most
            `paper_capacity`, at least one.
        slack: For `slack`.
        delta: For `paper`.
    """
    if capacity == "paper":
        return 1, paper_capacity(num_nodes, num_shards, delta)
    return shard_bounds(num_nodes, num_shards, slack)


def paper_capacity(num_nodes: int, num_shards: int, delta: float) -> int:
    """Return the largest size of a shard, ceil(n/S + delta (n - n/S)) (CCS 2022)."""
    if num_shards > num_nodes:
        raise UsageError(f"{num_shards} shards for {num_nodes} training nodes.", "Use at most one shard a node.")
    mean = num_nodes / num_shards
    # Rounded first, so that rounding errors do not raise a whole number to the next.
    return math.ceil(round(mean + delta * (num_nodes - mean), 9))
