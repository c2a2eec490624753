"""`approximate` is at least half way from an untouched model to retrained ones; less is `partial`."""

from __future__ import annotations

import pytest

from unlearnbench.audits.exactness.verdicts import APPROXIMATE, GIVEN, NONE, PARTIAL, RANKS, by_distance


@pytest.mark.parametrize(
    ("effect", "verdict"),
    [(-0.1, APPROXIMATE), (0.0, APPROXIMATE), (0.5, APPROXIMATE), (0.501, PARTIAL), (0.98, PARTIAL), (1.2, PARTIAL)],
)
def test_less_than_half_way_is_partial(effect: float, verdict: str) -> None:
    assert by_distance(effect) == verdict


def test_partial_contradicts_no_claim_of_being_approximate_but_every_claim_of_being_exact() -> None:
    assert RANKS[APPROXIMATE] <= RANKS[PARTIAL] < RANKS[GIVEN]
    assert RANKS[NONE] < RANKS[PARTIAL]
