"""Slices of a shard: which slice a node is in, and how long each step over slices lasts."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench import seeds

# A keyed hash is cut to 32 bits, so that no product or bound leaves int64.
_BITS = 32


def slice_of(places: Tensor, total: int, slices: int) -> Tensor:
    """Cut a range of places into slices of equal width, the remainder in the last one.

    Every place is in a slice; with fewer places than slices the last slices are empty.

    Args:
        places: int64, each in [0, total).
        total: How many places there are.
        slices: R.

    Returns:
        int64 in [0, R), of the shape of `places`.
    """
    width = max(total // slices, 1)
    return torch.div(places, width, rounding_mode="floor").clamp(max=slices - 1)


def hashed_slice_of(ids: Tensor, key: int, slices: int) -> Tensor:
    """Give each node the slice that a keyed hash of its id falls into: no other node matters.

    Args:
        ids: int64, permanent node ids.
        key: The key of the hash.
        slices: R.

    Returns:
        int64 in [0, R), of the shape of `ids` and on its device.
    """
    places = seeds.keyed_hash(ids, key) >> (63 - _BITS)
    return slice_of(places, 2**_BITS, slices).to(ids.device)


def slice_epochs(epochs: int, slices: int) -> list[int]:
    """Give the epochs of each step, so that all steps cost what training without slices does.

    Step r goes over the first r of R slices. With e epochs a step, the steps see
    e (1 + 2 + ... + R) / R times the shard, which is `epochs` times for e = 2 epochs / (R + 1)
    (Bourtoule et al., 2021, section IV). The epochs up to and including step r are
    2 r epochs / (R + 1), rounded half up; a step gets what is added to those before, and at
    least one.

    Args:
        epochs: Of training without slices.
        slices: R.

    Returns:
        R numbers; `[epochs]` for one slice, zeros for no epochs.
    """
    until = [(4 * number * epochs + slices + 1) // (2 * (slices + 1)) for number in range(slices + 1)]
    return [max(until[number + 1] - until[number], min(epochs, 1)) for number in range(slices)]
