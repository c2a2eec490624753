"""Matrix-free inversion of a symmetric operator: extreme eigenvalues, damped Neumann series, conjugate gradients."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench.errors import RefusedError

HessianProduct = Callable[[Tensor], Tensor]

# Relative growth of a term's norm that may be rounding.
_ROUNDING = 1e-5


@dataclass(frozen=True)
class Inverse:
    """The result of the series, or of another solver.

    Args:
        value: float [p], the sum divided by the scale.
        iterations: Number of terms after the first.
        last: Norm of the last term over the norm of the sum; of conjugate gradients, of the residual over that of v.
        converged: Whether `last` reached the tolerance.
    """

    value: Tensor
    iterations: int
    last: float
    converged: bool


# Of the operator, the vector, the scale, the damping and the largest number of iterations.
Solver = Callable[[HessianProduct, Tensor, float, float, int], Inverse]


def conjugate(
    product: HessianProduct, vector: Tensor, scale: float, damp: float, iterations: int, tolerance: float = 1e-6
) -> Inverse:
    """Solve (H + damp * scale) x = v by conjugate gradients.

    Args:
        product: Returns H u for a vector u.
        vector: float [p], v.
        scale: As for `neumann`; only its product with `damp` counts.
        damp: As for `neumann`.
        iterations: Largest number of steps.
        tolerance: Stop when the residual is this small relative to v.

    Raises:
        RefusedError: A direction in which the damped operator curves downwards was met.
    """
    solved, residual = torch.zeros_like(vector), vector.clone()
    direction, square = residual.clone(), float(residual @ residual)
    goal, iteration = tolerance**2 * square, 0
    while iteration < iterations and square > goal:
        image = product(direction) + damp * scale * direction
        curvature = float(direction @ image)
        # Written so that NaN is refused too.
        if not curvature > 0:
            raise RefusedError(
                f"Conjugate gradients met a curvature of {curvature:.2g} at iteration {iteration + 1}: with damp"
                f" {damp:.4g} the Hessian is not positive definite.",
                "Use more damp; by default it is chosen.",
            )
        length = square / curvature
        solved += length * direction
        residual -= length * image
        former, square = square, float(residual @ residual)
        direction = residual + square / former * direction
        iteration += 1
    last = (square * tolerance**2 / goal) ** 0.5 if goal > 0 else 0.0
    return Inverse(solved, iteration, last, square <= goal)


def neumann(
    product: HessianProduct, vector: Tensor, scale: float, damp: float, iterations: int, tolerance: float = 1e-6
) -> Inverse:
    """Approximate (H + damp * scale)^-1 v by the damped Neumann series.

    The recursion h <- v + (1 - damp) h - H h / scale, started at h = v (Koh and Liang, Understanding
    Black-box Predictions via Influence Functions, ICML 2017, section 3; Wu et al., GIF, WWW 2023),
    is summed term by term: term t is M^t v with M = (1 - damp) I - H / scale, and the norm of a
    term is the change of h. As M is symmetric, the logarithm of that norm is convex in t: it may fall
    for a while, but once it grows it grows for ever. The first growth therefore proves that the
    series diverges; it is checked at every step.

    Args:
        product: Returns H u for a vector u.
        vector: float [p], v.
        scale: The series converges only if it is more than half of the largest eigenvalue of H.
        damp: Added to the diagonal of H / scale.
        iterations: Largest number of terms after the first.
        tolerance: Stop when a term is this small relative to the sum.

    Raises:
        RefusedError: The series diverges; the message gives iteration, scale and damping.
    """
    term, total = vector, vector.clone()
    size = float(term.norm())
    iteration, last = 0, 1.0
    while iteration < iterations and last > tolerance and size > 0:
        term = (1 - damp) * term - product(term) / scale
        iteration += 1
        grown = float(term.norm())
        # Written so that NaN is refused too.
        if not grown <= size * (1 + _ROUNDING):
            raise RefusedError(
                f"diverged at iteration {iteration}: with scale {scale:.4g} and damp {damp:.4g} the change of the"
                f" estimate grew from {size:.4g} to {grown:.4g}, and can only go on growing.",
                "Use a larger scale if it is below the largest eigenvalue, else more damp; by default both are chosen.",
            )
        size = grown
        total += term
        last = size / max(float(total.norm()), torch.finfo(total.dtype).tiny)
    return Inverse(total / scale, iteration, last, last <= tolerance or size == 0)


def outermost(product: HessianProduct, start: Tensor, steps: int = 30) -> tuple[float, float]:
    """Estimate the smallest and the largest eigenvalue of a symmetric operator (Lanczos' iteration).

    The estimates never lie outside the true range, and those of well-separated eigenvalues are
    accurate after a few steps.

    Args:
        product: Returns H u for a vector u.
        start: float [p], random.
        steps: Largest number of products, and of vectors kept.

    Returns:
        The two estimates, smallest first.
    """
    basis = [start / start.norm()]
    diagonal: list[float] = []
    off_diagonal: list[float] = []
    while True:
        image = product(basis[-1])
        diagonal.append(float(image @ basis[-1]))
        for _ in range(2):  # one pass leaves rounding errors, from which converged eigenvalues reappear
            vectors = torch.stack(basis)
            image = image - vectors.T @ (vectors @ image)
        length = float(image.norm())
        if len(basis) == min(steps, len(start)) or not length > _ROUNDING * max(map(abs, diagonal)):
            break
        off_diagonal.append(length)
        basis.append(image / length)
    matrix = torch.diag(torch.tensor(diagonal, dtype=torch.float64))
    sides = torch.tensor(off_diagonal, dtype=torch.float64)
    matrix += torch.diag(sides, 1) + torch.diag(sides, -1)
    if not bool(torch.isfinite(matrix).all()):
        raise RefusedError(
            "The curvature of the loss is not finite at the trained parameters.", "Train with a smaller learning rate."
        )
    values = torch.linalg.eigvalsh(matrix)
    return float(values[0]), float(values[-1])
