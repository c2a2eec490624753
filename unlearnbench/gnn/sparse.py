"""Constant sparse matrices with a cached transpose, and their product with a dense matrix."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from unlearnbench.graph.neighbours import row_starts
from unlearnbench.graph.sparse_features import SparseRows, compressed
from unlearnbench.graph.sparse_features import is_sparse_enough as is_sparse_enough


class SparseMatrix:
    """A constant sparse matrix, compressed by rows; its transpose is built at first use.

    Args:
        csr: `torch.sparse_csr` [n, m].
        transposed: `torch.sparse_csr` [m, n], if it is known already.
    """

    def __init__(self, csr: Tensor, transposed: Tensor | None = None) -> None:
        self.csr = csr
        self._transposed = transposed

    @property
    def transposed(self) -> Tensor:
        """The transpose, compressed by rows; only a backward pass needs it."""
        if self._transposed is None:
            counts = self.csr.crow_indices().diff()
            row = torch.repeat_interleave(torch.arange(len(counts), device=counts.device), counts)
            shape = (self.csr.shape[1], self.csr.shape[0])
            self._transposed = _compressed(self.csr.col_indices().long(), row, self.csr.values(), shape)
        return self._transposed

    @property
    def shape(self) -> tuple[int, int]:
        """The shape (n, m)."""
        return self.csr.shape[0], self.csr.shape[1]

    def t(self) -> SparseMatrix:
        """Return the transpose."""
        return SparseMatrix(self.transposed, self.csr)

    def rows(self, first: int, last: int) -> SparseMatrix:
        """Return the rows from `first` to before `last`, without copying their entries."""
        starts = self.csr.crow_indices()[first : last + 1]
        entries = slice(int(starts[0]), int(starts[-1]))
        columns, values = self.csr.col_indices()[entries], self.csr.values()[entries]
        return SparseMatrix(_csr(starts - starts[0], columns, values, (last - first, self.csr.shape[1])))

    def __matmul__(self, dense: Tensor) -> Tensor:
        """Multiply by a dense [m, k]; differentiable any number of times."""
        if not torch.is_grad_enabled():
            return _product(self, dense)
        product: Tensor = _Product.apply(self, dense)  # type: ignore[no-untyped-call]
        return product


def from_entries(row: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> SparseMatrix:
    """Build from entries in any order; entries at the same position are kept and add up.

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


def from_rows(rows: SparseRows) -> SparseMatrix:
    """Build from rows that are compressed already."""
    return block_diagonal([rows], [0], 1)


def from_dense(dense: Tensor) -> SparseMatrix:
    """Build from a dense matrix [n, m]."""
    return from_rows(compressed(dense))


def block_diagonal(blocks: Sequence[SparseRows], places: Sequence[int], num_places: int) -> SparseMatrix:
    """Combine the rows of several networks in one matrix, with separate columns for each network.

    Args:
        blocks: Each network's rows, m columns each.
        places: Each network's columns begin at place * m.
        num_places: Number of places.

    Returns:
        The blocks' rows in their order; num_places * m columns.
    """
    width = blocks[0].num_columns
    starts, at = [blocks[0].starts[:1]], 0
    for block in blocks:
        starts.append(block.starts[1:] + at)
        at += len(block.values)
    kind = _index_type(at, num_places * width)
    columns = torch.cat([block.columns.to(kind) + place * width for block, place in zip(blocks, places, strict=True)])
    values = torch.cat([block.values for block in blocks])
    all_starts = torch.cat(starts).to(kind)
    return SparseMatrix(_csr(all_starts, columns, values, (len(all_starts) - 1, num_places * width)))


def _compressed(row: Tensor, column: Tensor, value: Tensor, shape: tuple[int, int]) -> Tensor:
    order = torch.sort(row * shape[1] + column, stable=True).indices
    starts = row_starts(torch.bincount(row, minlength=shape[0]))
    kind = _index_type(len(order), *shape)
    return _csr(starts.to(kind), column[order].to(kind), value[order], shape)


def _index_type(*numbers: int) -> torch.dtype:
    # MKL takes short indices only where torch is built with it: long ones are converted at every product.
    return torch.int32 if max(numbers) < 2**31 else torch.int64


def _csr(starts: Tensor, columns: Tensor, values: Tensor, shape: tuple[int, int]) -> Tensor:
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="Sparse CSR tensor support is in beta")
        return torch.sparse_csr_tensor(starts, columns, values, shape, check_invariants=False)


def _product(matrix: SparseMatrix, dense: Tensor) -> Tensor:
    # In place: `@` copies its result once more.
    return dense.new_zeros(matrix.shape[0], dense.shape[1]).addmm_(matrix.csr, dense, beta=0)


class _Product(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, matrix: SparseMatrix, dense: Tensor) -> Tensor:
        ctx.matrix = matrix
        return _product(matrix, dense)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[None, Tensor]:
        return None, ctx.matrix.t() @ grads[0].contiguous()
