"""Attacks that distinguish two worlds: the classifier, the area under its ROC curve, and its uncertainty."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import torch
from scipy.stats import binomtest, rankdata
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor

NORMAL_95 = 1.959963984540054
CONFIDENCE = 0.95


@dataclass(frozen=True)
class Rate:
    """A true positive rate at a false positive rate, with its exact binomial interval."""

    value: float
    low: float
    high: float


class Attacker:
    """Scores every row by a logistic regression trained on the other folds.

    Features are standardised on the rows that the regression is trained on.

    Args:
        features: float64 [n, d].
        fold: int64 [n], values 0, 1, ...
    """

    def __init__(self, features: Tensor, fold: Tensor) -> None:
        self._folds = []
        for number in torch.unique(fold).tolist():
            held = fold == number
            scaler = StandardScaler().fit(features[~held].numpy())
            self._folds.append((held, *(scaler.transform(features[side].numpy()) for side in (~held, held))))

    def scores(self, positive: Tensor) -> Tensor:
        """Train on the labels and return the log-odds of all rows, float64 [n].

        Outside every fold some rows must be positive, bool [n], and some not.
        """
        scores = torch.zeros(len(positive), dtype=torch.float64)
        for held, others, own in self._folds:
            # Few features, many rows: Newton's method is the fastest and always converges.
            model = LogisticRegression(solver="newton-cholesky").fit(others, positive[~held].numpy())
            scores[held] = torch.from_numpy(model.decision_function(own))
        return scores


def area(scores: Tensor, positive: Tensor) -> float:
    """Return the area under the ROC curve: how often a positive row scores higher; ties count half."""
    return float(_placements(scores, positive)[positive].mean())


def area_error(scores: Tensor, positive: Tensor, target: Tensor, world: Tensor) -> float:
    """Return the standard error of the area where rows of one target or one world may be dependent.

    The placements of DeLong, DeLong and Clarke-Pearson (Biometrics 1988), summed by cluster
    (Obuchowski, Biometrics 1997): the variances by target and by world minus that by row (Cameron,
    Gelbach and Miller, J. Business and Economic Statistics 2011), but at least the smaller of the
    two. As each target is as often positive as not, a constant in all its placements does not
    affect the area, and is removed first.

    Args:
        scores: float64 [n].
        positive: bool [n], half of each target's rows.
        target: int64 [n], the target of each row, values 0, 1, ...
        world: int64 [n], the world of each row, values 0, 1, ...; no two rows share both.
    """
    placement = _placements(scores, positive)
    height = torch.where(positive, placement - placement[positive].mean(), placement[~positive].mean() - placement)
    height = height - (_sums(height, target) / torch.bincount(target))[target]
    part = torch.where(positive, height / positive.sum(), -height / (~positive).sum())
    by_target, by_world, by_row = (_variance(part, of) for of in (target, world, torch.arange(len(part))))
    return math.sqrt(max(by_target + by_world - by_row, min(by_target, by_world)))


def _variance(part: Tensor, cluster: Tensor) -> float:
    sums = _sums(part, cluster)
    return float((sums**2).sum()) * len(sums) / max(len(sums) - 1, 1)


def _sums(values: Tensor, cluster: Tensor) -> Tensor:
    return torch.zeros(int(cluster.max()) + 1, dtype=values.dtype).index_add_(0, cluster, values)


def _placements(scores: Tensor, positive: Tensor) -> Tensor:
    """Return for each row the share of the other side that it is ranked correctly against; ties count half."""
    rank = _middle_ranks(scores)
    result = torch.empty_like(scores)
    for side, sign in ((positive, 1), (~positive, -1)):
        share = (rank[side] - _middle_ranks(scores[side])) / max(int((~side).sum()), 1)
        result[side] = share if sign > 0 else 1 - share
    return result


def _middle_ranks(values: Tensor) -> Tensor:
    return torch.from_numpy(rankdata(values.numpy()))


def interval(value: float, error: float) -> tuple[float, float]:
    """Return the normal 95 % interval, clipped to [0, 1]."""
    return max(0.0, value - NORMAL_95 * error), min(1.0, value + NORMAL_95 * error)


def mean_interval(values: Tensor) -> tuple[float | None, float | None]:
    """Return Student's 95 % interval of a mean; None for a single value."""
    n = len(values)
    if n < 2:
        return None, None
    half = float(values.std()) * float(student.ppf(0.975, n - 1)) / n**0.5
    return float(values.mean()) - half, float(values.mean()) + half


def share_interval(hits: int, count: int) -> tuple[float, float]:
    """Return Wilson's 95 % interval of a share (J. American Statistical Association 1927)."""
    z2 = NORMAL_95**2
    middle = (hits + z2 / 2) / (count + z2)
    half = NORMAL_95 * (hits * (count - hits) / count + z2 / 4) ** 0.5 / (count + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


def sensitivity(scores: Tensor, positive: Tensor, rate: float, weight: Tensor | None = None) -> Tensor:
    """Return the true positive rate of scores, float64 [n], at a false positive rate.

    The threshold is the lowest that at most that share of negative rows reach.

    Returns:
        float64 [B], one for each of B weightings of the rows, float64 [B, n]; default: one with equal weights.
    """
    weight = torch.ones(1, len(scores), dtype=torch.float64) if weight is None else weight
    value, at = torch.unique(-scores, return_inverse=True)
    hits, alarms = (
        torch.zeros(len(weight), len(value), dtype=torch.float64).index_add_(1, at[side], weight[:, side])
        for side in (positive, ~positive)
    )
    hits, alarms = hits.cumsum(dim=1), alarms.cumsum(dim=1)
    allowed = alarms <= rate * alarms[:, -1:] * (1 + 1e-12)
    return torch.where(allowed, hits, 0.0).max(dim=1).values / hits[:, -1].clamp(min=1e-300)


def rate_at(scores: Tensor, positive: Tensor, rate: float) -> Rate:
    """Return the sensitivity with the interval of Clopper and Pearson (Biometrika 1934), for independent rows."""
    share, count = float(sensitivity(scores, positive, rate)[0]), int(positive.sum())
    bounds = binomtest(round(share * count), count).proportion_ci(CONFIDENCE, method="exact")
    return Rate(share, float(bounds.low), float(bounds.high))


def sensitivity_interval(
    scores: Tensor, positive: Tensor, rate: float, target: Tensor, times: int, generator: torch.Generator
) -> tuple[float, float]:
    """Return the 95 % interval of the sensitivity by bootstrap over targets.

    Arguments as for `sensitivity`; `target`, int64 [n], is the target of each row, values 0, 1, ...
    """
    count = int(target.max()) + 1
    drawn = torch.randint(count, (times, count), generator=generator)
    weight = torch.zeros(times, count, dtype=torch.float64)
    weight.scatter_add_(1, drawn, torch.ones(times, count, dtype=torch.float64))
    values = sensitivity(scores, positive, rate, weight[:, target])
    low, high = torch.quantile(values, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return low, high


def randomisation_p(observed: float, redraw: Callable[[int], float], times: int) -> float:
    """Return the p-value of a randomisation test of the area.

    The assignment of targets to worlds was random, so that new assignments give the distribution of
    the area under the null hypothesis, whatever the dependence among rows (Fisher, The Design of
    Experiments, 1935). `redraw` returns the area of the attack on the labels of a new assignment, by
    its number.
    """
    return (1 + sum(redraw(number) >= observed for number in range(times))) / (1 + times)
