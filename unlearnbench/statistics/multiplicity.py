"""Multiple testing: the family-wise error rate is controlled."""

from __future__ import annotations

import math
from collections.abc import Sequence

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
    from statsmodels.stats.multitest import multipletests

    for i, p in zip(known, multipletests(list(known.values()), alpha=0.05, method="holm")[1], strict=True):
        adjusted[i] = float(p)
    return adjusted
