"""Attacks that tell two worlds apart: the classifier, the area under its curve, and how sure that is."""

from __future__ import annotations

import math
from collections.abc import Callable

import torch
from scipy.stats import t as student
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler
from torch import Tensor

NORMAL_95 = 1.959963984540054


class Attacker:
    """Scores every row by a logistic regression that saw no row of its fold.

    Features are standardised on the rows that the regression sees.

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
        """Learn which rows are positive, and score.

        Args:
            positive: bool [n]; of every fold's other rows some are, some are not.

        Returns:
            float64 [n], log-odds.
        """
        scores = torch.zeros(len(positive), dtype=torch.float64)
        for held, others, own in self._folds:
            # Few features, many rows: Newton's steps are the cheapest and always arrive.
            model = LogisticRegression(solver="newton-cholesky").fit(others, positive[~held].numpy())
            scores[held] = torch.from_numpy(model.decision_function(own))
        return scores


def area(scores: Tensor, positive: Tensor) -> float:
    """Give the area under the ROC curve: how often a positive row scores higher; a tie counts half."""
    return float(_placements(scores, positive)[positive].mean())


def area_error(scores: Tensor, positive: Tensor, target: Tensor, world: Tensor) -> float:
    """Give the standard error of the area where rows of one target or of one world may depend on each other.

    The placements of DeLong, DeLong and Clarke-Pearson (Biometrics 1988), summed by cluster
    (Obuchowski, Biometrics 1997): the variances by target and by world less that by row (Cameron,
    Gelbach and Miller, J. Business and Economic Statistics 2011), and not less than the smaller of
    the two. As each target is as often positive as not, what it adds to all its placements adds
    nothing to the area, and is taken out first.

    Args:
        scores: float64 [n].
        positive: bool [n], half of each target's rows.
        target: int64 [n], whose row each is, values 0, 1, ...
        world: int64 [n], in which world each is, values 0, 1, ...; no two rows share both.
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
    """Give for each row the share of the other side that it is ranked rightly against; ties count half."""
    rank = _middle_ranks(scores)
    result = torch.empty_like(scores)
    for side, sign in ((positive, 1), (~positive, -1)):
        beaten = (rank[side] - _middle_ranks(scores[side])) / max(int((~side).sum()), 1)
        result[side] = beaten if sign > 0 else 1 - beaten
    return result


def _middle_ranks(values: Tensor) -> Tensor:
    _, at, count = torch.unique(values, return_inverse=True, return_counts=True)
    rank: Tensor = count.cumsum(dim=0).double() - (count - 1) / 2
    return rank[at]


def interval(value: float, error: float) -> tuple[float, float]:
    """Give the normal 95 % interval, cut to [0, 1]."""
    return max(0.0, value - NORMAL_95 * error), min(1.0, value + NORMAL_95 * error)


def mean_interval(values: Tensor) -> tuple[float | None, float | None]:
    """Give Student's 95 % interval of a mean; none of a single value."""
    n = len(values)
    if n < 2:
        return None, None
    half = float(values.std()) * float(student.ppf(0.975, n - 1)) / n**0.5
    return float(values.mean()) - half, float(values.mean()) + half


def share_interval(hits: int, count: int) -> tuple[float, float]:
    """Give Wilson's 95 % interval of a share (J. American Statistical Association 1927)."""
    z2 = NORMAL_95**2
    middle = (hits + z2 / 2) / (count + z2)
    half = NORMAL_95 * (hits * (count - hits) / count + z2 / 4) ** 0.5 / (count + z2)
    return max(0.0, middle - half), min(1.0, middle + half)


def sensitivity(scores: Tensor, positive: Tensor, rate: float, weight: Tensor | None = None) -> Tensor:
    """Give the share of positive rows found at a rate of false alarms.

    The threshold is the lowest at which at most that share of negative rows score as high.

    Args:
        scores: float64 [n].
        positive: bool [n].
        rate: Of false alarms.
        weight: float64 [B, n], B weightings of the rows; default: one, all equal.

    Returns:
        float64 [B].
    """
    weight = torch.ones(1, len(scores), dtype=torch.float64) if weight is None else weight
    value, at = torch.unique(-scores, return_inverse=True)
    found, alarms = (
        torch.zeros(len(weight), len(value), dtype=torch.float64).index_add_(1, at[side], weight[:, side])
        for side in (positive, ~positive)
    )
    found, alarms = found.cumsum(dim=1), alarms.cumsum(dim=1)
    allowed = alarms <= rate * alarms[:, -1:] * (1 + 1e-12)
    return torch.where(allowed, found, 0.0).max(dim=1).values / found[:, -1].clamp(min=1e-300)


def sensitivity_interval(
    scores: Tensor, positive: Tensor, rate: float, target: Tensor, times: int, generator: torch.Generator
) -> tuple[float, float]:
    """Give the 95 % interval of the sensitivity by drawing targets with replacement.

    Args:
        scores: float64 [n].
        positive: bool [n].
        rate: Of false alarms.
        target: int64 [n], whose row each is, values 0, 1, ...
        times: How many draws.
        generator: Where chance comes from.
    """
    count = int(target.max()) + 1
    drawn = torch.randint(count, (times, count), generator=generator)
    weight = torch.zeros(times, count, dtype=torch.float64)
    weight.scatter_add_(1, drawn, torch.ones(times, count, dtype=torch.float64))
    values = sensitivity(scores, positive, rate, weight[:, target])
    low, high = torch.quantile(values, torch.tensor([0.025, 0.975], dtype=torch.float64)).tolist()
    return low, high


def randomisation_p(observed: float, again: Callable[[int], float], times: int) -> float:
    """Give the chance of an area as large if the worlds did not differ.

    Who is in which world was drawn by chance, so that drawing it again gives what the attack would
    have found by chance alone, whatever depends on whatever among the rows (Fisher, The Design of
    Experiments, 1935).

    Args:
        observed: The area.
        again: Gives the area of the attack on the labels of a further draw, by its number.
        times: How many draws.
    """
    return (1 + sum(again(number) >= observed for number in range(times))) / (1 + times)
