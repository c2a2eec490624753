"""Seeds of all random numbers in the package, derived by hashing names.

A seed depends on what it is for (its role), never on what ran before, so that a cell
computed alone equals the same cell computed in a grid.
"""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def seed(base: int, *role: str | int) -> int:
    """Derive a seed in [0, 2^63) from a base seed and the name of a role.

    Args:
        base: The seed a user chose.
        *role: Names and numbers that say what the seed is for, such as `("folds", "cora", 0)`.
    """
    text = json.dumps([base, *role], separators=(",", ":"), ensure_ascii=True)
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:8], "big") >> 1


def generator(base: int, *role: str | int) -> torch.Generator:
    """Return a new CPU generator seeded for a role."""
    import torch

    return torch.Generator().manual_seed(seed(base, *role))


def keyed_hash(ids: torch.Tensor, key: int) -> torch.Tensor:
    """Hash node ids with a key, one by one (the splitmix64 finaliser of Steele et al., 2014).

    The hash of an id depends on the id and the key alone, so that removing other nodes does
    not change it.

    Args:
        ids: int64 [n], permanent node ids.
        key: Different keys give unrelated values.

    Returns:
        int64 [n] in [0, 2^63).
    """
    import numpy as np
    import torch

    values = ids.detach().cpu().numpy().astype(np.uint64)
    with np.errstate(over="ignore"):
        values = values + np.uint64(key % 2**64) * np.uint64(0x9E3779B97F4A7C15)
        for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
            values = (values ^ (values >> np.uint64(shift))) * np.uint64(factor)
        values = values ^ (values >> np.uint64(31))
    return torch.from_numpy((values >> np.uint64(1)).astype(np.int64))
