"""Comparison with retrained runs in pairs, and the gate, on values whose result is known."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from unlearnbench.audits.relearning.comparison import gate, is_faster, paired, ratio
from unlearnbench.audits.relearning.relearning import (
    AREA,
    CANNOT_TELL,
    FASTER,
    RETRAINED,
    SAME,
    SLOWER,
    STEPS,
    UNLEARNED,
    verdict,
)

# By label, how far the mean is from Retrain's.
PLACES = {"noop": -4.0, "retrain-leak[k=0.25]": -1.0, "retrain-leak[k=0.5]": -2.0, "retrain-leak[k=0.75]": -3.0}
RETRAIN = np.array([5.0, 5.2, 4.9, 5.1, 5.3])
NOISE = np.array([0.1, -0.1, 0.05, -0.05, 0.02])


def controls(**changed: float) -> dict[str, Any]:
    places = PLACES | {"over-forget": 3.0} | changed
    return {"retrain": RETRAIN} | {name: RETRAIN + place + NOISE for name, place in places.items()}


def test_a_ratio_of_means_and_its_interval_by_hand() -> None:
    value, low, high = ratio(np.array([1.0, 3.0]), np.array([4.0, 4.0]))
    # The residuals -1 and 1 have the standard error 1; t with one degree of freedom is 12.706.
    assert (value, low) == (0.5, 0.0)
    assert high == pytest.approx(0.5 + 12.706 / 4, rel=1e-4)
    assert ratio(RETRAIN, RETRAIN) == pytest.approx((1.0, 1.0, 1.0))
    assert ratio(np.array([0.0, 0.0]), np.array([2.0, 4.0])) == (0, 0, 0)
    assert ratio(np.array([1.0, 2.0]), np.zeros(2)) == (None, None, None)


def test_a_difference_is_tested_run_by_run() -> None:
    # Between runs there is much more variation than between the two sides of a pair.
    retrained = np.array([1.0, 4.0, 9.0, 16.0])
    test = paired(retrained - np.array([0.2, 0.3, 0.2, 0.3]), retrained)
    assert test.mean == pytest.approx(-0.25)
    assert is_faster(test)
    assert not is_faster(paired(retrained + 0.25, retrained))
    assert paired(retrained, retrained).p == 1


@pytest.mark.parametrize(
    ("changed", "failing"),
    [
        ({}, []),
        ({"over-forget": -3.0}, []),
        ({"over-forget": 0.0}, ["over_forget_detected"]),
        ({"noop": 0.5}, ["noop_detected", "follows_k"]),
        ({"retrain-leak[k=0.5]": 0.0}, ["leak_detected"]),
        ({"retrain-leak[k=0.25]": -3.5, "retrain-leak[k=0.5]": -2.0, "retrain-leak[k=0.75]": 1.0}, ["follows_k"]),
    ],
)
def test_the_gate_names_what_is_ranked_wrongly(changed: dict[str, float], failing: list[str]) -> None:
    judgement = gate(controls(**changed))
    flags = ("noop_detected", "leak_detected", "over_forget_detected", "follows_k")
    assert [name for name in flags if not judgement[name]] == failing
    assert judgement["valid"] == (not failing) == (judgement["reason"] == "")


def test_the_verdict_counts_what_may_be_trusted() -> None:
    def judged(area: float, steps: float, *trusted: str) -> str:
        values = {
            name: {UNLEARNED: RETRAIN + gap + NOISE, RETRAINED: RETRAIN} for name, gap in ((AREA, area), (STEPS, steps))
        }
        return verdict(values, {name: {"valid": name in trusted} for name in (AREA, STEPS)})

    assert judged(0, 0, AREA, STEPS) == SAME
    assert judged(-2, 0, AREA, STEPS) == judged(0, -2, AREA, STEPS) == FASTER
    assert judged(2, 0, AREA, STEPS) == SLOWER
    # More loss at first and fewer steps to lose it: a trace that was covered up.
    assert judged(2, -2, AREA, STEPS) == FASTER
    assert judged(-2, -2) == judged(-2, 0, STEPS) == CANNOT_TELL
    assert judged(0, -2, STEPS) == FASTER
