"""The inverse (Z'Z + lam I)^-1 of ridge regression: computed afresh, and updated when rows come or go."""

from __future__ import annotations

import torch
from torch import Tensor


def inverse(rows: Tensor, lam: float) -> Tensor:
    """Return (Z'Z + lam I)^-1, float64 [F, F], for the rows Z, float64 [n, F]."""
    gram = rows.T @ rows
    gram.diagonal().add_(lam)
    return torch.cholesky_inverse(torch.linalg.cholesky(gram))


def updated(inverse: Tensor, rows: Tensor, sign: int) -> Tensor | None:
    """Add rows to an inverse or remove them from it, by the Sherman-Morrison-Woodbury identity.

    With S the inverse and X the rows: S - sign S X' (I + sign X S X')^-1 X S. At most F rows at a time, so that
    no inner matrix is larger than S and the cost is linear in k: at most 4 k F^2.

    Args:
        inverse: float64 [F, F], symmetric.
        rows: float64 [k, F].
        sign: 1 to add them, -1 to remove them.

    Returns:
        The new inverse, or None if rounding has made an inner matrix indefinite.
    """
    for part in rows.split(len(inverse)):
        image = part @ inverse
        inner = sign * image @ part.T
        inner.diagonal().add_(1)
        factor, failed = torch.linalg.cholesky_ex(inner)
        if bool(failed):
            return None
        half = torch.linalg.solve_triangular(factor, image, upper=False)
        inverse = inverse.addmm(half.T, half, alpha=-sign)
    return inverse


def exchanged(inverse: Tensor, gone: Tensor, come: Tensor) -> Tensor | None:
    """Exchange some rows of an inverse for others; None as for `updated`.

    The new ones are added before the old ones are removed: in the other order, a direction that only they
    have would pass through 1 / lam.
    """
    more = updated(inverse, come, 1)
    return None if more is None else updated(more, gone, -1)


def is_cheaper_afresh(num_exchanged: int, num_rows: int, num_features: int) -> bool:
    """Whether 4 k F^2, the cost of exchanging k rows, exceeds n F^2 + F^3, that of a fresh inverse."""
    return 4 * num_exchanged > num_rows + num_features
