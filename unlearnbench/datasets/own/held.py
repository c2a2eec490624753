"""Graphs at hand: data of a script or a notebook, by the names that stand for a path in `file:NAME`."""

from __future__ import annotations

import copy
import hashlib
import re
from collections.abc import Sequence
from typing import Any

from torch import Tensor

from unlearnbench.datasets.own.reading import ARRAYS, WEIGHT, check_complete, tensors_by_name
from unlearnbench.datasets.own.tensors import plain_values
from unlearnbench.errors import UsageError
from unlearnbench.graph.digest import update

_held: dict[str, dict[str, Any]] = {}


def hold(data: Any, name: str = "", weighted: bool = False) -> str:
    """Copy a PyG `Data` or a dictionary of tensors and keep it under a name.

    Args:
        data: The data.
        name: The name; by default one that the values give that are used.
        weighted: Whether the weights of edges are used.

    Raises:
        DataError: It is neither, or has no labels or edges.
        UsageError: The name is not one of letters, digits, dots, dashes and underscores.
    """
    tensors = tensors_by_name(data, "The data")
    check_complete(tensors, "The data")
    if name and not re.fullmatch(r"\w[\w.-]*", name):
        raise UsageError(f"Data cannot be called {name!r}.", "Use letters, digits, dots, dashes and underscores.")
    # Tensors with a history cannot be copied.
    bare = {key: value.detach() if isinstance(value, Tensor) else value for key, value in tensors.items()}
    tensors = copy.deepcopy(bare)
    name = name or f"data-{_digest(tensors, (*ARRAYS, WEIGHT) if weighted else ARRAYS)[:8]}"
    _held[name] = tensors
    return name


def held(name: str) -> dict[str, Any] | None:
    """Return the data kept under a name; None if there is none."""
    return _held.get(name)


def _digest(tensors: dict[str, Any], names: Sequence[str]) -> str:
    digest = hashlib.sha256()
    for key in sorted(set(tensors) & set(names)):
        value = plain_values(key, tensors[key])
        if isinstance(value, Tensor):
            update(digest, value, key)
        else:
            digest.update(f"{key}{value!r}".encode())
    return digest.hexdigest()
