"""The verdicts of `exactness`, and how they compare with claims."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from unlearnbench.unlearning import Claim, Unlearner

EXACT, GIVEN, APPROXIMATE, NONE = (claim.value for claim in Claim if claim is not Claim.CERTIFIED)
PARTIAL = "partial"
CANNOT_TELL = "cannot tell"
REFUTED = "refuted"
HALF_WAY = 0.5
# Strength of claims; a certificate is stronger than `approximate`, but no run can show it. Who claims `approximate`
# promises no bound: `partial` does not contradict that.
RANKS: Final[Mapping[str, float]] = {
    EXACT: 4,
    f"{GIVEN} (ids)": 3.5,
    f"{GIVEN} (content)": 3,
    GIVEN: 3,
    Claim.CERTIFIED.value: 1,
    APPROXIMATE: 1,
    PARTIAL: 1,
    NONE: 0,
    CANNOT_TELL: 0,
}


def by_distance(effect: float) -> str:
    """Return the verdict for predictions that are significantly nearer to retrained models' than the untouched model's.

    Args:
        effect: Their distance over that of the untouched model.
    """
    return APPROXIMATE if effect <= HALF_WAY else PARTIAL


def claims_exactness(method: Unlearner) -> bool:
    """Whether a method claims to be exact, with or without a given partition."""
    return method.claim in (Claim.EXACT, Claim.EXACT_GIVEN_PARTITION)


def contradiction(claim: str, verdict: str) -> str:
    """Return the sentence about a claim that does not hold."""
    return (
        f"It claims {claim}: {verdict}." if verdict.startswith(REFUTED) else f"It claims {claim} and shows {verdict}."
    )
