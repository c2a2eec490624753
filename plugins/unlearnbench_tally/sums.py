"""Sums over the retained nodes, exact to the last bit: adding a row and subtracting it leaves no trace."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench_tally.whole import check_bound

_CHUNK = 4096


class Sums:
    """Z'Z with Z = [rows, 1, one-hot labels]: Gram matrix, sums, products with labels, counts.

    Every entry is a sum of whole numbers of at most 4^bits each, checked to stay below 2^53: exact in any order.

    Args:
        width: Columns of rows.
        num_classes: C.
        bits: Entries of rows are at most 2^bits.
        by_class: Whether a matrix is kept for each class, for weights of classes.
        device: Where to keep them.
    """

    def __init__(self, width: int, num_classes: int, bits: int, by_class: bool, device: torch.device) -> None:
        self.width, self._num_classes, self._bits = width, num_classes, bits
        size = width + 1 + num_classes
        shape = (num_classes if by_class else 1, size, size)
        self.matrices = torch.zeros(shape, dtype=torch.float64, device=device)

    @property
    def count(self) -> int:
        """Number of nodes."""
        return int(self.matrices[:, self.width, self.width].sum())

    def add(self, rows: Tensor, labels: Tensor, sign: int = 1) -> None:
        """Add nodes, or subtract them.

        Args:
            rows: Whole numbers [m, width], at most 2^bits.
            labels: int64 [m].
            sign: 1 or -1.

        Raises:
            UsageError: The sums might not be exact.
        """
        check_bound(self.count + len(rows), self._bits)
        for start in range(0, len(rows), _CHUNK):
            some, classes = rows[start : start + _CHUNK].to(torch.float64), labels[start : start + _CHUNK]
            hot = functional.one_hot(classes, self._num_classes).to(torch.float64)
            joined = torch.cat([some, some.new_ones(len(some), 1), hot], dim=1)
            if len(self.matrices) == 1:
                self.matrices[0].addmm_(joined.T, joined, alpha=sign)
                continue
            for label in classes.unique().tolist():
                part = joined[classes == label]
                self.matrices[label].addmm_(part.T, part, alpha=sign)

    def weighted(self) -> Tensor:
        """Return one matrix; where there is one for each class, their sum with all classes of equal weight."""
        if len(self.matrices) == 1:
            return self.matrices[0]
        counts = self.matrices[:, self.width, self.width]
        return torch.einsum("c,cij->ij", class_weights(counts), self.matrices)


def class_weights(counts: Tensor) -> Tensor:
    """Return weights that give every class that occurs the same total: n / (k n_c)."""
    weights: Tensor = torch.where(counts > 0, counts.sum() / (counts > 0).sum() / counts.clamp(min=1), 0.0)
    return weights
