"""Measures of forgetting: distances between the predictions of two models, and membership scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Floats = NDArray[np.float64]
# From log-probabilities of one model, float64 [n, C], and of R others, [R, n, C], to R distances, float64 [R].
Distance = Callable[[Tensor, Tensor], Tensor]
OVER = "over-unlearned"


def disagreement(one: Tensor, others: Tensor) -> Tensor:
    """Return the share of nodes whose most likely class differs, in [0, 1]."""
    return (one.argmax(dim=-1) != others.argmax(dim=-1)).double().mean(dim=-1)


def divergence(one: Tensor, others: Tensor) -> Tensor:
    """Return the mean Jensen-Shannon divergence (Lin, IEEE Trans. Information Theory 37, 1991), nats in [0, ln 2]."""
    p, q = one.exp(), others.exp()
    middle = (p + q) / 2
    within = (torch.xlogy(p, p) + torch.xlogy(q, q)).sum(dim=-1) / 2
    return (within - torch.xlogy(middle, middle).sum(dim=-1)).clamp(min=0).mean(dim=-1)


def logit_distance(one: Tensor, others: Tensor) -> Tensor:
    """Return the mean Euclidean distance of logits, each row centred; nan where a probability is 0.

    Probabilities determine logits up to a constant per row; centring removes it, so that
    log-probabilities can be used as logits.
    """
    gap = others - one
    return (gap - gap.mean(dim=-1, keepdim=True)).square().sum(dim=-1).sqrt().mean(dim=-1)


DISTANCES: Mapping[str, Distance] = {"disagreement": disagreement, "js": divergence, "logits": logit_distance}


def pairwise(distance: Distance, answers: Tensor) -> Floats:
    """Return the distances between all pairs of R runs, float64 [R, R], symmetric, 0 on the diagonal.

    `answers` [R, n, C] are log-probabilities on the same n nodes, n at least 1.
    """
    exact = answers.double()
    count = len(exact)
    upper = np.zeros((count, count))
    for row in range(count - 1):
        upper[row, row + 1 :] = distance(exact[row], exact[row + 1 :]).numpy()
    mirrored: Floats = upper + upper.T
    return mirrored


def equal_seeds(count: int) -> NDArray[np.bool_]:
    """Return the mask [2n, 2n] of the pairs of runs at equal positions of two sides: these share a seed."""
    return np.kron(np.array([[0, 1], [1, 0]]), np.eye(count)).astype(bool)


def auc(members: Tensor, others: Tensor) -> float:
    """Return the probability that the score of one of m members is above that of one of o others, ties counted half.

    The orientation is fixed: a higher score indicates membership. A smaller area is not better.
    """
    one, other = members.double()[:, None], others.double()[None, :]
    return float(((one > other).double() + (one == other).double() / 2).mean())


def loss_scores(answers: Tensor, labels: Tensor) -> Tensor:
    """Return the negative cross-entropy of each node, which tends to be higher for members.

    Yeom et al., Privacy Risk in Machine Learning, CSF 2018, section 3.

    Args:
        answers: [n, C], log-probabilities.
        labels: int64 [n].

    Returns:
        float64 [n].
    """
    return answers.double().gather(1, labels[:, None])[:, 0]


def shift_scores(before: Tensor, after: Tensor) -> Tensor:
    """Return the Euclidean distance between each node's probabilities before and after a request.

    Published benchmarks use it as a membership score, with 0.5 as the ideal area.

    Args:
        before: [n, C], log-probabilities.
        after: [n, C], log-probabilities.

    Returns:
        float64 [n].
    """
    return (after.double().exp() - before.double().exp()).square().sum(dim=1).sqrt()


@dataclass(frozen=True)
class Membership:
    """An area under the curve relative to that of Retrain.

    Args:
        area: The model's.
        retrain: Retrain's; None: there is none.
        difference: Area minus Retrain's; None without one. The nearer to 0 the better.
        flag: `over-unlearned`, or empty.
        reason: Why there is no difference.
    """

    area: float
    retrain: float | None
    difference: float | None
    flag: str = ""
    reason: str = ""


def read_area(area: float, members: int, others: int, retrain: float | None) -> Membership:
    """Interpret the area of forgotten nodes against others, which were never trained on, relative to Retrain's.

    It is `over-unlearned` where it is below Retrain's (0.5 if there is none) by more than the
    standard error of the area of two equally distributed samples of these numbers of nodes
    (Hanley and McNeil, Radiology 143, 1982).
    """
    error = math.sqrt((members + others + 1) / (12 * members * others))
    flag = OVER if area < (0.5 if retrain is None else retrain) - error else ""
    if retrain is None:
        return Membership(area, None, None, flag, "there is no Retrain to compare with")
    return Membership(area, retrain, area - retrain, flag)
