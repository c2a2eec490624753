"""Finds every tensor that can be reached from an object: what a method still holds."""

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

    A tensor that is a view is yielded as all of the memory it is a view of. Follows attributes,
    containers, what functions close over and their defaults, and what autograd saved; not
    modules, classes and the global names of functions. Arrays of numpy are yielded as tensors.

    Args:
        root: A method, say.
    """
    seen: set[int] = set()
    # Objects are kept alive while their ids stand in `seen`: a freed one's id could be used again.
    waiting, kept = [root], [root]
    while waiting:
        found = waiting.pop()
        if id(found) in seen or isinstance(found, _LEAVES) or found is None:
            continue
        seen.add(id(found))
        kept.append(found)
        if isinstance(found, Tensor):
            yield _whole(found)
            waiting += [found.grad if found.is_leaf else found.grad_fn, found.__dict__]
        elif isinstance(found, np.ndarray):
            if found.dtype.kind in "biuf":
                yield torch.from_numpy(np.ascontiguousarray(found))
            waiting.append(found.base)
        elif isinstance(found, FunctionType):
            waiting += [cell.cell_contents for cell in found.__closure__ or () if _is_full(cell)]
            waiting += [found.__defaults__, found.__kwdefaults__, found.__dict__]
        elif isinstance(found, torch.autograd.graph.Node):
            waiting += [node for node, _ in found.next_functions]
            waiting += [getattr(found, name) for name in dir(found) if name.startswith("_saved_")]
        else:
            waiting += gc.get_referents(found)


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
