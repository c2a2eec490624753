"""Pairs of positions as single integers, which sort in a fraction of the time and memory that pairs take."""

from __future__ import annotations

import torch
from torch import Tensor


def pair_keys(first: Tensor, second: Tensor, num_nodes: int) -> Tensor:
    """Return the key of each pair, first * n + second: keys sort as the pairs do.

    Args:
        first: int64 [k], positions in [0, n).
        second: int64 [k], positions in [0, n).
        num_nodes: n.

    Returns:
        int64 [k].
    """
    return (first * num_nodes).add_(second)


def unique_keys(keys: Tensor) -> Tensor:
    """Return the distinct keys in ascending order.

    Args:
        keys: int64 [k], contiguous; overwritten: on a CPU they are sorted in place.

    Returns:
        int64 [at most k].
    """
    if keys.device.type != "cpu":
        return torch.unique(keys)  # type: ignore[no-any-return]
    # numpy sorts in place and, for integers, several times faster than torch.
    keys.numpy().sort()
    distinct: Tensor = torch.unique_consecutive(keys)
    return distinct


def without_loops(keys: Tensor, num_nodes: int) -> Tensor:
    """Return the keys without those of self-loops.

    Args:
        keys: int64 [k], from `pair_keys`.
        num_nodes: n.

    Returns:
        int64 [at most k], in the same order.
    """
    loop = is_loop(keys, num_nodes)
    return keys[~loop] if bool(loop.any()) else keys


def is_loop(keys: Tensor, num_nodes: int) -> Tensor:
    """Return which keys are those of self-loops: bool [k]."""
    # a n + b = a (n + 1) + (b - a), and |b - a| < n.
    return keys % (num_nodes + 1) == 0
