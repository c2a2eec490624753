"""Slices of a shard: the slice of each node, and the epochs of each step."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench import seeds

# A keyed hash is truncated to 32 bits, so that no product or bound overflows int64.
_BITS = 32


def slice_of(places: Tensor, total: int, slices: int) -> Tensor:
    """Split a range of places into slices of equal width, with the remainder in the last one.

    Every place is in a slice; with fewer places than slices the last slices are empty.

    Args:
        places: int64, each in [0, total).
        total: Number of places.
        slices: R.

    Returns:
        int64 in [0, R), of the shape of `places`.
    """
    width = max(total // slices, 1)
    return torch.div(places, width, rounding_mode="floor").clamp(max=slices - 1)


def hashed_slice_of(ids: Tensor, key: int, slices: int) -> Tensor:
    """Return each node's slice by a keyed hash of its id, independent of other nodes.

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
    """Return the epochs of each step, so that all steps together cost as much as training without slices.

    Step r trains on the first r of R slices. With e epochs per step, the steps see
    e (1 + 2 + ... + R) / R times the shard, which is `epochs` times for e = 2 epochs / (R + 1)
    (Bourtoule et al., 2021, section IV). The epochs up to and including step r are
    2 r epochs / (R + 1), rounded half up; a step gets the difference to the step before, and at
    least one.

    Args:
        epochs: Of training without slices.
        slices: R.

    Returns:
        R numbers; `[epochs]` for one slice, zeros for no epochs.
    """
    until = [(4 * number * epochs + slices + 1) // (2 * (slices + 1)) for number in range(slices + 1)]
    return [max(until[number + 1] - until[number], min(epochs, 1)) for number in range(slices)]
