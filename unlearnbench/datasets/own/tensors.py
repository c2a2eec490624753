"""Tensors of any layout and type as plain ones; nothing in them is used before it has been validated.

Torch trusts shapes, strides and indices of tensors that it loads: sparse ones with an index out of range
read and write memory that is not theirs.
"""

from __future__ import annotations

import math
from typing import Any

import psutil
import torch
from torch import Tensor

from unlearnbench.errors import DataError

_DTYPES = frozenset(
    {torch.bool, torch.int8, torch.int16, torch.int32, torch.int64}
    | {torch.uint8, torch.float16, torch.bfloat16, torch.float32, torch.float64, torch.complex64, torch.complex128}
)
_UNSIGNED = frozenset({torch.uint16, torch.uint32, torch.uint64})
# With the names of their parts.
_COMPRESSED = {
    torch.sparse_csr: ("crow_indices", "col_indices"),
    torch.sparse_bsr: ("crow_indices", "col_indices"),
    torch.sparse_csc: ("ccol_indices", "row_indices"),
    torch.sparse_bsc: ("ccol_indices", "row_indices"),
}
_HINT = "Save a dense tensor of numbers."


def plain_values(name: str, value: Any) -> Any:
    """Return a tensor of any layout and type as a dense one on the CPU, without gradient; unsigned numbers as int64.

    Anything but a tensor is returned as it is; `name` is what the value is called in the file.

    Raises:
        DataError: It holds no numbers, one that int64 cannot hold, or more of them than memory can; or its
            indices are out of range.
    """
    if not isinstance(value, Tensor):
        return value
    try:
        return _signed(name, _dense(name, _bare(name, value)))
    except (RuntimeError, NotImplementedError, TypeError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        raise DataError(f"{name} holds no plain numbers ({reason}).", _HINT) from None


def _bare(name: str, value: Tensor) -> Tensor:
    """Return the tensor without gradient and without a class of its own, which could do anything."""
    if hasattr(value, "as_tensor"):  # PyG's EdgeIndex and Index
        value = value.as_tensor()
    bare = value.detach()
    if type(bare) is not Tensor:
        own = type(bare).__dict__.get("__torch_dispatch__")
        if own is not None and own is not torch._C._disabled_torch_dispatch_impl:
            raise DataError(f"{name} is a {type(bare).__name__}, not a plain tensor.", _HINT)
        bare = bare.as_subclass(Tensor)
    if bare.is_meta or bare.is_nested:
        kind = "a tensor without data" if bare.is_meta else "a nested tensor"
        raise DataError(f"{name} holds no plain numbers: it is {kind}.", _HINT)
    return bare


def _dense(name: str, value: Tensor) -> Tensor:
    size = math.prod(value.shape) * value.element_size()
    if value.layout == torch.strided:
        stored = value.untyped_storage().nbytes()
        if size > stored:  # strides of 0, or windows that overlap
            _check_size(name, value, size, stored)
            value = value.contiguous()
        value = value.resolve_conj().resolve_neg().cpu()
        return value.dequantize() if value.is_quantized else value
    _check_size(name, value, size, 0)
    return _checked_sparse(name, value).to_dense().cpu()


def _check_size(name: str, value: Tensor, size: int, stored: int) -> None:
    if size > psutil.virtual_memory().total // 2:
        raise DataError(
            f"{name} of shape {list(value.shape)} would take {size} bytes, of which {stored} are there.", _HINT
        )


def _checked_sparse(name: str, value: Tensor) -> Tensor:
    """Return a sparse tensor made anew from its parts, which torch then validates."""
    if value.layout == torch.sparse_coo:
        indices, values = (_dense(name, part) for part in (value._indices(), value._values()))
        return torch.sparse_coo_tensor(indices, values, value.shape, check_invariants=True)
    if value.layout not in _COMPRESSED:
        return value
    outer, inner = (_dense(name, getattr(value, part)()) for part in _COMPRESSED[value.layout])
    return torch.sparse_compressed_tensor(
        outer, inner, _dense(name, value.values()), value.shape, layout=value.layout, check_invariants=True
    )


def _signed(name: str, value: Tensor) -> Tensor:
    if value.dtype in _DTYPES:
        return value
    if value.dtype not in _UNSIGNED:
        if value.is_floating_point():
            return value.to(torch.float32)
        raise DataError(f"{name} holds no plain numbers ({value.dtype}).", _HINT)
    whole = value.to(torch.int64)
    if bool((whole < 0).any()):
        number = int(whole[whole < 0][0]) + 2**64
        raise DataError(f"{name} holds {number}, too large for 64 bits with a sign.", "Number the nodes anew.")
    return whole
