"""The time of a request, read from the phases of a cell."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from unlearnbench.records import digits

Phases = Iterable[Mapping[str, Any]]

# The phases of a cell, one after the other, the second row once a request; all others are inside them.
FIT_PHASES = ("fit", "evaluate")
REQUEST_PHASES = (
    *("unlearn", "state-first", "state-second", "evaluate"),
    *("predict-first", "predict-second", "predict-full", "evaluate"),
)
HARNESS_PHASES = FIT_PHASES + REQUEST_PHASES
CHARGED = ("unlearn", "state-first", "predict-first")
# A call after the request that takes this share of the first training, and so many seconds, may be a training.
LIKE_TRAINING = 0.5
SHORTEST_TRAINING = 0.05
# What rounding in a record may change.
ROUNDED = 0.5 * 10.0**-digits.SECONDS


def seconds_by_request(phases: Sequence[Mapping[str, Any]]) -> list[float | None]:
    """Return the seconds of each request of a cell, as `request_seconds` does of all of them."""
    rows = [[row for row in phases if row.get("name") == name] for name in CHARGED]
    return [request_seconds(of_request) for of_request in zip(*rows, strict=False)]


def request_seconds(phases: Phases) -> float | None:
    """Return the seconds from the request to the first answers: `unlearn()`, first `state()`, first `predict()`.

    Of a stream they are summed over its requests; None if one of them was not measured.
    """
    seconds = [_seconds(phases, name) for name in CHARGED]
    known = [value for value in seconds if value is not None]
    return math.fsum(known) if len(known) == len(CHARGED) else None


def holds_first_answers(seconds: float, phases: Phases) -> bool | None:
    """Whether a request's seconds, rounded as its phases are, hold its first answers; None if those were not measured.

    Records from before the answers were charged hold `unlearn()` alone.
    """
    phases = list(phases)
    charged = request_seconds(phases)
    rounded = ROUNDED * (1 + sum(row.get("name") in CHARGED for row in phases))
    return None if charged is None else math.isclose(seconds, charged, rel_tol=1e-9, abs_tol=rounded)


def answers_like_training(phases: Phases) -> Iterator[tuple[str, float, float]]:
    """Yield the calls that take about as long as the first training, on average over requests, and what `fit()` took.

    Such a call may train anew what `unlearn()` left undone.
    """
    phases = list(phases)
    fit, requests = _seconds(phases, "fit"), max(1, sum(row.get("name") == "unlearn" for row in phases))
    for name in ("state", "predict"):
        seconds = max(_seconds(phases, f"{name}-{which}") or 0.0 for which in ("first", "second", "full")) / requests
        if fit is not None and seconds >= max(SHORTEST_TRAINING, LIKE_TRAINING * fit):
            yield f"{name}()", seconds, fit


def _seconds(phases: Phases, name: str) -> float | None:
    """Sum the seconds of the phases of a name that did not fail; None if there was none."""
    rows = [row for row in phases if row.get("name") == name and "failed" not in row]
    known = [float(row["seconds"]) for row in rows if row.get("seconds") is not None]
    return math.fsum(known) if known else None
