"""Whether an attack ranks methods correctly whose forgetting is known, and what it could detect here."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from scipy.stats import norm

from unlearnbench.audits.gating import LEAK, NOOP, OVER, VERDICT_ALPHA, failure_reason
from unlearnbench.audits.membership.attack import Attacked, epsilon_bound
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.statistics import ALPHA

# Trained beside Retrain; the networks of `noop` are Retrain's before the request.
TRAINED = (LEAK, OVER)
POWER = 0.8

FAILURES = {
    "noop_detected": "noop is not detected here",
    "leak_detected": "a leak of half of the nodes is not detected here",
    "over_forget_detected": "over-forget is not detected here",
    "follows_k": "half a leak has an area as large as noop's",
}


def p_value(one: Attacked, other: Attacked | None) -> float:
    """Return the p-value of the test that an area is above another one, or above 0.5: one-sided, normal."""
    floor, error = (0.5, 0.0) if other is None else (other.area, other.error)
    spread = math.hypot(one.error, error)
    return float(norm.sf((one.area - floor) / spread)) if spread else float(one.area <= floor)


def gate(controls: Mapping[str, Attacked]) -> dict[str, Any]:
    """Judge an attacker by its results on the controls, by their labels.

    Returns:
        `noop_detected`, `leak_detected`, `over_forget_detected`: the area is above Retrain's, p < .05. `follows_k`: a
        leak of half of the nodes has a smaller area than `noop`, where all leak. `valid`: all of these. `reason`:
        which fail.
    """
    retrain = controls[REFERENCE]
    passed = {
        name: p_value(controls[control], retrain) < ALPHA
        for name, control in (("noop_detected", NOOP), ("leak_detected", LEAK), ("over_forget_detected", OVER))
    }
    passed["follows_k"] = controls[LEAK].area < controls[NOOP].area
    reason = failure_reason(passed, FAILURES)
    return {**passed, "valid": not reason, "reason": reason}


def detectable_area(retrain: Attacked, tests: int) -> float:
    """Return the smallest area that a verdict of `leaks` would follow from in four of five audits."""
    quantiles = float(norm.isf(VERDICT_ALPHA / tests) + norm.ppf(POWER))
    return min(1.0, retrain.area + quantiles * math.sqrt(2) * retrain.error)


def largest_bound(rows: int) -> float:
    """Return the bound on epsilon if an attack recognised each of some rows without a false positive."""
    return epsilon_bound(rows, rows)
