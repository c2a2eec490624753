"""Callbacks of a run: what they are told, and that a failing one is no failure of a method."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from graph_samples import user_graph

import unlearnbench
from unlearnbench import Record, UsageError
from unlearnbench.errors import StoppedError

QUICK: dict[str, Any] = {"epochs": 2, "repetitions": 2, "forget_count": 1, "device": "cpu", "num_shards": 2}


def run(out: Path, **more: Any) -> list[Record]:
    return unlearnbench.run(["sisa"], datasets=[user_graph()], out=out, **QUICK, **more)


@pytest.mark.slow
def test_phases_epochs_and_records_are_told_in_order(tmp_path: Path) -> None:
    told: list[tuple[Any, ...]] = []
    records = run(
        tmp_path / "a",
        on_phase=lambda *given: told.append(given),
        on_epoch=lambda *given: told.append(given),
        on_record=lambda record: told.append((record,)),
    )
    assert [given[0] for given in told if len(given) == 1] == records
    cells = {given[0] for given in told if len(given) > 1}
    assert len(cells) == 4
    name = next(cell for cell in cells if "retrain repetition 0" in cell)
    first = [given[1:] for given in told if given[0] == name]
    begun = [given[:3] for given in first[:4]]
    assert begun == [("fit",), ("fit/train",), ("fit/train", 1, 2), ("fit/train", 2, 2)]
    assert ("unlearn/retrain", 2, 2) in {given[:3] for given in first}
    values = [given[3] for given in first if len(given) == 4]
    assert values[0]["loss"] > values[1]["loss"] > 0
    assert all(0 <= one["val_f1"] <= 1 for one in values)
    # The numbers are those of a run without, and the times are not to be compared.
    plain = run(tmp_path / "b")
    assert [record.digests for record in plain] == [record.digests for record in records]
    assert not any(record.provenance["exclusive"] for record in records)
    assert all(any("it gives no times" in note for note in record.notes) for record in records)
    # What is there already is not made again, nor told again.
    told.clear()
    assert run(tmp_path / "a", on_record=lambda record: told.append((record,))) == records
    assert told == []


def test_a_failing_callback_stops_the_run_and_costs_no_record(tmp_path: Path) -> None:
    def fail(cell: str, phase: str) -> None:
        if "sisa repetition 1" in cell.replace("[num_shards=2]", ""):
            raise ConnectionError("the tracker is away")

    with pytest.raises(StoppedError, match="on_phase failed: ConnectionError: the tracker is away"):
        run(tmp_path, on_phase=fail)
    assert len(list(tmp_path.rglob("records/*/*/*/*.json"))) == 3
    assert not list(tmp_path.rglob("*.error.json"))
    assert len(run(tmp_path)) == 4


def test_other_processes_cannot_call_back(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="on_phase and on_epoch are called in this process"):
        unlearnbench.run(["sisa"], jobs=2, on_epoch=lambda *given: None, out=tmp_path)
