"""Finds every tensor reachable from an object: what a method still holds."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import BuiltinFunctionType, CodeType, FunctionType, ModuleType
from typing import Any

import numpy as np
import torch
from torch import Tensor

_LEAVES = (str, bytes, int, float, complex, type, ModuleType, BuiltinFunctionType, CodeType, torch.dtype, torch.device)


def reachable_tensors(root: Any) -> Iterator[Tensor]:
    """Yield every tensor that an object holds, directly or through others, each once.

    A view is yielded as all of the memory behind it. Follows attributes, containers, closures and
    defaults of functions, and what autograd saved, but not modules, classes and global names of
    functions. numpy arrays are yielded as tensors.
    """
    return (tensor for _, tensor in named_reachable_tensors(root))


def named_reachable_tensors(root: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield what `reachable_tensors` does, each with one of the paths to it, such as `._cache['rows']`."""
    seen: set[int] = set()
    # Objects are kept alive while their ids are in `seen`: the id of a freed object could be reused.
    waiting, kept = [("", root)], [root]
    while waiting:
        path, obj = waiting.pop()
        if id(obj) in seen or isinstance(obj, _LEAVES) or obj is None:
            continue
        seen.add(id(obj))
        kept.append(obj)
        if isinstance(obj, Tensor):
            yield path, _whole(obj)
        elif isinstance(obj, np.ndarray) and obj.dtype.kind in "biuf":
            yield path, torch.from_numpy(np.ascontiguousarray(obj))
        waiting += _next(path, obj)


def _next(path: str, obj: Any) -> Iterator[tuple[str, Any]]:
    if isinstance(obj, Tensor):
        yield f"{path}.grad", obj.grad if obj.is_leaf else obj.grad_fn
        yield path, obj.__dict__
    elif isinstance(obj, np.ndarray):
        yield f"{path}.base", obj.base
    elif isinstance(obj, FunctionType):
        for name, cell in zip(obj.__code__.co_freevars, obj.__closure__ or (), strict=True):
            # An empty cell refers to nothing.
            yield from ((f"{path}<{name}>", value) for value in gc.get_referents(cell))
        yield f"{path}.__defaults__", obj.__defaults__
        yield f"{path}.__kwdefaults__", obj.__kwdefaults__
        yield path, obj.__dict__
    elif isinstance(obj, torch.autograd.graph.Node):
        for node, _ in obj.next_functions:
            yield f"{path}.next", node
        for name in dir(obj):
            if name.startswith("_saved_"):
                yield f"{path}.{name}", getattr(obj, name)
    elif isinstance(obj, dict):
        for key, value in obj.items():
            yield f"{path}.keys", key
            yield f"{path}[{key!r}]" if isinstance(key, str | int) else f"{path}[...]", value
    elif isinstance(obj, list | tuple):
        for place, value in enumerate(obj):
            yield f"{path}[{place}]", value
    else:
        # Attributes come last and are thus visited first, so that what they refer to gets their name.
        yield from ((f"{path}.?", value) for value in gc.get_referents(obj))
        for name, value in getattr(obj, "__dict__", {}).items():
            yield f"{path}.{name}", value


def _whole(tensor: Tensor) -> Tensor:
    """Return all of a tensor's memory: a view keeps alive what it does not show."""
    if tensor.layout is not torch.strided:
        return tensor.detach()
    return torch.empty(0, dtype=tensor.dtype, device=tensor.device).set_(tensor.untyped_storage())
