"""Pairs of positions as single numbers: sorting them takes a fraction of the time and memory of sorting pairs."""

from __future__ import annotations

import torch
from torch import Tensor


def pair_keys(first: Tensor, second: Tensor, num_nodes: int) -> Tensor:
    """Make a key of each pair: first * n + second, which sorts as the pairs do.

    Args:
        first: int64 [k], positions in [0, n).
        second: int64 [k], positions in [0, n).
        num_nodes: n.

    Returns:
        int64 [k].
    """
    return (first * num_nodes).add_(second)


def unique_keys(keys: Tensor) -> Tensor:
    """Give the different keys in ascending order.

    Args:
        keys: int64 [k], contiguous; they are used up: on a CPU they are sorted in place.

    Returns:
        int64 [at most k].
    """
    if keys.device.type != "cpu":
        return torch.unique(keys)  # type: ignore[no-any-return]
    # numpy sorts in place and, for whole numbers, several times faster than torch.
    keys.numpy().sort()
    different: Tensor = torch.unique_consecutive(keys)
    return different


def without_loops(keys: Tensor, num_nodes: int) -> Tensor:
    """Leave out the keys of pairs of a node with itself.

    Args:
        keys: int64 [k], from `pair_keys`.
        num_nodes: n.

    Returns:
        int64 [at most k], in the same order.
    """
    loop = is_loop(keys, num_nodes)
    return keys[~loop] if bool(loop.any()) else keys


def is_loop(keys: Tensor, num_nodes: int) -> Tensor:
    """Tell which keys are of pairs of a node with itself: bool [k]."""
    # a n + b = a (n + 1) + (b - a), and |b - a| < n.
    return keys % (num_nodes + 1) == 0
