"""Rows of whole numbers: a row depends on one node alone, and on no order of additions.

Sums of float64 whole numbers are exact, in whatever order they are taken, while no partial sum exceeds 2^53.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from unlearnbench import UsageError
from unlearnbench.gnn import SparseRows
from unlearnbench.unlearning import row_starts

# Every whole number up to this one is a float64.
LARGEST = 2**53


def check_bound(count: int, bits: int) -> None:
    """Check that a sum of `count` products of two entries is exact: each is at most 2^bits, so count * 4^bits counts.

    Raises:
        UsageError: The sum could exceed 2^53.
    """
    if count << 2 * bits > LARGEST:
        raise UsageError(
            f"Sums over {count} nodes of rows of {bits} bits may not be exact in double precision.",
            f"Set `bits` to {((LARGEST // count).bit_length() - 1) // 2} or less.",
        )


def unit_rows(rows: Tensor, bits: int) -> Tensor:
    """Scale every row to length 2^bits and round it to whole numbers; a row of zeros stays.

    The length is a sum of squares of whole numbers: entries relative to the largest one, in steps so coarse that
    the sum is exact. Division and square root are correctly rounded, so that a row has the same bits in any batch.

    Args:
        rows: [n, w], finite.
        bits: Entries of the result are at most 2^bits.

    Returns:
        float64 [n, w], whole numbers.
    """
    rows = rows.to(torch.float64)
    largest = rows.abs().amax(dim=1, keepdim=True) if rows.shape[1] else rows.new_zeros(len(rows), 1)
    steps = (rows / _divisor(largest) * _steps(rows.shape[1])).round_()
    square = steps.square().sum(dim=1, keepdim=True)
    whole: Tensor = (steps / _divisor(square.sqrt_()) * 2**bits).round_()
    return whole


def unit_sparse_rows(rows: SparseRows, bits: int) -> SparseRows:
    """Do what `unit_rows` does, with the same numbers."""
    counts = rows.starts.diff()
    row = torch.repeat_interleave(torch.arange(rows.num_rows, device=counts.device), counts)
    values = rows.values.to(torch.float64)
    largest = values.new_zeros(rows.num_rows).scatter_reduce_(0, row, values.abs(), "amax")
    steps = (values / _divisor(largest)[row] * _steps(rows.num_columns)).round_()
    square = values.new_zeros(rows.num_rows).index_add_(0, row, steps.square())
    whole = (steps / _divisor(square.sqrt_())[row] * 2**bits).round_()
    kept = whole != 0
    return SparseRows(
        row_starts(torch.bincount(row[kept], minlength=rows.num_rows)),
        rows.columns[kept],
        whole[kept],
        rows.num_columns,
    )


def integer_type(bits: int) -> torch.dtype:
    """Return the smallest integer type that holds entries of rows."""
    return torch.int16 if 2**bits <= torch.iinfo(torch.int16).max else torch.int32


def _steps(width: int) -> float:
    # width * steps^2 <= 2^52
    return float(2 ** min(20, (52 - math.ceil(math.log2(max(width, 1)))) // 2))


def _divisor(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 1.0)
