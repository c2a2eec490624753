"""Digests of deployed parameters: which members changed, and by how much."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from unlearnbench.graph.digest import update
from unlearnbench.records import digits


def member_of(name: str) -> str:
    """Return the group of a parameter: `members/003` of `members/003/conv1.weight`."""
    parts = name.split("/")
    return "/".join(parts[:2]) if parts[0] == "members" and len(parts) > 2 else parts[0]


def digests(state: Mapping[str, Tensor]) -> dict[str, str]:
    """Hash the parameters: one digest for each member and one for the aggregator."""
    hashes: dict[str, hashlib.blake2b] = {}
    for name in sorted(state):
        digest = hashes.setdefault(member_of(name), hashlib.blake2b(digest_size=16))
        update(digest, state[name], name)
    return {name: digest.hexdigest()[: digits.DIGEST] for name, digest in hashes.items()}


def changed_names(before: Mapping[str, str], after: Mapping[str, str]) -> list[str]:
    """Return the names of the digests that differ, or that only one side has, sorted."""
    return sorted(name for name in {*before, *after} if before.get(name) != after.get(name))


def predictions_digest(arrays: Mapping[str, NDArray[Any]]) -> str | None:
    """Hash the predictions among the arrays of a cell, those with a view in their name; None if there are none."""
    names = sorted(name for name in arrays if "/" in name)
    digest = hashlib.sha256()
    for name in names:
        values = np.ascontiguousarray(arrays[name], dtype="<f4")
        digest.update(f"{name} {values.shape}\0".encode() + values.tobytes())
    return digest.hexdigest()[: digits.DIGEST] if names else None


def is_finite(state: Mapping[str, Tensor]) -> bool:
    """Whether every parameter is finite."""
    return all(bool(torch.isfinite(value).all()) for value in state.values())


def relative_change(before: Mapping[str, Tensor], after: Mapping[str, Tensor]) -> float | None:
    """Return the norm of the change divided by the norm before; None for a norm of 0.

    Over the parameters in both: floating point, not ids or labels.
    """
    real = [name for name in before if before[name].is_floating_point()]
    shared = [name for name in real if name in after and before[name].shape == after[name].shape]
    change = sum(float((after[name].double() - before[name].double()).square().sum()) for name in shared)
    norm = sum(float(before[name].double().square().sum()) for name in shared)
    return math.sqrt(change / norm) if norm > 0 else None
