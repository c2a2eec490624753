"""Sparse matrices with their transpose at hand, and their product with a dense one."""

from __future__ import annotations

import warnings
from typing import Any

import torch
from torch import Tensor

# Features with a smaller share of non-zeros than this are multiplied as sparse; measured break-even
# of the two products on one thread lies between 0.1 and 0.3 for 64 columns.
SPARSE_BELOW = 0.15


class SparseMatrix:
    """A constant sparse matrix, compressed by rows; its transpose is built when it is first needed.

    Args:
        csr: `torch.sparse_csr` [n, m].
        transposed: `torch.sparse_csr` [m, n], where it is known already.
    """

    def __init__(self, csr: Tensor, transposed: Tensor | None = None) -> None:
        self.csr = csr
        self._transposed = transposed

    @property
    def transposed(self) -> Tensor:
        """Give the transpose, compressed by rows: only a backward pass needs it."""
        if self._transposed is None:
            counts = self.csr.crow_indices().diff()
            row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
            shape = (self.csr.shape[1], self.csr.shape[0])
            self._transposed = _compressed(self.csr.col_indices().long(), row, self.csr.values(), shape)
        return self._transposed

    @property
    def shape(self) -> tuple[int, int]:
        """Give (n, m)."""
        return self.csr.shape[0], self.csr.shape[1]

    def t(self) -> SparseMatrix:
        """Give the transpose."""
        return SparseMatrix(self.transposed, self.csr)

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Multiply with a dense [m, k]; can be differentiated any number of times."""
        product: Tensor = _Product.apply(self, dense)  # type: ignore[no-untyped-call]
        return product


def from_entries(row: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> SparseMatrix:
    """Build from entries in any order; entries of one place are kept apart and add up.

    Args:
        row: int64 [k].
        column: int64 [k].
        value: float32 [k].
        shape: (n, m).
    """
    return SparseMatrix(_compressed(row, column, value, shape))


def from_edges(edge_index: Tensor, num_nodes: int, weight: Tensor | None = None) -> SparseMatrix:
    """Build the matrix whose product with h sums, for each node, h of the sources of its incoming edges.

    Args:
        edge_index: int64 [2, E], source and target.
        num_nodes: n.
        weight: float32 [E]; default: ones.
    """
    source, target = edge_index
    value = torch.ones(edge_index.shape[1], device=edge_index.device) if weight is None else weight
    return from_entries(target, source, value, (num_nodes, num_nodes))


def from_dense(dense: Tensor) -> SparseMatrix:
    """Build from a dense matrix [n, m]."""
    row, column = torch.nonzero(dense, as_tuple=True)
    return from_entries(row, column, dense[row, column], (dense.shape[0], dense.shape[1]))


def is_sparse_enough(dense: Tensor) -> bool:
    """Tell whether features pay as sparse."""
    return dense.numel() > 0 and float(torch.count_nonzero(dense)) < SPARSE_BELOW * dense.numel()


def _compressed(row: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> Tensor:
    order = torch.sort(row * shape[1] + column, stable=True).indices
    counts = torch.bincount(row, minlength=shape[0])
    starts = torch.zeros(shape[0] + 1, dtype=torch.int64, device=row.device)
    torch.cumsum(counts, dim=0, out=starts[1:])
    # MKL takes short indices only where torch is built with it: long ones are converted at every product.
    kind = torch.int32 if max(len(order), *shape) < 2**31 else torch.int64
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(
            starts.to(kind), column[order].to(kind), value[order], shape, check_invariants=False
        )


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        # In place: `@` copies its result once more.
        return dense.new_zeros(matrix.shape[0], dense.shape[1]).addmm_(matrix.csr, dense, beta=0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix.t() @ grads[0].contiguous()
