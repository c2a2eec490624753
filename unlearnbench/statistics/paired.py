"""Paired differences over repetitions whose training sets overlap: tests, equivalence and prediction."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from unlearnbench.errors import UsageError

ALPHA = 0.05
# Differences that are equal but for rounding have no variance.
ROUNDING = 1e-12


@dataclass(frozen=True)
class Paired:
    """The result of a corrected paired t-test, in the unit of the differences.

    Args:
        n: Differences, R.
        ratio: Test nodes over training nodes, as given: 0 is the plain paired t-test.
        mean: Their mean.
        standard_error: Root of the sample variance times (1/R + ratio).
        degrees_of_freedom: R - 1.
        t: Mean over standard error.
        p: Two-sided.
        low: Lower end of the 95 % interval of the true mean.
        high: Its upper end.
        reason: Why something above is None, or is a limit; empty otherwise.
    """

    n: int
    ratio: float
    mean: float | None = None
    standard_error: float | None = None
    degrees_of_freedom: int | None = None
    t: float | None = None
    p: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Equivalence:
    """The result of two one-sided tests, in the unit of the differences.

    Args:
        paired: Mean, standard error and interval of the same differences.
        margin: The alternative is that the true mean lies strictly between -margin and +margin.
        p: The larger of the two one-sided p-values.
        passes: Whether p is below .05.
        smallest_margin: These differences pass at exactly the margins above it.
        detectable: The smallest true difference that the two-sided test would find with 80 %
            power, if the true standard error were the observed one.
    """

    paired: Paired
    margin: float
    p: float | None = None
    passes: bool | None = None
    smallest_margin: float | None = None
    detectable: float | None = None


@dataclass(frozen=True)
class Prediction:
    """The prediction interval of one further value.

    Args:
        n: Values, R.
        mean: Their mean.
        low: Lower end of the 95 % prediction interval.
        high: Its upper end.
        reason: Why something above is None, or is a limit; empty otherwise.
    """

    n: int
    mean: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""


def corrected_paired_t(differences: Sequence[float], test_share_over_train: float) -> Paired:
    """Test whether the mean of paired differences is 0 where training sets overlap.

    The variance of the R differences is multiplied by (1/R + n_test/n_train) instead of 1/R; t
    has R-1 degrees of freedom (Nadeau and Bengio, Inference for the generalization error, Machine
    Learning 52, 2003, section 3, the corrected resampled t-test).

    Args:
        differences: One finite number per repetition, any unit.
        test_share_over_train: n_test/n_train, 1/7 for ten folds of 0.7 / 0.2 / 0.1; 0 where all
            repetitions share one split and differ in seeds alone.

    Raises:
        UsageError: The ratio is negative or not finite.
    """
    if not (math.isfinite(test_share_over_train) and test_share_over_train >= 0):
        raise UsageError(
            f"Test over training nodes is {test_share_over_train}.", "It is 0 or a positive number, 1/7 for ten folds."
        )
    n, mean, deviation, reason = _moments(differences)
    freedom = n - 1
    if mean is None or deviation is None:
        return Paired(n, test_share_over_train, mean, reason=reason)
    if deviation == 0:
        return Paired(n, test_share_over_train, mean, 0.0, freedom, None, float(mean == 0), mean, mean, reason)
    from scipy.special import stdtr, stdtrit

    error = deviation * math.sqrt(1 / n + test_share_over_train)
    t, reach = mean / error, float(stdtrit(freedom, 1 - ALPHA / 2)) * error
    p = float(2 * stdtr(freedom, -abs(t)))
    return Paired(n, test_share_over_train, mean, error, freedom, t, p, mean - reach, mean + reach)


def equivalence(differences: Sequence[float], ratio: float, margin: float) -> Equivalence:
    """Test whether the mean of paired differences lies within a margin (TOST).

    Two one-sided t-tests (Schuirmann, Journal of Pharmacokinetics and Biopharmaceutics 15, 1987)
    with the variance of `corrected_paired_t`. A difference that is not significant does not show
    equivalence.

    Args:
        differences: One finite number per repetition.
        ratio: n_test/n_train, see `corrected_paired_t`.
        margin: Positive, in the unit of the differences.

    Raises:
        UsageError: The margin is not positive, or the ratio is negative.
    """
    if not (math.isfinite(margin) and margin > 0):
        raise UsageError(f"The margin is {margin}.", "It is a positive number in the unit of the differences.")
    paired = corrected_paired_t(differences, ratio)
    mean, error, freedom = paired.mean, paired.standard_error, paired.degrees_of_freedom
    if mean is None or error is None or freedom is None:
        return Equivalence(paired, margin)
    if error == 0:
        inside = abs(mean) < margin
        return Equivalence(paired, margin, float(not inside), inside, abs(mean), 0.0)
    from scipy.special import stdtr, stdtrit

    p = float(stdtr(freedom, (abs(mean) - margin) / error))
    smallest = abs(mean) + float(stdtrit(freedom, 1 - ALPHA)) * error
    return Equivalence(paired, margin, p, p < ALPHA, smallest, detectable_difference(error, freedom))


def detectable_difference(
    standard_error: float, degrees_of_freedom: int, power: float = 0.8, alpha: float = ALPHA
) -> float:
    """Return the smallest true difference that a two-sided t-test detects with a given power.

    The non-central t distribution is solved for its centre, which is the difference over the
    standard error.

    Args:
        standard_error: Of the mean difference; 0 gives 0.
        degrees_of_freedom: 1 or more.
        power: Above alpha, below 1.
        alpha: Level of the test.

    Raises:
        UsageError: An argument is out of its range.
    """
    if not (math.isfinite(standard_error) and standard_error >= 0 and degrees_of_freedom >= 1):
        raise UsageError(
            f"Standard error {standard_error} with {degrees_of_freedom} degrees of freedom.",
            "The first is 0 or more, the second 1 or more.",
        )
    if not 0 < alpha < power < 1:
        raise UsageError(f"Power {power} at level {alpha}.", "0 < level < power < 1 must hold.")
    if standard_error == 0:
        return 0.0
    from scipy.optimize import brentq
    from scipy.stats import ncf
    from scipy.stats import t as student

    critical = float(student.ppf(1 - alpha / 2, degrees_of_freedom))

    # The square of t is F: both tails at once, where scipy's own t is nan in the far one.
    def shortfall(centre: float) -> float:
        return float(ncf.sf(critical**2, 1, degrees_of_freedom, centre**2)) - power

    high = critical
    while shortfall(high) < 0:
        high *= 2
    return float(brentq(shortfall, 1e-9, high, xtol=1e-10)) * standard_error


def prediction_interval(values: Sequence[float]) -> Prediction:
    """Return the 95 % prediction interval of the value of one further split: mean +- t sd sqrt(1 + 1/R).

    The textbook interval for one more draw from a normal distribution. Splits of one graph share
    nodes, so that it holds for a further split of that graph, not for another graph.

    Args:
        values: One finite number per split.
    """
    n, mean, deviation, reason = _moments(values)
    if mean is None or deviation is None or deviation == 0:
        ends = mean if deviation == 0 else None
        return Prediction(n, mean, ends, ends, reason)
    from scipy.special import stdtrit

    reach = float(stdtrit(n - 1, 1 - ALPHA / 2)) * deviation * math.sqrt(1 + 1 / n)
    return Prediction(n, mean, mean - reach, mean + reach)


def _moments(values: Sequence[float]) -> tuple[int, float | None, float | None, str]:
    """Return the number of values, their mean, their sample standard deviation, and why one is missing or 0."""
    numbers = np.asarray(values, dtype=np.float64)
    if numbers.ndim != 1:
        raise UsageError(f"Values of shape {numbers.shape}.", "One number a repetition is needed: shape [R].")
    n = len(numbers)
    if not n:
        return n, None, None, "there is no repetition"
    if not np.isfinite(numbers).all():
        return n, None, None, "a value is not a finite number"
    mean = math.fsum(numbers) / n
    if n == 1:
        return n, mean, None, "one repetition has no variance"
    if np.ptp(numbers) <= ROUNDING * float(np.abs(numbers).max()):
        return n, mean, 0.0, "all values are equal: the variance is taken to be 0"
    return n, mean, float(np.std(numbers, ddof=1)), ""
