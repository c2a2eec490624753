"""One logistic regression per class, with a penalty and a random linear term: gradient, Hessian, optimum, budget.

The loss of weights W [F, C] is the sum over nodes i and classes c of -log sigmoid(y_ic z_i w_c), plus
n * lam / 2 times the square of W, plus the sum of B * W. Labels y_ic are 1 for the node's class, else
-1. Classes are independent, so that gradients and Hessians are computed column by column.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.errors import RefusedError
from unlearnbench.unlearning.linear import conjugate_gradients, minimised

# Lipschitz constants of the second derivative of -log sigmoid, s (1 - s): the paper's, and the least one.
GAMMA = {"paper": 0.25, "tight": 1 / (6 * math.sqrt(3))}


def signs(labels: Tensor, num_classes: int) -> Tensor:
    """Return y: float64 [n, C], 1 for the class of a node and -1 for others."""
    return 2 * functional.one_hot(labels, num_classes).to(torch.float64) - 1


def loss(weights: Tensor, rows: Tensor, y: Tensor, lam: float, noise: Tensor) -> Tensor:
    """Return the loss.

    Args:
        weights: float64 [F, C].
        rows: float64 [n, F], propagated features.
        y: float64 [n, C], from `signs`.
        lam: Penalty per node.
        noise: float64 [F, C], B.
    """
    data = -functional.logsigmoid(y * (rows @ weights)).sum()
    return data + len(rows) * lam / 2 * weights.square().sum() + (noise * weights).sum()


def gradient(weights: Tensor, rows: Tensor, y: Tensor, lam: float) -> Tensor:
    """Return the gradient of the loss without its random term, which is the same for every graph: [F, C]."""
    slope = (torch.sigmoid(y * (rows @ weights)) - 1) * y
    return rows.T @ slope + len(rows) * lam * weights


def product(weights: Tensor, rows: Tensor, lam: float, direction: Tensor) -> Tensor:
    """Multiply each column of a direction [F, C] by the Hessian of its class."""
    probability = torch.sigmoid(rows @ weights)
    return rows.T @ (probability * (1 - probability) * (rows @ direction)) + len(rows) * lam * direction


def solve(weights: Tensor, rows: Tensor, lam: float, target: Tensor, tolerance: float = 1e-8) -> Tensor:
    """Solve H s = target column by column, by conjugate gradients.

    Rounding may stop it before the tolerance is reached; the caller must check the residual.

    Args:
        weights: float64 [F, C], where the Hessian is evaluated.
        rows: float64 [n, F].
        lam: Penalty per node.
        target: float64 [F, C].
        tolerance: Norm of the residual of a column relative to the column.
    """
    return conjugate_gradients(
        lambda direction: product(weights, rows, lam, direction), target, tolerance, 10 * len(target)
    )


def minimise(rows: Tensor, y: Tensor, lam: float, noise: Tensor) -> tuple[Tensor, int]:
    """Minimise the loss by L-BFGS, starting at zero.

    Returns:
        The weights, float64 [F, C], and the number of steps.
    """
    return minimised(lambda weights: loss(weights, rows, y, lam, noise), torch.zeros_like(noise), 1000, 1e-10)


def residual_bound(rows: Tensor, step: Tensor, gamma: float = GAMMA["paper"]) -> float:
    """Bound the gradient that remains after a Newton step (Chien et al., CGU, the data-dependent bound).

    For a class: gamma * |Z| * max_i |z_i| * |s| * |Z s| with the spectral norm of Z. The classes' weights
    form one vector, so that the squares of their bounds add up.

    Args:
        rows: float64 [n, F], Z on the retained graph.
        step: float64 [F, C], s of each class.
        gamma: A Lipschitz constant of s (1 - s).
    """
    gram = rows.T @ rows if rows.shape[1] <= rows.shape[0] else rows @ rows.T
    spectral = math.sqrt(max(0.0, float(torch.linalg.eigvalsh(gram)[-1])))
    longest = float(rows.norm(dim=1).max())
    return gamma * spectral * longest * float((step.norm(dim=0) * (rows @ step).norm(dim=0)).norm())


def budget(std: float, epsilon: float, delta: float) -> float:
    """Return the norm of the gradient that the random term hides: std * epsilon / sqrt(2 ln(1.5 / delta))."""
    return std * epsilon / math.sqrt(2 * math.log(1.5 / delta))


def train(rows: Tensor, y: Tensor, lam: float, std: float, rng: torch.Generator) -> tuple[Tensor, int, float]:
    """Train with a random linear term.

    Args:
        rows: float64 [n, F], propagated features.
        y: float64 [n, C], from `signs`.
        lam: Penalty per node.
        std: Standard deviation of the random term.
        rng: Draws it, on the CPU.

    Returns:
        Weights, float64 [F, C]; steps; and the norm of the gradient that is left, which counts against the budget.
    """
    drawn = torch.randn(rows.shape[1], y.shape[1], generator=rng, dtype=torch.float64)
    noise = std * drawn.to(rows.device)
    weights, steps = minimise(rows, y, lam, noise)
    return weights, steps, float((gradient(weights, rows, y, lam) + noise).norm())


def check_within(spent: float, most: float) -> None:
    """Refuse a training that used up more than the budget.

    Raises:
        RefusedError: It did.
    """
    if not spent <= most:
        raise RefusedError(
            f"Training stopped at a gradient of {spent:.2g}, more than the budget of {most:.2g}.",
            "Use a larger std, epsilon or lam.",
        )


def log_probabilities(scores: Tensor) -> Tensor:
    """Return the logarithm of the normalised probabilities of one-against-rest regressions: float32 [n, C]."""
    return torch.log_softmax(functional.logsigmoid(scores), dim=1).to(torch.float32)
