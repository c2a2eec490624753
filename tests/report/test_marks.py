"""What was computed again, by which machine: a file in the results folder, and columns of the leaderboard."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, SHARDS, command, computed_here, install, records_of

from unlearnbench.records.record import Record
from unlearnbench.report.publish import recompute as recomputing
from unlearnbench.report.publish.marks import checksum_of

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

COLUMNS = ("recomputed_n", "recomputed_differ", "recomputed_by")


@pytest.fixture(autouse=True)
def _here(monkeypatch: pytest.MonkeyPatch) -> None:
    # That each cell gets a process of its own is tested with submissions.
    monkeypatch.setattr(recomputing, "run_in_processes", computed_here)


@pytest.fixture
def mine(command: Any, tmp_path: Path) -> Path:
    """Give a results folder of two records."""
    assert command("run", "-m", "sisa", *ONCE, *SHARDS, "--out", "mine").code == 0
    return tmp_path / "mine"


def rows(folder: Path) -> dict[str, dict[str, str]]:
    """Read the rows of the shard view by method."""
    with (folder / "leaderboard/www24/toy.csv").open(newline="") as file:
        return {row["method"]: row for row in csv.DictReader(file) if row["view"] == "shard"}


def marks_of(folder: Path) -> Path:
    (path,) = folder.glob("recomputed/*.json")
    return path


def test_the_leaderboard_names_who_computed_what_again(command: Any, mine: Path) -> None:
    assert command("leaderboard", "build", "mine").code == 0
    assert not set(COLUMNS) & set(next(iter(rows(mine).values())))
    assert command("leaderboard", "verify", "mine", "--recompute", "1", "--seed", "3").code == 0
    (mark,) = json.loads(marks_of(mine).read_text())["records"]
    assert command("leaderboard", "verify", "mine").code == 0
    assert command("leaderboard", "build", "mine").code == 0
    assert command("leaderboard", "verify", "mine").code == 0
    keys = {record.key: name for (name, _), record in records_of(mine).items()}
    for method, row in rows(mine).items():
        is_marked = method.startswith(keys[mark["key"]])
        expected = ("1", "0", marks_of(mine).stem) if is_marked else ("0", "0", "")
        assert tuple(row[name] for name in COLUMNS) == expected
    assert command("leaderboard", "verify", "mine", "--recompute", "2").code == 0
    assert len(json.loads(marks_of(mine).read_text())["records"]) == 2


def test_a_record_that_differs_is_counted_apart_and_one_that_changed_later_is_not(command: Any, mine: Path) -> None:
    sisa = records_of(mine)["sisa", 0]
    (path,) = mine.glob("records/*/*/sisa/*.json")
    forged = sisa.model_copy(update={"counts": {**sisa.counts, "steps": 99}})
    path.write_text(forged.to_json())
    assert command("leaderboard", "verify", "mine", "--recompute", "2").code == 1
    assert command("leaderboard", "build", "mine").code == 0
    found = {method.partition("[")[0]: row for method, row in rows(mine).items()}
    assert (found["sisa"]["recomputed_n"], found["sisa"]["recomputed_differ"]) == ("0", "1")
    assert found["retrain"]["recomputed_n"] == "1"
    path.write_text(sisa.to_json())
    assert command("leaderboard", "build", "mine").code == 0
    assert {row["recomputed_differ"] for row in rows(mine).values()} == {"0"}


def test_submitting_takes_no_marks_along(command: Any, mine: Path) -> None:
    assert command("leaderboard", "verify", "mine", "--recompute", "2").code == 0
    command("leaderboard", "submit", "mine", "--allow-dirty")
    assert not list(Path("submission").rglob("recomputed*"))


DAMAGES: list[tuple[Any, str]] = [
    (lambda plain: plain.update(more=1), ""),
    (lambda plain: plain["machine"].update(cores=plain["machine"]["cores"] + 1), "describes another machine"),
    (lambda plain: plain["records"].append(plain["records"][0]), "a record is named twice"),
    (lambda plain: plain["records"][0].update(agrees="yes"), "valid boolean"),
    (lambda plain: plain["records"][0].update(checksum="0"), "match pattern"),
]


def test_a_damaged_file_of_marks_is_named(command: Any, mine: Path) -> None:
    assert command("leaderboard", "verify", "mine", "--recompute", "1").code == 0
    path = marks_of(mine)
    sound = path.read_text()
    for change, said in DAMAGES:
        plain = json.loads(sound)
        change(plain)
        path.write_text(json.dumps(plain))
        told = command("leaderboard", "build", "mine")
        assert told.code == 1
        assert str(path.relative_to(mine.parent)) in told.err
        assert said in told.err
    before = path.read_bytes()
    again = command("leaderboard", "verify", "mine", "--recompute", "1")
    assert again.code == 0
    assert "It is not noted which cells were computed again" in again.err
    assert path.read_bytes() == before


def test_marks_that_cannot_be_written_change_no_verdict(command: Any, mine: Path) -> None:
    (mine / "recomputed").write_text("a file where the folder belongs")
    told = command("leaderboard", "verify", "mine", "--recompute", "1")
    assert told.code == 0
    assert "It is not noted which cells were computed again" in told.err


def test_old_records_have_a_checksum_too(mine: Path) -> None:
    record = records_of(mine)["sisa", 0]
    plain = {**record.model_dump(mode="json", by_alias=True), "predictions_digest": None}
    old = Record.model_validate(plain)
    assert "predictions_digest" not in old.to_json()
    assert checksum_of(old) == json.loads(old.to_json())["checksum"] != checksum_of(record)
