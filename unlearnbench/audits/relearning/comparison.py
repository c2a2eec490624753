"""Comparison of runs with retrained ones, in pairs, and the gate of the controls."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from unlearnbench.audits.gating import LEAK, LEAKS, NOOP, OVER, failure_reason, is_trend, leak_trend
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.statistics import ALPHA, Paired, corrected_paired_t

Floats = NDArray[np.float64]

FAILURES = {
    "noop_detected": "noop is not faster than Retrain here",
    "leak_detected": "a leak of half of the nodes is not faster than Retrain here",
    "over_forget_detected": "over-forget does not differ from Retrain here",
    "follows_k": "the score does not follow what leaked",
}


def paired(values: Floats, retrained: Floats) -> Paired:
    """Test whether values [R] differ in the mean from those of the retrained counterparts of the same runs."""
    return corrected_paired_t((values - retrained).tolist(), 0)


def differs(test: Paired, level: float = ALPHA) -> bool:
    """Whether the mean of the differences is not 0."""
    return test.p is not None and test.p < level


def is_faster(test: Paired) -> bool:
    """Whether the mean of the differences is below 0."""
    return differs(test) and test.mean is not None and test.mean < 0


def ratio(values: Floats, retrained: Floats) -> tuple[float | None, float | None, float | None]:
    """Return the ratio of the means of paired values [R] and its 95 % interval; None where Retrain's mean is 0.

    The interval is that of the delta method: values - ratio x retrained has mean 0.
    """
    mean = float(retrained.mean())
    if not mean:
        return None, None, None
    value = float(values.mean()) / mean
    error = paired(values - value * retrained, np.zeros_like(values))
    if error.low is None or error.high is None:
        return value, None, None
    return value, max(0.0, value + error.low / mean), value + error.high / mean


def gate(controls: Mapping[str, Floats]) -> dict[str, Any]:
    """Judge a measure by its values [R] for the controls, by their labels, equal positions with equal seeds.

    Returns:
        `noop_detected`, `leak_detected`: the mean is below Retrain's, p < .05. `over_forget_detected`: it differs from
        Retrain's, p < .05. `follows_k`: the values fall with the leaked share, Page's p < .01; a share of 0 is
        Retrain, of 1 `noop`. `valid`: all of these. `reason`: which fail.
    """
    retrain = controls[REFERENCE]
    by_level = {**controls, LEAKS[0]: retrain, LEAKS[-1]: controls[NOOP]}
    trend = leak_trend({name: -by_level[name] for name in LEAKS})
    passed = {
        "noop_detected": is_faster(paired(controls[NOOP], retrain)),
        "leak_detected": is_faster(paired(controls[LEAK], retrain)),
        "over_forget_detected": differs(paired(controls[OVER], retrain)),
        "follows_k": is_trend(trend),
    }
    reason = failure_reason(passed, FAILURES)
    return {**passed, "page_p": trend.p, "valid": not reason, "reason": reason}
