"""Features that are mostly zero, compressed by rows (CSR): rows are selected without touching the zeros."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench.graph.neighbours import row_entries, row_starts

# Features with a smaller share of non-zeros than this are multiplied as sparse; measured break-even
# of the two products on one thread lies between 0.1 and 0.3 for 64 columns.
SPARSE_BELOW = 0.15


@dataclass(frozen=True, eq=False)
class SparseRows:
    """Rows of which only the non-zero entries are kept.

    Args:
        starts: int64 [n + 1], where each row's entries begin; the last is their number.
        columns: int32 [k], ascending within a row.
        values: [k], none of them zero.
        num_columns: Columns, whether or not each occurs.
    """

    starts: Tensor
    columns: Tensor
    values: Tensor
    num_columns: int

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self.starts.shape[0] - 1

    def is_sparse_enough(self) -> bool:
        """Whether a sparse product of these rows is faster than a dense one."""
        return _is_below(len(self.values), self.num_rows * self.num_columns)

    def take(self, at: Tensor) -> SparseRows:
        """Return a copy of the rows at these positions, in this order.

        Args:
            at: int64 [m].
        """
        entries, starts = row_entries(self.starts, at)
        return SparseRows(starts, self.columns[entries], self.values[entries], self.num_columns)

    def dense(self) -> Tensor:
        """Return the dense matrix [n, num_columns]."""
        row = torch.repeat_interleave(torch.arange(self.num_rows, device=self.starts.device), self.starts.diff())
        result = self.values.new_zeros(self.num_rows, self.num_columns)
        result[row, self.columns.long()] = self.values
        return result

    def to(self, device: torch.device) -> SparseRows:
        """Move every tensor to a device."""
        return SparseRows(self.starts.to(device), self.columns.to(device), self.values.to(device), self.num_columns)


def compressed(dense: Tensor) -> SparseRows:
    """Compress a dense matrix [n, m]."""
    row, column = torch.nonzero(dense, as_tuple=True)
    counts = torch.bincount(row, minlength=dense.shape[0])
    return SparseRows(row_starts(counts), column.to(torch.int32), dense[row, column], dense.shape[1])


def is_sparse_enough(dense: Tensor) -> bool:
    """Whether a sparse product of these features is faster than a dense one."""
    return _is_below(int(torch.count_nonzero(dense)), dense.numel())


def _is_below(non_zeros: int, entries: int) -> bool:
    return entries > 0 and non_zeros < SPARSE_BELOW * entries
