"""The controls that audits are judged by: methods whose forgetting is known, and what to expect of them."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from unlearnbench.statistics import Trend, page_trend

NOOP, OVER = "noop", "over-forget"
LEVELS = ("0", "0.25", "0.5", "0.75", "1")
LEAKS = tuple(f"retrain-leak[k={k}]" for k in LEVELS)
LEAK = LEAKS[2]
TREND_ALPHA = 0.01
# An exact method is rejected in about one cell in a hundred; by `membership`, with fewer than 20 nodes, in up to two:
# its error is estimated from the nodes, and the test takes it for exact.
VERDICT_ALPHA = 0.01


def leak_trend(by_level: Mapping[str, NDArray[np.float64]]) -> Trend:
    """Test whether a score, [R] by control of `LEAKS`, increases with the leaked share; blocks are equal positions."""
    return page_trend(np.stack([by_level[name] for name in LEAKS], axis=1))


def is_trend(trend: Trend) -> bool:
    """Whether a trend is significant at the level of the gates."""
    return trend.p is not None and trend.p < TREND_ALPHA


def failure_reason(passed: Mapping[str, bool], failures: Mapping[str, str]) -> str:
    """Return which conditions of a gate fail, as a sentence; empty if none does."""
    failed = [failures[name] for name, good in passed.items() if not good]
    return f"{'; '.join(failed)}." if failed else ""
