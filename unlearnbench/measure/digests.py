"""Digests of deployed parameters: which members changed, and by how much."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping

import torch
from torch import Tensor


def member_of(name: str) -> str:
    """Return the group of a parameter: `members/003` of `members/003/conv1.weight`."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "members" and len(parts) > 2 else parts[0]


def digests(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Hash the parameters: one digest for each member and one for the aggregator."""
    hashes: dict[str, hashlib.blake2b] = {}
    for name in sorted(state):
        digest = hashes.setdefault(member_of(name), hashlib.blake2b(digest_size=16))
        add_tensor(digest, name, state[name])
    return {name: digest.hexdigest() for name, digest in hashes.items()}


def add_tensor(digest: hashlib.blake2b | hashlib._Hash, name: str, tensor: Tensor) -> None:
    """Add a tensor to a digest: its name, type, shape and bytes."""
    value = tensor.detach().cpu().contiguous()
    digest.update(f"{name}{value.dtype}{tuple(value.shape)}".encode())
    # As bytes: numpy lacks some of torch's types.
    digest.update(value.reshape(-1).view(torch.uint8).numpy().data)


def is_finite(state: Mapping[str, Tensor]) -> bool:
    """Whether every parameter is finite."""
    return all(bool(torch.isfinite(value).all()) for value in state.values())


def relative_change(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float | None:
    """Return the norm of the change divided by the norm before, over the parameters in both; None for a norm of 0."""
    shared = [name for name in before if name in after and before[name].shape == after[name].shape]
    change = sum(float((after[name].double() - before[name].double()).square().sum()) for name in shared)
    norm = sum(float(before[name].double().square().sum()) for name in shared)
    return math.sqrt(change / norm) if norm > 0 else None
