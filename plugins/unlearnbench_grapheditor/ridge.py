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

    With S the inverse and X the rows: S - sign S X' (I + sign X S X')^-1 X S.

    Args:
        inverse: float64 [F, F], symmetric.
        rows: float64 [k, F].
        sign: 1 to add them, -1 to remove them.

    Returns:
        The new inverse, or None if rounding has made I + sign X S X' indefinite.
    """
    image = rows @ inverse
    core = sign * image @ rows.T
    core.diagonal().add_(1)
    factor, failed = torch.linalg.cholesky_ex(core)
    if bool(failed):
        return None
    half = torch.linalg.solve_triangular(factor, image, upper=False)
    return inverse.addmm(half.T, half, alpha=-sign)


def exchanged(inverse: Tensor, gone: Tensor, come: Tensor) -> Tensor | None:
    """Exchange some rows of an inverse for others.

    The new ones are added before the old ones are removed: in the other order, a direction that only they
    have would pass through 1 / lam.
    """
    more = updated(inverse, come, 1)
    return None if more is None else updated(more, gone, -1)
