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
Distance = Callable[[Tensor, Tensor], Tensor]
OVER = "over-unlearned"


def disagreement(one: Tensor, others: Tensor) -> Tensor:
    """Return the share of nodes whose most likely class differs.

    Args:
        one: float64 [n, C], log-probabilities of one model.
        others: float64 [R, n, C], of R models.

    Returns:
        float64 [R], in [0, 1].
    """
    return (one.argmax(dim=-1) != others.argmax(dim=-1)).double().mean(dim=-1)


def divergence(one: Tensor, others: Tensor) -> Tensor:
    """Return the mean Jensen-Shannon divergence (Lin, IEEE Trans. Information Theory 37, 1991).

    Args:
        one: float64 [n, C], log-probabilities of one model.
        others: float64 [R, n, C], of R models.

    Returns:
        float64 [R], nats, in [0, ln 2].
    """
    p, q = one.exp(), others.exp()
    middle = (p + q) / 2
    within = (torch.xlogy(p, p) + torch.xlogy(q, q)).sum(dim=-1) / 2
    return (within - torch.xlogy(middle, middle).sum(dim=-1)).clamp(min=0).mean(dim=-1)


def logit_distance(one: Tensor, others: Tensor) -> Tensor:
    """Return the mean Euclidean distance of logits, each row centred.

    Probabilities determine logits up to a constant per row; centring removes it, so that
    log-probabilities can be used as logits.

    Args:
        one: float64 [n, C], log-probabilities of one model.
        others: float64 [R, n, C], of R models.

    Returns:
        float64 [R]; nan where a probability is 0.
    """
    gap = others - one
    return (gap - gap.mean(dim=-1, keepdim=True)).square().sum(dim=-1).sqrt().mean(dim=-1)


DISTANCES: Mapping[str, Distance] = {"disagreement": disagreement, "js": divergence, "logits": logit_distance}


def pairwise(distance: Distance, answers: Tensor) -> Floats:
    """Return the distances between all pairs of runs.

    Args:
        distance: One of `DISTANCES`.
        answers: [R, n, C], log-probabilities of R runs on the same n nodes, n at least 1.

    Returns:
        float64 [R, R], symmetric, 0 on the diagonal.
    """
    exact = answers.double()
    count = len(exact)
    upper = np.zeros((count, count))
    for row in range(count - 1):
        upper[row, row + 1 :] = distance(exact[row], exact[row + 1 :]).numpy()
    mirrored: Floats = upper + upper.T
    return mirrored


def auc(members: Tensor, others: Tensor) -> float:
    """Return the probability that a member's score is above another node's, ties counted half.

    The orientation is fixed: a higher score indicates membership. A smaller area is not better.

    Args:
        members: [m], scores of members, m at least 1.
        others: [o], scores of the others, o at least 1.
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
    """Interpret an area relative to that of Retrain.

    It is `over-unlearned` where it is below Retrain's (0.5 if there is none) by more than the
    standard error of the area of two equally distributed samples (Hanley and McNeil, Radiology
    143, 1982).

    Args:
        area: The model's.
        members: Number of forgotten nodes.
        others: Number of nodes that were never trained on.
        retrain: Retrain's area for the same nodes.
    """
    error = math.sqrt((members + others + 1) / (12 * members * others))
    flag = OVER if area < (0.5 if retrain is None else retrain) - error else ""
    if retrain is None:
        return Membership(area, None, None, flag, "there is no Retrain to compare with")
    return Membership(area, retrain, area - retrain, flag)
