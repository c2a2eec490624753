"""Means and standard deviations for tables; none depends on the order of its input."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def mean(values: Iterable[float]) -> float | None:
    """Return the mean of finite numbers, rounded once; None if there are no values."""
    known = list(values)
    if not known:
        return None
    numerators, denominator = _fractions(known)
    return sum(numerators) / (denominator * len(known))


def sample_sd(values: Iterable[float]) -> float | None:
    """Return the sample standard deviation (divisor n - 1) of finite numbers, rounded once; None for fewer than two."""
    known = list(values)
    n = len(known)
    if n < 2:
        return None
    numerators, denominator = _fractions(known)
    squares = n * sum(number * number for number in numerators) - sum(numerators) ** 2
    return _root(squares, denominator**2 * n * (n - 1))


def geometric_mean(values: Iterable[float]) -> float | None:
    """Return the geometric mean of positive numbers; None if there are none."""
    known = list(values)
    return math.exp(math.fsum(math.log(value) for value in known) / len(known)) if known else None


def _fractions(values: Sequence[float]) -> tuple[list[int], int]:
    """Return the exact values as fractions with one denominator: the numerators, and it.

    The standard library's `statistics` computes the same from fractions of their own, which takes many times longer.
    """
    ratios = [value.as_integer_ratio() for value in values]
    denominator = math.lcm(*(below for _, below in ratios))
    return [above * (denominator // below) for above, below in ratios], denominator


def _root(above: int, below: int) -> float:
    """Return the square root of a fraction, rounded once."""
    # Twice as many bits as a float has and more; the last one says whether anything was cut off, so that the division
    # rounds as if nothing had been.
    shift = max(0, (110 + below.bit_length() - above.bit_length()) // 2 + 1)
    scaled, rest = divmod(above << 2 * shift, below)
    root = math.isqrt(scaled)
    return (root | (rest > 0 or root * root != scaled)) / (1 << shift)
