"""Means and standard deviations for tables; none depends on the order of its input."""

from __future__ import annotations

import math
import statistics
from collections.abc import Iterable


def mean(values: Iterable[float]) -> float | None:
    """Return the mean, rounded once; None if there are no values."""
    known = list(values)
    return float(statistics.mean(known)) if known else None


def sample_sd(values: Iterable[float]) -> float | None:
    """Return the sample standard deviation (divisor n - 1), rounded once; None for fewer than two values."""
    known = list(values)
    return float(statistics.stdev(known)) if len(known) > 1 else None


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of positive numbers; None if there are none."""
    known = list(values)
    return math.exp(math.fsum(math.log(value) for value in known) / len(known)) if known else None
