"""Which times may stand in one table."""

from __future__ import annotations

import math

from record_samples import make_record

from unlearnbench.records.record import Record
from unlearnbench.report import frame_of
from unlearnbench.report.tables.index import build_tables


def on(instructions: str, method: str, repetition: int, seconds: float) -> Record:
    record = make_record(method, repetition, seconds=seconds)
    named = {"instructions": instructions} if instructions else {}
    return record.model_copy(update={"provenance": {**record.provenance, **named}})


def test_a_processor_with_other_instructions_counts_as_another_machine() -> None:
    records = [on("AVX2", method, r, 1.0) for method in ("retrain", "sisa") for r in range(3)]
    records += [on("AVX512", "gif", 0, 9.0), on("", "scrub", 0, 9.0)]
    (table,) = build_tables(frame_of(records), "time")
    times = dict(zip(table.data["method"], table.data["times_retrain"], strict=True))
    assert times["sisa"] == 1.0
    assert math.isnan(times["gif"])
    assert math.isnan(times["scrub"])
    (note,) = [note for note in table.notes if "of other machines" in note]
    assert note == "2 records of other machines give no times (m-0001, m-0001 with AVX512)."
