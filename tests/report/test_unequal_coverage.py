"""D5: means and ranks over what is whole; what is missing is neither left out in silence nor counted as 0."""

from __future__ import annotations

import csv
import io
from pathlib import Path
from typing import Any

from command_line import command, install
from record_samples import make_record

from unlearnbench.records.record import Record
from unlearnbench.records.store import Store

__all__ = ["command", "install"]


def save(root: Path, records: list[Record]) -> Path:
    for record in records:
        store = Store(root, record.machine)
        (store.save_failure if record.is_failure else store.save)(record)
    return root


def test_a_method_that_covers_one_of_two_datasets_has_no_overall_mean_and_no_rank(command: Any, tmp_path: Path) -> None:
    scores = {("a", "cora"): 0.80, ("a", "citeseer"): 0.60, ("b", "cora"): 0.90}
    save(tmp_path, [make_record(method, dataset=dataset, shard=s, full=s) for (method, dataset), s in scores.items()])
    assert command("leaderboard", "build", str(tmp_path)).code == 0
    text = (tmp_path / "leaderboard" / "all.csv").read_text()
    found = [
        (row["method"], row["coverage"], row["overall"], row["rank"], row["covers"])
        for row in csv.DictReader(io.StringIO(text))
        if row["view"] == "shard"
    ]
    assert found == [
        ("a", "2/2", "0.7", "1", "citeseer/gcn cora/gcn"),
        ("b", "1/2", "", "", "cora/gcn"),
    ]


def test_failed_and_missing_repetitions_are_told_apart_and_none_of_them_is_averaged(
    command: Any, tmp_path: Path
) -> None:
    records = [make_record("a", repetition, shard=0.5) for repetition in range(6)]
    records += [make_record("b", repetition, shard=0.9) for repetition in range(4)]
    records.append(make_record("b", 4, status="error"))
    save(tmp_path, records)
    for table in ("summary", "utility", "comparison"):
        rows = command("report", str(tmp_path), "--table", table, "--format", "md").out.splitlines()
        (line,) = (row for row in rows if row.startswith("| b "))
        cells = [cell.strip() for cell in line.strip("|").split("|")]
        assert cells[1] == "4/6"
        assert cells[-1] == "failed 1, missing 1"
        # Better by far, and yet not marked: two repetitions are not there.
        assert "**" not in line
        assert any(cell.startswith("90.00") for cell in cells)
        assert any("not ranked" in row for row in rows)
    command("leaderboard", "build", str(tmp_path))
    text = (tmp_path / "leaderboard" / "www24" / "cora.csv").read_text()
    (row,) = (row for row in csv.DictReader(io.StringIO(text)) if row["method"] == "b" and row["view"] == "shard")
    assert (row["n"], row["expected"], row["failed"], row["missing"], row["f1_micro_mean"]) == (
        "4", "6", "1", "1", "0.9",
    )  # fmt: skip
