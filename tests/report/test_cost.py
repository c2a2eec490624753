"""The ledger of costs, on records whose numbers are worked by hand."""

from __future__ import annotations

from typing import Any

import pytest
from record_samples import make_record

from unlearnbench.records.record import Record
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.tables.cost import break_even, cost_tables
from unlearnbench.report.tables.index import build_tables


def costly(method: str, deletions: int, seconds: float, repetition: int = 0, **more: Any) -> Record:
    """Make a record of a request of so many nodes that took so many seconds."""
    record = make_record(method, repetition, seconds=seconds, **more)
    cell = {**record.cell, "protocol": {**record.cell["protocol"], "forget": {"kind": "node", "count": deletions}}}
    return record.model_copy(
        update={"cell": cell, "key": f"{record.key[:20]}{deletions:04d}", "requests": [{"count": deletions}]}
    )


def test_time_against_deletions_and_where_it_breaks_even() -> None:
    records = [costly("retrain", count, 1.0, r) for count in (1, 5, 14) for r in range(2)]
    records += [costly("sisa", count, seconds, r) for count, seconds in ((1, 0.2), (5, 0.6), (14, 1.4)) for r in (0, 1)]
    (table,) = build_tables(frame_of(records), "cost")
    shown = table.shown.set_index("method")
    assert list(shown.columns) == ["1", "5", "14", "break-even"]
    assert shown.loc["sisa", "1"].startswith("0.200")
    assert "(0.20" in shown.loc["sisa", "1"]
    # 0.6 at 5 and 1.4 at 14: 1 is reached half way.
    assert shown.loc["sisa", "break-even"] == "10"
    assert shown.loc["retrain", "break-even"] == ""
    assert "Made by: unlearnbench report results --table cost" in table.notes


def test_numbers_of_deletions_are_compared_over_the_same_repetitions() -> None:
    records = [costly("sisa", count, seconds, r) for count, seconds in ((1, 0.2), (5, 0.6), (14, 1.4)) for r in (0, 1)]
    # Ten repetitions at 14 alone, the others slower.
    records += [costly("sisa", 14, 9.0, r) for r in range(2, 10)]
    (table,) = build_tables(frame_of(records), "cost")
    assert table.shown.set_index("method").loc["sisa", "14"].startswith("1.400")
    assert set(table.data["n"]) == {2}
    # Without a repetition that has every number, all of them count.
    (table,) = build_tables(frame_of([costly("sisa", 1, 0.2, 0), costly("sisa", 5, 0.6, 1)]), "cost")
    assert set(table.data["n"]) == {1}


@pytest.mark.parametrize(
    ("mine", "expected"),
    [({1: 0.5, 2: 0.9}, None), ({1: 1.0, 2: 3.0}, 0.0), ({1: 0.5, 3: 1.5}, 2.0), ({}, None)],
)
def test_break_even(mine: dict[int, float], expected: float | None) -> None:
    assert break_even(mine, {1: 1.0, 2: 1.0, 3: 1.0}) == expected


def one_by_one(method: str, phases: list[dict[str, Any]], partition: dict[str, Any] | None) -> Record:
    record = costly(method, 14, 1.0)
    cell = {**record.cell, "training": {**record.cell["training"], "one_by_one": True}}
    counts = {**record.counts, "parameter_bytes": 2048}
    return record.model_copy(update={"cell": cell, "phases": phases, "partition": partition, "counts": counts})


def test_stages_come_from_members_trained_one_by_one() -> None:
    phases = [{"name": "partition", "seconds": 0.5}, {"name": "train", "seconds": 3.1}]
    phases += [{"name": f"train/member-{m:03d}", "seconds": s} for m, s in enumerate((1.0, 2.0))]
    sisa = one_by_one("sisa", phases, {"sizes": [30, 10], "edges_kept": 0.5})
    retrain = one_by_one("retrain", [{"name": "train", "seconds": 4.0}], None)
    (table,) = build_tables(frame_of([sisa, retrain]), "cost")
    data = table.data.set_index("method")
    assert data.loc["sisa", "serial_seconds"] == 3.0
    assert data.loc["sisa", "longest_seconds"] == 2.0
    assert data.loc["sisa", "expected_seconds"] == pytest.approx(0.75 * 1.0 + 0.25 * 2.0)
    assert data.loc["sisa", "partition_seconds"] == 0.5
    assert data.loc["retrain", "serial_seconds"] == data.loc["retrain", "expected_seconds"] == 4.0
    assert table.shown.set_index("method").loc["sisa", "parameters KiB"] == "2"


def test_members_trained_in_steps_are_summed_and_one_deletion_is_unknown() -> None:
    phases = [{"name": "train", "seconds": 5.0}]
    phases += [{"name": f"train/member-{m:03d}", "seconds": s} for m, s in ((0, 1.0), (1, 2.0), (0, 0.5), (1, 0.25))]
    frame = frame_of([one_by_one("sisa", phases, {"sizes": [30, 10], "edges_kept": 0.5})])
    # One row a view.
    assert set(frame["serial_seconds"]) == {3.75}
    assert set(frame["longest_seconds"]) == {2.25}
    assert frame["expected_seconds"].isna().all()
    (table,) = build_tables(frame, "cost")
    assert table.shown["one deletion s"].tolist() == [""]


def test_members_whose_seconds_lack_give_no_sum() -> None:
    phases = [{"name": "train/member-000", "seconds": 1.0}, {"name": "train/member-001", "seconds": None}]
    frame = frame_of([one_by_one("sisa", phases, {"sizes": [30, 10], "edges_kept": 0.5})])
    assert frame["serial_seconds"].isna().all()
    assert cost_tables(frame) == []


def test_a_time_from_a_busy_machine_is_marked() -> None:
    records = [costly("retrain", 1, 1.0), costly("sisa", 1, 0.5, exclusive=False)]
    (table,) = build_tables(frame_of(records), "cost")
    assert table.shown.set_index("method").loc["sisa", "1"].endswith("*")


def test_records_that_say_no_number_of_nodes_are_left_out() -> None:
    assert cost_tables(frame_of([make_record("sisa").model_copy(update={"requests": []})])) == []


def deleting(kind: str, seconds: float) -> Record:
    record = costly("sisa", 14, seconds)
    cell = {**record.cell, "protocol": {**record.cell["protocol"], "forget": {"kind": kind, "count": 14}}}
    return record.model_copy(update={"cell": cell, "key": f"{record.key[:20]}{kind.encode().hex()}"})


def test_kinds_of_requests_are_never_averaged() -> None:
    records = [deleting("node", 1.0), deleting("edge", 3.0), deleting("feature", 2.0)]
    tables = build_tables(frame_of(records), "cost")
    assert {(table.caption, table.shown["14"].item()) for table in tables} == {
        ("Time against deletions: cora, gcn on cpu.", "1.000"),
        ("Time against deletions: cora, gcn on cpu, edges.", "3.000"),
        ("Time against deletions: cora, gcn on cpu, features.", "2.000"),
    }
    assert {table.notes[0].split(" deleted")[0] for table in tables} == {
        "Columns: nodes",
        "Columns: edges",
        "Columns: nodes whose features were",
    }


def test_versions_of_a_method_are_rows_of_their_own() -> None:
    (table,) = cost_tables(
        frame_of([costly("sisa", 14, 1.0), costly("sisa", 14, 3.0, 1, version=2), costly("retrain", 14, 2.0)])
    )
    shown = table.shown.set_index("method")["14"]
    assert (shown["sisa {version=1}"], shown["sisa {version=2}"]) == ("1.000 (0.50 x)", "3.000")
