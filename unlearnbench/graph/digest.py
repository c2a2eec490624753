"""Digests of tensors by type, shape and bytes."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def update(digest: Any, tensor: Tensor, name: str = "") -> None:
    """Add a name and a tensor's type, shape and bytes to a digest."""
    digest.update(f"{name}{tensor.dtype}{tuple(tensor.shape)}".encode())
    digest.update(raw_bytes(tensor))


def raw_bytes(tensor: Tensor) -> memoryview:
    """Return the bytes of a tensor, not copied if contiguous on the CPU; as bytes, since numpy lacks some types."""
    return tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy().data
