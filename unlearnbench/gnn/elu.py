"""The exponential linear unit, with bits that do not depend on where in a tensor an entry lies."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor


def elu(rows: Tensor) -> Tensor:
    """Give x where x > 0, else exp(x) - 1 (Clevert et al., ICLR 2016); differentiable any number of times.

    `torch.nn.functional.elu` rounds the last entries of a tensor differently from the others,
    so that a network's bits would depend on its neighbours in a stack.

    Args:
        rows: float, any shape.
    """
    result: Tensor = _Elu.apply(rows)  # type: ignore[no-untyped-call]
    return result


class _Elu(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, rows: Tensor) -> Tensor:
        result = rows.clamp(max=0).expm1_().add_(rows.clamp(min=0))
        ctx.save_for_backward(result)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (result,) = ctx.saved_tensors
        grad: Tensor = grads[0] * (result.clamp(max=0) + 1)
        return grad
