"""What tests of the report page share: records of several graphs with all that can go wrong, and the page of them."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import pytest
from record_samples import make_record

from unlearnbench.records.record import Record
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.page import page_text
from unlearnbench.report.page.content import PageSource
from unlearnbench.report.tables.audits import audit_frame_of

HOSTILE = "</script><script>window.pwned = 1</script><img src=x onerror='window.pwned = 2'>"
LONG = "weighted[normalise=end,pool=prob]"
R = 5
METHODS = {"retrain": (0.86, 1.0), "sisa": (0.78, 0.5), "gif": (0.84, 1.6), "stranger": (0.70, 0.2)}
WOBBLE = (0.01, -0.01, 0.0, 0.02, -0.02)


def spread(method: str, score: float, seconds: float, **more: Any) -> list[Record]:
    """Make a record a repetition."""
    return [
        make_record(method, r, shard=score + by, full=score + by / 2 + 0.03, seconds=seconds * (1 + by), **more)
        for r, by in enumerate(WOBBLE)
    ]


def grid_of_parts(second: str = "contrastive") -> list[Record]:
    """Make records of two partitioners with two aggregators."""
    records = []
    for at, partitioner in enumerate(("random", "gpa")):
        for along, aggregator in enumerate(("mean", second)):
            parts = {
                "partitioner": {"name": partitioner, "version": 1, "params": {}},
                "aggregator": {"name": aggregator, "version": 1, "params": {}},
            }
            label = f"sharded[partitioner={partitioner},aggregator={aggregator}]"
            records += spread("sharded", 0.6 + 0.1 * at + 0.05 * along, 0.4, label=label, params=parts)
    return records


def deletions(count: int, method: str, seconds: float) -> Record:
    """Make the record of a request of so many nodes."""
    forget = {"forget": {"kind": "node", "count": count}}
    return make_record(method, seconds=seconds, dataset="digits", protocol=forget).model_copy(
        update={"requests": [{"count": count}]}
    )


def sample_records() -> list[Record]:
    """Make records: Cora with two models, a failure, a busy machine, a grid, requests of two sizes, hostile names."""
    records = [one for name, (score, seconds) in METHODS.items() for one in spread(name, score, seconds)]
    records += spread("retrain", 0.9, 2.0, model="gat") + spread("sisa", 0.8, 1.0, model="gat", exclusive=False)
    records += [make_record("scrub", r, status="error") for r in range(R)]
    records += grid_of_parts()
    for method, (one, many) in {"retrain": (1.0, 1.0), "sisa": (0.25, 2.0)}.items():
        records += [deletions(1, method, one), deletions(16, method, many)]
    return [*records, make_record("sisa", dataset=HOSTILE, label=HOSTILE, model=HOSTILE)]


def audited(name: str, method: str, verdict: str, scores: Sequence[dict[str, Any]] = (), version: int = 1) -> Record:
    """Make the record of an audit."""
    record = make_record(method)
    cell = {**record.cell, "audit": {"name": name, "version": version, "params": {}}}
    found = {"verdict": verdict, "scores": list(scores), "details": {}, "notes": [f"{HOSTILE} of {name}"]}
    return record.model_copy(update={"cell": cell, "audit": found})


def sample_audits() -> list[Record]:
    """Make records of audits: a gate that lets one measure through and stops another, and what it judges."""
    gate = [
        {"measure": "js", "where": "forgotten", "value": 0.0, "state": "valid"},
        {"measure": "posterior-shift", "where": "forgotten", "value": 0.1, "state": "cannot tell", "note": "It fails."},
    ]
    score = {"measure": "js", "where": "forgotten", "value": 0.01, "state": "valid"}
    return [
        audited("controls", "retrain", "valid: js; cannot tell: posterior-shift", gate),
        audited("distance", "sisa", "as retrained", [score]),
        audited("exactness", "sisa", "exact-given-partition (ids)"),
    ]


@cache
def sample_page(base: str | None = None) -> str:
    """Make the page of all samples."""
    with pytest.MonkeyPatch.context() as patch:
        # statsmodels collects garbage at every adjustment: half of the time.
        patch.setattr("gc.collect", lambda *_: 0)
        return page_text(frame_of(sample_records()), audit_frame_of(sample_audits()), PageSource("results", base))
