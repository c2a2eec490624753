"""Multiple testing: the family-wise error rate is controlled."""

from __future__ import annotations

import math
from collections.abc import Sequence
from operator import itemgetter

from unlearnbench.errors import UsageError


def holm(p_values: Sequence[float | None]) -> list[float | None]:
    """Adjust the p-values of a family so that comparing each with .05 keeps the family's error at .05.

    Holm, A simple sequentially rejective multiple test procedure, Scandinavian Journal of
    Statistics 6, 1979. It needs no independence.

    Args:
        p_values: One per test; None or nan where a test could not be made. Such a test stays None
            and does not count in the family.

    Raises:
        UsageError: A p-value outside 0..1.
    """
    known = {i: float(p) for i, p in enumerate(p_values) if p is not None and not math.isnan(p)}
    outside = [p for p in known.values() if not 0 <= p <= 1]
    if outside:
        raise UsageError(f"{outside[0]} is no p-value.", "A p-value lies between 0 and 1.")
    adjusted: list[float | None] = [None] * len(p_values)
    if not known:
        return adjusted
    # statsmodels does the same, but collects garbage at every call.
    least = 0.0
    for tests, (i, p) in zip(range(len(known), 0, -1), sorted(known.items(), key=itemgetter(1)), strict=True):
        least = max(least, min(1.0, tests * p))
        adjusted[i] = least
    return adjusted
