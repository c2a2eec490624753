"""Ridge regression of one-hot labels with an intercept, from sums or from rows, and the spread of its errors."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.gnn import SparseMatrix
from unlearnbench.unlearning import conjugate_gradients
from unlearnbench_tally.sums import class_weights

# Penalties that cross-validation chooses from, relative to rows of length one.
GRID = tuple(10 ** (step / 2) for step in range(-6, 7))
_TOLERANCE, _MOST_STEPS = 1e-4, 200
# Of the errors of scores in [0, 1]; and of the share of nodes that is not used up by parameters.
_LEAST_VARIANCE, _LEAST_SHARE = 1e-3, 0.05


@dataclass(frozen=True, eq=False)
class Head:
    """A linear function of rows of length one.

    Args:
        weight: float64 [w, C].
        bias: float64 [C].
        variance: float64 [], of the scores' errors for nodes that were not trained on.
    """

    weight: Tensor
    bias: Tensor
    variance: Tensor


def from_sums(matrix: Tensor, width: int, bits: int, ridge: float | None, probe: Tensor) -> Head:
    """Solve by one Cholesky decomposition of the centred Gram matrix.

    Args:
        matrix: float64 [w + 1 + C, w + 1 + C], Z'Z as in `Sums`.
        width: w.
        bits: Rows have length 2^bits.
        ridge: The penalty; None: chosen by generalised cross-validation.
        probe: float64 [w], signs drawn without data, for the degrees of freedom.
    """
    scale = 2.0**-bits
    count, totals = matrix[width, width], matrix[width, width + 1 :]
    mean = matrix[:width, width] * scale / count
    gram = matrix[:width, :width] * scale**2 - count * torch.outer(mean, mean)
    cross = matrix[:width, width + 1 :] * scale - torch.outer(mean, totals)
    variation = (totals - totals.square() / count).sum()
    penalty = _cross_validated(gram, cross, variation, count) if ridge is None else ridge
    factor = torch.linalg.cholesky(gram.diagonal_scatter(gram.diagonal() + penalty))
    solved = torch.cholesky_solve(torch.cat([cross, probe[:, None]], dim=1), factor)
    weight, freedom = solved[:, :-1], width - penalty * (probe @ solved[:, -1])
    residual = variation - 2 * (weight * cross).sum() + (weight * (gram @ weight)).sum()
    return _head(weight, mean, totals / count, residual, count, freedom)


def from_rows(
    rows: Tensor | SparseMatrix, labels: Tensor, num_classes: int, balanced: bool, ridge: float, probe: Tensor
) -> Head:
    """Solve by conjugate gradients from zero, by products with the rows: for more columns than a Gram matrix bears.

    Args:
        rows: float64 [n, w], of length one.
        labels: int64 [n].
        num_classes: C.
        balanced: Whether all classes that occur have the same weight.
        ridge: The penalty.
        probe: As for `from_sums`.
    """
    transposed = rows.t()
    hot = functional.one_hot(labels, num_classes).to(torch.float64)
    of_node = class_weights(hot.sum(dim=0))[labels, None] if balanced else torch.ones_like(hot[:, :1])
    count, totals = of_node.sum(), (of_node * hot).sum(dim=0)
    mean = (transposed @ of_node)[:, 0] / count

    def product(direction: Tensor) -> Tensor:
        centred = transposed @ (of_node * (rows @ direction)) - torch.outer(count * mean, mean @ direction)
        return centred + ridge * direction

    cross = transposed @ (of_node * hot) - torch.outer(mean, totals)
    target = torch.cat([cross, probe[:, None]], dim=1)
    solved = conjugate_gradients(product, target, _TOLERANCE, _MOST_STEPS)
    weight, freedom = solved[:, :-1], probe.numel() - ridge * (probe @ solved[:, -1])
    errors = rows @ weight - mean @ weight - (hot - totals / count)
    return _head(weight, mean, totals / count, (of_node * errors.square()).sum(), count, freedom)


def _head(weight: Tensor, mean: Tensor, prior: Tensor, residual: Tensor, count: Tensor, freedom: Tensor) -> Head:
    """Return the head; its variance is that of generalised cross-validation."""
    share = ((count - 1 - freedom) / count).clamp(min=_LEAST_SHARE)
    variance = (residual / (count * len(prior)) / share.square()).clamp(min=_LEAST_VARIANCE)
    return Head(weight.contiguous(), prior - mean @ weight, variance)


def _cross_validated(gram: Tensor, cross: Tensor, variation: Tensor, count: Tensor) -> float:
    """Return the penalty of the grid with the least residual / (1 - freedom / n)^2 (Golub, Heath and Wahba, 1979)."""
    values, vectors = torch.linalg.eigh(gram)
    values = values.clamp(min=0)
    square = (vectors.T @ cross).square().sum(dim=1)

    def criterion(penalty: float) -> float:
        residual = variation - (square * (values + 2 * penalty) / (values + penalty).square()).sum()
        share = (count - 1 - (values / (values + penalty)).sum()) / count
        return float(residual / share.clamp(min=_LEAST_SHARE).square())

    return min(GRID, key=criterion)
