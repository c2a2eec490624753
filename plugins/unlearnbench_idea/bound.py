"""What IDEA claims: how far its parameters are from retrained ones, and what noise hides such a distance."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """What is assumed of the loss of a node, on every graph and at all parameters.

    Args:
        lipschitz: l: it changes by no more than this a unit of distance.
        convexity: lambda: the mean loss is strongly convex with this constant.
        loss: C: it lies between 0 and this.
    """

    lipschitz: float
    convexity: float
    loss: float


def distance_bound(constants: Constants, nodes: int, forgotten: int, influenced: int, step: float) -> float:
    """Bound the distance of the stepped parameters from retrained ones (Dong et al., IDEA, KDD 2024).

    The distance d of the trained from the retrained parameters obeys

        n lambda / 2 d^2 <= m l d + 2 t C:

    by convexity the left side is at most what the former sum of losses is higher at the retrained
    parameters; there the sum over retained nodes on the retained graph is not higher, the m forgotten
    nodes' losses are higher by at most l d each, and those of the t influenced nodes differ by at
    most C at either parameters between the graphs. The larger root is the first term; the second is
    the step, by the triangle inequality.

    Args:
        constants: l, lambda and C.
        nodes: n, training nodes before the request.
        forgotten: m.
        influenced: t, retained nodes whose loss the request changes.
        step: Norm of the change of the parameters.
    """
    weight = nodes * constants.convexity
    pull = forgotten * constants.lipschitz
    return (pull + math.sqrt(pull**2 + 4 * weight * influenced * constants.loss)) / weight + step


def noise_for(bound: float, epsilon: float, delta: float) -> float:
    """Give the standard deviation that hides a distance: the Gaussian mechanism (Dwork and Roth, 2014, theorem A.1).

    Args:
        bound: The largest distance.
        epsilon: In (0, 1]: for more the theorem says nothing.
        delta: In (0, 1).
    """
    return bound * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def epsilon_of(bound: float, std: float, delta: float) -> float:
    """Give the epsilon that noise of a standard deviation is worth; above 1 the theorem does not hold."""
    return bound * math.sqrt(2 * math.log(1.25 / delta)) / std if std > 0 else math.inf
