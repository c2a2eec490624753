"""Tables of the core as they are printed, whole: captions, columns and every note, held in `golden/`.

`UNLEARNBENCH_GOLDEN=write pytest tests/report` writes the files anew; what changed is then read in the diff.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from page_samples import WOBBLE, audited, deletions, grid_of_parts, spread
from record_samples import make_record

from unlearnbench.records.record import Record
from unlearnbench.report import frame_of
from unlearnbench.report.tables.audits import audit_frame_of
from unlearnbench.report.tables.index import build_tables
from unlearnbench.report.tables.render import render
from unlearnbench.report.tables.table import Table

GOLDEN = Path(__file__).parent / "golden"
# Read before any test takes variables away.
WRITE = os.environ.get("UNLEARNBENCH_GOLDEN") == "write"
NONE = {"claim": "none", "reason": ""}


def methods() -> list[Record]:
    """Make records with all that a note is about: failures, busy and other machines, a method that forgets nothing."""
    found = spread("retrain", 0.86, 1.0) + spread("sisa", 0.78, 0.5, shards_hit=7)
    found += [
        make_record("grapheraser", r, shard=0.79 + by, full=0.82 + by, seconds=0.75)
        for r, by in enumerate(np.roll(WOBBLE, 2))
    ]
    found += spread("noop", 0.90, 0.001, claim=NONE) + spread("busy", 0.7, 0.25, exclusive=False)
    found += [make_record("gif", r, status=status) for r, status in enumerate(("ok", "error", "oom", "diverged"))]
    found += spread("elsewhere", 0.75, 0.4, machine="m-0002") + spread("sent", 0.74, 0.3, backend="local")
    # One cell on two machines, and one that failed on another.
    found += [make_record("sisa", 0, shard=0.1, machine="m-0000")]
    return [*found, make_record("grapheraser", 0, status="error", machine="m-0002")]


def poisoned() -> list[Record]:
    """Make records of the poison: one method recovers half of the loss, the other lost too little to tell."""
    protocol = {"name": "poison", "forget": {"kind": "node", "injected": 100}, "poison": {"nodes": 100, "edges": 10}}
    found = []
    for method, moments in {"retrain": (0.8, 0.7, 0.75, 0.8), "sisa": (0.8, 0.796, 0.8, 0.8)}.items():
        for r, by in enumerate(WOBBLE):
            shard = dict(zip(("clean", "before", "after", "fresh"), (value + by for value in moments), strict=True))
            metrics = {"f1_micro": {"shard": shard, "full": dict.fromkeys(shard, 0.8)}}
            found.append(make_record(method, r, metrics=metrics, protocol=protocol))
    return found


def corrected() -> list[Record]:
    """Make records of spurious edges, half of them known: one method mends more than Retrain without what is known."""
    poison = {"edges": 1000, "manipulation": "edge", "known": 0.5}
    protocol = {"name": "poison", "forget": {"kind": "edge", "manipulated": 1000, "known": 0.5}, "poison": poison}
    found = []
    for method, moments in {"retrain": (0.8, 0.6, 0.7, 0.8), "cognac": (0.8, 0.6, 0.75, 0.8)}.items():
        for r, by in enumerate(WOBBLE):
            shard = dict(zip(("clean", "before", "after", "fresh"), (value + by for value in moments), strict=True))
            by_view = {"shard": shard, "full": dict.fromkeys(shard, 0.8)}
            metrics = dict.fromkeys(("f1_micro", "accuracy_affected", "accuracy_remaining"), by_view)
            found.append(make_record(method, r, metrics=metrics, protocol=protocol))
    return found


def validated() -> list[Record]:
    scores = {"retrain": 0.8, "sisa": 0.7}
    return [
        make_record(method, r, metrics={"val_f1_micro": {"shard": {"after": f1 + by}, "full": {"after": f1}}})
        for method, f1 in scores.items()
        for r, by in enumerate(WOBBLE)
    ]


def costs() -> list[Record]:
    seconds = {"retrain": (1.0, 1.0, 1.0), "sisa": (0.2, 0.6, 1.4)}
    return [
        deletions(count, method, each)
        for method, times in seconds.items()
        for count, each in zip((1, 5, 14), times, strict=True)
    ]


def audits() -> list[Table]:
    gate = [
        {"measure": "js", "where": "forgotten", "value": 0.0, "state": "valid"},
        {"measure": "posterior-shift", "where": "forgotten", "value": 0.1, "state": "cannot tell", "note": "It fails."},
    ]
    found = [
        audited("controls", "retrain", "valid: js; cannot tell: posterior-shift", gate),
        audited("distance", "sisa", "as retrained", [{**gate[0], "value": 0.01}, {**gate[1], "state": "valid"}]),
        audited("exactness", "sisa", "exact-given-partition (ids)"),
    ]
    plain = [one.model_copy(update={"audit": {**one.audit, "notes": ["What the audit says."]}}) for one in found]
    return build_tables(audit_frame_of(plain), "audits", "my results")


def forgetting() -> list[Table]:
    """Make the table of methods with all audits, with some, with an older one, and with runs alone."""

    def scored(name: str, method: str, verdict: str, *scores: tuple[Any, ...], version: int = 2) -> Record:
        names = ("measure", "where", "value", "low", "high", "effect", "state", "controls")
        record = audited(name, method, verdict, [dict(zip(names, one, strict=False)) for one in scores])
        cell = {**record.cell, "audit": {"name": name, "version": version, "params": {}}}
        return record.model_copy(update={"cell": cell, "key": f"{record.key}{name}{version}", "claim": NONE})

    audited_ones = [
        scored("exactness", "noop", "none"),
        scored("controls", "retrain", "valid: js", ("js", "forgotten", 0.0, None, None, None, "valid")),
        scored("distance", "noop", "differs", ("js", "forgotten, own", 0.2, None, None, 1.0, "valid", {"noop": 0.2})),
        scored("distance", "gif", "cannot tell", ("js", "forgotten, own", 0.2, None, None, None, "cannot tell")),
        scored(
            "membership", "noop", "leaks",
            ("tpr", "node, 1% false alarms", 0.242, 0.229, 0.255, None, "valid"),
            ("epsilon", "node", 3.0, None, None, None, "valid"),
        ),
        scored("relearning", "noop", "faster", ("relearning ratio", "area", 0.62, 0.55, 0.7, None, "valid")),
        scored("relearning", "sisa", "unfit", ("area", "forgotten", None)),
        scored(
            "partition-leakage", "sisa", "no leak seen",
            ("auc", "per target", 0.506, 0.493, 0.518, None, "valid"),
            ("auc", "independent seeds, calibrated", 0.503, 0.49, 0.51, None, "valid"),
        ),
        scored("partition-leakage", "sisa", "leaks", ("auc", "independent seeds", 0.6, 0.5, 0.7), version=1),
        scored("partition-leakage", "grapheraser", "leaks", ("auc", "independent seeds", 0.6, 0.5, 0.7), version=1),
    ]  # fmt: skip
    runs = spread("retrain", 0.86, 1.0) + spread("sisa", 0.78, 0.5)
    return build_tables(frame_of(runs), "forgetting", "my results", audits=audit_frame_of(audited_ones))


def of_index(name: str, records: Callable[[], list[Record]]) -> Callable[[], list[Table]]:
    return lambda: build_tables(frame_of(records()), name, source="my results")


OF_EVERY_GROUP = ("summary", "utility", "time", "memory", "validation", "comparison", "equivalence")
BUILT: dict[str, Callable[[], list[Table]]] = {
    **{name: of_index(name, validated if name == "validation" else methods) for name in OF_EVERY_GROUP},
    "factorial": of_index("factorial", grid_of_parts),
    "poison": of_index("poison", poisoned),
    "corrective": of_index("corrective", corrected),
    "datasets": of_index("datasets", methods),
    "cost": of_index("cost", costs),
    "audits": audits,
    "forgetting": forgetting,
}


@pytest.mark.parametrize("name", BUILT)
def test_a_table_is_printed_as_its_golden_file_holds_it(name: str) -> None:
    text = render(BUILT[name]())
    path = GOLDEN / f"{name}.txt"
    if WRITE:
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, encoding="utf-8")
    assert text == path.read_text(encoding="utf-8")


def test_every_golden_file_has_its_table() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(BUILT)
