"""Functions without parameters: personalised PageRank and ELU."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from unlearnbench.gnn.sparse import SparseMatrix


def pagerank(matrix: SparseMatrix, rows: Tensor, steps: int, restart: float) -> Tensor:
    """Repeat Z <- (1 - a) M Z + a H, starting from Z = H (Gasteiger et al., ICLR 2019, equation 8).

    The result is a polynomial of M times H, so that its gradient is the same iteration with the
    transposed matrix, and no intermediate step needs to be stored.

    Args:
        matrix: M, [n, n].
        rows: H, float [n, k].
        steps: Number of iterations.
        restart: a, the probability to go back to the start.
    """
    result: Tensor = _PageRank.apply(matrix, rows, steps, restart)  # type: ignore[no-untyped-call]
    return result


class _PageRank(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, rows: Tensor, steps: int, restart: float) -> Tensor:
        ctx.matrix, ctx.steps, ctx.restart = matrix, steps, restart
        result = rows
        for _ in range(steps):
            result = torch.addmm(rows, matrix.csr, result, beta=restart, alpha=1 - restart)
        return result

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor, None, None]:
        return None, pagerank(ctx.matrix.t(), grads[0].contiguous(), ctx.steps, ctx.restart), None, None


def elu(rows: Tensor) -> Tensor:
    """Compute x where x > 0, else exp(x) - 1 (Clevert et al., ICLR 2016); differentiable any number of times.

    `torch.nn.functional.elu` rounds the last entries of a tensor differently from the others,
    so that a network's bits would depend on the other networks of a stack.

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
