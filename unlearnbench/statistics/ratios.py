"""The ratio of two quantities that were measured together several times."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from unlearnbench.errors import UsageError
from unlearnbench.statistics.paired import ALPHA


@dataclass(frozen=True)
class Ratio:
    """A ratio of means; `value` is None where the denominators have no positive mean, or a number is not finite.

    Args:
        n: Pairs.
        value: Mean numerator over mean denominator.
        low: Lower end of the 95 % interval; None for fewer than 2 pairs.
        high: Upper end.
    """

    n: int
    value: float | None = None
    low: float | None = None
    high: float | None = None


def ratio_of_means(above: Sequence[float], below: Sequence[float]) -> Ratio:
    """Return the ratio of two means, with its interval over pairs of measurements.

    The mean of the ratios would be ruled by the pair with the smallest denominator. The variance is that of
    linearisation, with n-1 degrees of freedom (Cochran, Sampling Techniques, 3rd edition, 1977, section 6.3, for an
    infinite population): the residuals above - value * below, over n times the square of the mean denominator.

    Args:
        above: One number per pair.
        below: The other of each pair, in the same unit.

    Raises:
        UsageError: The lists differ in length.
    """
    n = len(above)
    if n != len(below):
        raise UsageError(f"There are {n} numerators and {len(below)} denominators.", "Give one of each per pair.")
    if not all(map(math.isfinite, (*above, *below))) or (total := math.fsum(below)) <= 0:
        return Ratio(n)
    value = math.fsum(above) / total
    if n < 2:
        return Ratio(n, value)
    from scipy.special import stdtrit

    squares = math.fsum((one - value * other) ** 2 for one, other in zip(above, below, strict=True))
    reach = float(stdtrit(n - 1, 1 - ALPHA / 2)) * math.sqrt(squares * n / (n - 1)) / total
    return Ratio(n, value, value - reach, value + reach)
