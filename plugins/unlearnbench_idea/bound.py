"""The certificate of IDEA: a bound on the distance from retrained parameters, and the noise that hides it."""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class Constants:
    """Assumptions on the loss of a node, for every graph and all parameters.

    Args:
        lipschitz: l: its Lipschitz constant.
        convexity: lambda: the mean loss is strongly convex with this constant.
        loss: C: its largest value; the smallest is 0.
    """

    lipschitz: float
    convexity: float
    loss: float


def distance_bound(constants: Constants, nodes: int, forgotten: int, influenced: int, step: float) -> float:
    """Bound the distance of the updated parameters from retrained ones (Dong et al., IDEA, KDD 2024).

    The distance d of the trained from the retrained parameters obeys

        n lambda / 2 d^2 <= m l d + 2 t C:

    by convexity the left side is at most the increase of the former sum of losses from the trained to
    the retrained parameters; at these the sum over retained nodes on the retained graph is not higher,
    the m forgotten nodes' losses are higher by at most l d each, and those of the t influenced nodes
    differ between the graphs by at most C at either parameters. The larger root is the first term; the
    second is the step, by the triangle inequality.

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
    """Return the noise that hides a distance, by the Gaussian mechanism (Dwork and Roth, 2014, theorem A.1).

    Args:
        bound: The largest distance.
        epsilon: In (0, 1]: the theorem does not hold for more.
        delta: In (0, 1).

    Returns:
        The standard deviation.
    """
    return bound * math.sqrt(2 * math.log(1.25 / delta)) / epsilon


def epsilon_of(bound: float, std: float, delta: float) -> float:
    """Return the epsilon of noise of a standard deviation; above 1 the theorem does not hold."""
    return bound * math.sqrt(2 * math.log(1.25 / delta)) / std if std > 0 else math.inf
