"""How numbers are written in tables: a mean and its spread with the same decimals."""

from __future__ import annotations


def percent(value: float, spread: float | None) -> str:
    """Write a share in percent, two decimals."""
    return _with_spread(100 * value, None if spread is None else 100 * spread, 2)


def seconds(value: float, spread: float | None) -> str:
    """Write seconds, with three significant digits or more."""
    return _with_spread(value, spread, _decimals(value))


def ratio(value: float, spread: float | None) -> str:
    """Write a ratio, with three significant digits or more below 1."""
    return _with_spread(value, spread, max(2, _decimals(value) - 1) if value >= 0.1 else _decimals(value))


def hundredths(value: float) -> str:
    """Write a share that may be negative or above 1, two decimals."""
    return f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def tenths(value: float, spread: float | None) -> str:
    """Write a mean of counts, one decimal."""
    return _with_spread(value, spread, 1)


def fourths(value: float, spread: float | None) -> str:
    """Write a number of unknown scale, four decimals."""
    return _with_spread(value, spread, 4)


def whole(value: float, spread: float | None) -> str:
    """Write a large number without decimals."""
    return _with_spread(value, spread, 0)


def points(value: float) -> str:
    """Write a share in points (hundredths), two decimals."""
    return hundredths(100 * value)


def difference(mean: float, low: float | None, high: float | None) -> str:
    """Write a difference of shares in points with its interval, if there is one: -1.20 (-3.10 to 0.70)."""
    return points(mean) if low is None or high is None else f"{points(mean)} ({points(low)} to {points(high)})"


def probability(p: float) -> str:
    """Write a p-value, three decimals."""
    return f"{p:.3f}" if p >= 0.001 else "<0.001"


def _decimals(value: float) -> int:
    size = abs(value)
    for limit, decimals in ((100, 1), (10, 2), (0.1, 3), (0.01, 4)):
        if size >= limit:
            return decimals
    return 6


def _with_spread(value: float, spread: float | None, decimals: int) -> str:
    text = f"{value:.{decimals}f}"
    return text if spread is None else f"{text} ± {spread:.{decimals}f}"
