"""What a stream of requests came to, request by request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from typing import Any

from unlearnbench.measure.request_time import seconds_by_request
from unlearnbench.metrics.wording import moments_after
from unlearnbench.records.record import Record

PEAKS = ("peak_rss_mib", "peak_gpu_mib")

Step = Mapping[str, Any]
"""A moment of a stream: before it, and after each request."""


def stream_steps(record: Record, view: str) -> list[Step]:
    """Return the steps of a record in one view; none without a stream.

    Each has `forgotten`, how much is forgotten by then; `f1`; `seconds` of its request; `sizes` of shards, `hit` and
    `retired`; and peaks of memory. What is not known is None.
    """
    requests = record.requests
    if len(requests) < 2:
        return []
    moments = ["before", *moments_after(len(requests))]
    scores = record.metrics.get("f1_micro", {}).get(view, {})
    seconds = [None, *seconds_by_request(record.phases)]
    served: list[Mapping[str, Any]] = [{}, *(dict(phase) for phase in record.phases if phase["name"] == "unlearn")]
    sizes = [(record.partition or {}).get("sizes"), *(request.get("sizes") for request in requests)]
    counts: list[Mapping[str, Any]] = [{}, *(request.get("counts") or {} for request in requests)]
    forgotten = accumulate((request.get("count", 0) for request in requests), initial=0)
    return [
        {
            "forgotten": amount,
            "f1": scores.get(moment),
            "seconds": _at(seconds, number),
            "sizes": sizes[number],
            "hit": counts[number].get("shards_hit"),
            "retired": counts[number].get("shards_retired"),
            **{name: (_at(served, number) or {}).get(name) for name in PEAKS},
        }
        for number, (amount, moment) in enumerate(zip(forgotten, moments, strict=True))
    ]


def postponed(steps: Sequence[Step], every: int) -> list[Step]:
    """Return what serving each `every` requests at once would have come to: until then the old model answers.

    Args:
        steps: Those of a method that trains anew whatever the number of requests.
        every: How many requests wait for each other.
    """
    last = [number - number % every for number in range(len(steps))]
    nothing = {"seconds": 0.0, "sizes": None, "hit": None, "retired": None, **dict.fromkeys(PEAKS)}
    return [
        step if number in (0, done) else {**step, **nothing, "f1": steps[done]["f1"]}
        for number, (step, done) in enumerate(zip(steps, last, strict=True))
    ]


def _at(values: Sequence[Any], number: int) -> Any:
    """Return a value; None where a cell ended before it."""
    return values[number] if number < len(values) else None
