"""Mean ranks of methods over several data sets, and how far apart they must be to differ."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unlearnbench.errors import UsageError

NEMENYI = (
    *(1.9600, 2.3437, 2.5690, 2.7278, 2.8497, 2.9483, 3.0309, 3.1017, 3.1637, 3.2187),
    *(3.2680, 3.3127, 3.3536, 3.3912, 3.4260, 3.4584, 3.4887, 3.5171, 3.5438, 3.5690),
    *(3.5929, 3.6156, 3.6373, 3.6579, 3.6776, 3.6964, 3.7145, 3.7319, 3.7486),
)
"""For 2 to 30 methods: the upper 5 % point of the studentized range with infinite degrees of freedom, over sqrt 2."""


@dataclass(frozen=True)
class MeanRanks:
    """Mean ranks of k methods over n data sets.

    Args:
        ranks: One per method; 1 is best, and equal scores share the mean of their ranks.
        n: Data sets.
        critical_difference: Two methods differ at level .05 if their mean ranks are at least so far apart
            (Nemenyi); the error of the whole family of pairs is .05.
        friedman: Friedman's chi-squared statistic, corrected for ties; None for fewer than three methods
            or where all scores are equal.
        p: Its p-value, from the chi-squared distribution with k - 1 degrees of freedom.
    """

    ranks: tuple[float, ...]
    n: int
    critical_difference: float
    friedman: float | None = None
    p: float | None = None


def mean_ranks(scores: Sequence[Sequence[float]]) -> MeanRanks:
    """Rank methods on each data set, larger scores first, and average.

    Demšar, Statistical comparisons of classifiers over multiple data sets, Journal of Machine Learning
    Research 7, 2006, section 3.2.2. Data sets count as independent: several models on one graph are not,
    so that the critical difference is then too small.

    Args:
        scores: One row per data set with one finite number per method: [n, k].

    Raises:
        UsageError: Rows of different lengths, fewer than two methods, no data set, or a number that is not finite.
    """
    if len({len(row) for row in scores}) > 1:
        raise UsageError("Data sets have different numbers of scores.", "Each method needs a score on each data set.")
    values = np.asarray(scores, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or not np.isfinite(values).all():
        raise UsageError(f"Scores of shape {values.shape}.", "Two methods or more need finite scores: shape [n, k].")
    from scipy.stats import friedmanchisquare, rankdata

    n, k = values.shape
    ranks = rankdata(-values, axis=1)
    statistic = p = None
    # Without any difference between methods the statistic is 0 over 0.
    if k > 2 and np.ptp(ranks, axis=1).any():
        statistic, p = (float(value) for value in friedmanchisquare(*values.T))
    return MeanRanks(tuple(map(float, ranks.mean(axis=0))), n, critical_difference(k, n), statistic, p)


def critical_difference(methods: int, sets: int) -> float:
    """Return how far apart the mean ranks of two methods must be: q sqrt(k (k + 1) / 6 n), Nemenyi's test at .05.

    Args:
        methods: k, 2 or more.
        sets: n, the number of data sets, 1 or more.

    Raises:
        UsageError: An argument is too small.
    """
    if methods < 2 or sets < 1:
        raise UsageError(f"{methods} methods on {sets} data sets.", "Ranks compare two methods or more on one or more.")
    return _quantile(methods) * math.sqrt(methods * (methods + 1) / (6 * sets))


def _quantile(methods: int) -> float:
    if methods - 2 < len(NEMENYI):
        return NEMENYI[methods - 2]
    from scipy.stats import studentized_range

    return float(studentized_range.ppf(0.95, methods, np.inf)) / math.sqrt(2)
