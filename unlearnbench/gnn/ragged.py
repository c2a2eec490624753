"""Products of the rows of many networks with their own weights, differentiable any number of times.

Where nothing is differentiated, as in a first backward pass, functions are called without autograd: on graphs as
small as Cora its bookkeeping takes as long as a product.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor


def ragged_product(rows: Tensor, weight: Tensor, sizes: Sequence[int]) -> Tensor:
    """Multiply each network's rows by its own weight, one product per network.

    With one product per network instead of a padded batch, the result of a network has the same bits
    whatever other networks there are.

    Args:
        rows: float [sum(sizes), a].
        weight: float [S, a, b].
        sizes: Rows of each network.

    Returns:
        float [sum(sizes), b].
    """
    if not torch.is_grad_enabled():
        return _products(rows, weight, sizes)
    product: Tensor = _Product.apply(rows, weight, sizes)  # type: ignore[no-untyped-call]
    return product


def _products(rows: Tensor, weight: Tensor, sizes: Sequence[int]) -> Tensor:
    if len(sizes) == 1:
        return torch.mm(rows, weight[0])
    out = rows.new_empty(rows.shape[0], weight.shape[2])
    for a, b, c in zip(_parts(rows, sizes), weight.unbind(), _parts(out, sizes), strict=True):
        torch.mm(a, b, out=c)
    return out


def _parts(rows: Tensor, sizes: Sequence[int], dim: int = 0) -> Sequence[Tensor]:
    """Split between networks; `Tensor.split` does the same after slower checks."""
    parts: Sequence[Tensor] = torch.split_with_sizes(rows, sizes, dim)
    return parts


def padded_places(sizes: Sequence[int], device: torch.device) -> tuple[Tensor, int]:
    """Return each row's position in a batch padded to the largest network, int64 [sum(sizes)], and its height."""
    height = max(sizes)
    places = [network * height + torch.arange(size, device=device) for network, size in enumerate(sizes)]
    return torch.cat(places), height


def padded_product(rows: Tensor, weight: Tensor, places: Tensor, height: int) -> Tensor:
    """Multiply as `ragged_product`, in one padded batch: for CUDA; bits depend on the other networks.

    Args:
        rows: float [n, a].
        weight: float [S, a, b].
        places: From `padded_places`.
        height: From `padded_places`.
    """
    count = weight.shape[0]
    batch = rows.new_zeros(count * height, rows.shape[1]).index_copy(0, places, rows)
    product = torch.bmm(batch.view(count, height, -1), weight)
    return product.view(count * height, -1).index_select(0, places)


def owners(sizes: Sequence[int], device: torch.device) -> Tensor:
    """Return the network of each row: int64 [sum(sizes)]."""
    return torch.repeat_interleave(torch.arange(len(sizes), device=device), torch.tensor(list(sizes), device=device))


def spread(values: Tensor, sizes: Sequence[int], owner: Tensor) -> Tensor:
    """Repeat each network's vector for each of its rows: [S, k] to [sum(sizes), k].

    Args:
        values: float [S, k].
        sizes: Rows of each network.
        owner: From `owners`.
    """
    if not torch.is_grad_enabled():
        return _spread(values, sizes, owner)
    repeated: Tensor = _Spread.apply(values, sizes, owner)  # type: ignore[no-untyped-call]
    return repeated


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, weight: Tensor, sizes: Sequence[int]) -> Tensor:
        ctx.save_for_backward(rows, weight)
        ctx.sizes = sizes
        return _products(rows, weight, sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        rows, weight = ctx.saved_tensors
        grad = grads[0].contiguous()
        grad_rows = ragged_product(grad, weight.transpose(1, 2), ctx.sizes) if ctx.needs_input_grad[0] else None
        grad_weight = _outer(rows, grad, ctx.sizes) if ctx.needs_input_grad[1] else None
        return grad_rows, grad_weight, None


class _Outer(torch.autograd.Function):
    """The gradient of a ragged product with respect to the weights: rows' times grad for each network."""

    @staticmethod
    def forward(ctx: Any, left: Tensor, right: Tensor, sizes: Sequence[int]) -> Tensor:
        ctx.save_for_backward(left, right)
        ctx.sizes = sizes
        return _outers(left, right, sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, Tensor, None]:
        left, right = ctx.saved_tensors
        grad = grads[0]
        grad_left = ragged_product(right, grad.transpose(1, 2), ctx.sizes)
        return grad_left, ragged_product(left, grad, ctx.sizes), None


def _outers(left: Tensor, right: Tensor, sizes: Sequence[int]) -> Tensor:
    if len(sizes) == 1:
        return torch.mm(left.t(), right)[None]
    out = left.new_empty(len(sizes), left.shape[1], right.shape[1])
    # Transposed once, not per network: the calls take as long as products this small.
    for a, b, c in zip(_parts(left.t(), sizes, 1), _parts(right, sizes), out.unbind(), strict=True):
        torch.mm(a, b, out=c)
    return out


def _outer(left: Tensor, right: Tensor, sizes: Sequence[int]) -> Tensor:
    if not torch.is_grad_enabled():
        return _outers(left, right, sizes)
    product: Tensor = _Outer.apply(left, right, sizes)  # type: ignore[no-untyped-call]
    return product


def _spread(values: Tensor, sizes: Sequence[int], owner: Tensor) -> Tensor:
    return values.expand(*sizes, -1) if len(sizes) == 1 else values.index_select(0, owner)


class _Spread(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, values: Tensor, sizes: Sequence[int], owner: Tensor) -> Tensor:
        ctx.sizes, ctx.owner = sizes, owner
        return _spread(values, sizes, owner)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return _sums(grads[0], ctx.sizes, ctx.owner), None, None


def _row_sums(rows: Tensor, sizes: Sequence[int]) -> Tensor:
    if len(sizes) == 1:
        return rows.sum(dim=0, keepdim=True)
    return torch.stack([part.sum(dim=0) for part in _parts(rows, sizes)])


class _Sums(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor, sizes: Sequence[int], owner: Tensor) -> Tensor:
        ctx.sizes, ctx.owner = sizes, owner
        return _row_sums(rows, sizes)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        return spread(grads[0], ctx.sizes, ctx.owner), None, None


def _sums(rows: Tensor, sizes: Sequence[int], owner: Tensor) -> Tensor:
    if not torch.is_grad_enabled():
        return _row_sums(rows, sizes)
    total: Tensor = _Sums.apply(rows, sizes, owner)  # type: ignore[no-untyped-call]
    return total
