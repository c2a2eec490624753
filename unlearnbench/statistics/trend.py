"""Page's test: whether a score rises (or falls) along ordered conditions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import ArrayLike

from unlearnbench.errors import UsageError

DIRECTIONS: Sequence[str] = ("increasing", "decreasing")


@dataclass(frozen=True)
class Trend:
    """The result of Page's test: L, with ranks of the columns in the direction tested, and its one-sided p-value.

    `method` is exact or asymptotic; `reason`: why something is None, or is a limit; empty otherwise.
    """

    repetitions: int
    conditions: int
    direction: str
    statistic: float | None = None
    p: float | None = None
    method: str = ""
    reason: str = ""


def page_trend(table: ArrayLike, direction: Literal["increasing", "decreasing"] = "increasing") -> Trend:
    """Test a trend along ordered conditions, by ranks within each repetition.

    Page, Ordered hypotheses for multiple treatments, JASA 58, 1963, as in scipy. Ties get mean
    ranks; the exact p-value is then somewhat too large.

    Args:
        table: [repetitions, conditions], conditions in their order; 2 rows and 3 columns or more.
        direction: The trend to test; it must be chosen before the numbers are seen.

    Raises:
        UsageError: Another direction, or not a table.
    """
    if direction not in DIRECTIONS:
        raise UsageError(f"Unknown direction {direction!r}.", f"Known: {', '.join(DIRECTIONS)}.")
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2:
        raise UsageError(f"A table of shape {values.shape}.", "Its shape is [repetitions, conditions].")
    rows, columns = values.shape
    if rows < 2 or columns < 3:
        return Trend(rows, columns, direction, reason="fewer than 2 repetitions or 3 conditions")
    if not np.isfinite(values).all():
        return Trend(rows, columns, direction, reason="a value is not a finite number")
    from scipy.stats import page_trend_test

    test = page_trend_test(values if direction == "increasing" else values[:, ::-1])
    if (values == values[:, :1]).all():
        return Trend(rows, columns, direction, float(test.statistic), 1.0, reason="no repetition varies")
    return Trend(rows, columns, direction, float(test.statistic), float(test.pvalue), str(test.method))
