"""Finds every tensor that can be reached from an object: what a method still holds."""

from __future__ import annotations

import gc
from collections.abc import Iterator, Mapping
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

_LEAVES = (str, bytes, int, float, complex, type, ModuleType, BuiltinFunctionType, CodeType, torch.dtype, torch.device)


def reachable_tensors(root: Any) -> Iterator[Tensor]:
    """Yield every tensor that an object holds, directly or through others, each once.

    A tensor that is a view is yielded as all of the memory it is a view of. Follows attributes,
    containers, what functions close over and their defaults, and what autograd saved; not
    modules, classes and the global names of functions. Arrays of numpy are yielded as tensors.

    Args:
        root: A method, say.
    """
    return (tensor for _, tensor in named_reachable_tensors(root))


def named_reachable_tensors(root: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield what `reachable_tensors` does, each with one of the ways to it: `._cache['rows']`.

    Args:
        root: A method, say.
    """
    seen: set[int] = set()
    # Objects are kept alive while their ids stand in `seen`: a freed one's id could be used again.
    waiting, kept = [("", root)], [root]
    while waiting:
        way, found = waiting.pop()
        if id(found) in seen or isinstance(found, _LEAVES) or found is None:
            continue
        seen.add(id(found))
        kept.append(found)
        if isinstance(found, Tensor):
            yield way, _whole(found)
        elif isinstance(found, np.ndarray) and found.dtype.kind in "biuf":
            yield way, torch.from_numpy(np.ascontiguousarray(found))
        waiting += _next(way, found)


def _next(way: str, found: Any) -> Iterator[tuple[str, Any]]:
    """Yield what an object refers to."""
    if isinstance(found, Tensor):
        yield f"{way}.grad", found.grad if found.is_leaf else found.grad_fn
        yield way, found.__dict__
    elif isinstance(found, np.ndarray):
        yield f"{way}.base", found.base
    elif isinstance(found, FunctionType):
        for name, cell in zip(found.__code__.co_freevars, found.__closure__ or (), strict=True):
            if _is_full(cell):
                yield f"{way}<{name}>", cell.cell_contents
        yield f"{way}.__defaults__", found.__defaults__
        yield f"{way}.__kwdefaults__", found.__kwdefaults__
        yield way, found.__dict__
    elif isinstance(found, torch.autograd.graph.Node):
        for node, _ in found.next_functions:
            yield f"{way}.next", node
        for name in dir(found):
            if name.startswith("_saved_"):
                yield f"{way}.{name}", getattr(found, name)
    elif isinstance(found, dict):
        yield from _items(way, found)
    elif isinstance(found, list | tuple):
        for place, value in enumerate(found):
            yield f"{way}[{place}]", value
    else:
        # The attributes come last, to be taken first: so that what they name is called by its name.
        yield from ((f"{way}.?", value) for value in gc.get_referents(found))
        for name, value in getattr(found, "__dict__", {}).items():
            yield f"{way}.{name}", value


def _items(way: str, found: Mapping[Any, Any]) -> Iterator[tuple[str, Any]]:
    for key, value in found.items():
        yield f"{way}.keys", key
        yield f"{way}[{key!r}]" if isinstance(key, str | int) else f"{way}[...]", value


def _whole(tensor: Tensor) -> Tensor:
    """Give all that a tensor's memory holds: a view keeps alive what it does not show."""
    if tensor.layout is not torch.strided:
        return tensor.detach()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())


def _is_full(cell: Any) -> bool:
    try:
        cell.cell_contents  # noqa: B018 - reading an empty cell raises
    except ValueError:
        return False
    return True
