"""Nothing ran, or something failed: the exit code and the summary say so."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, SHARDS, command, files_of, install, records_of
from plugin_samples import Write
from record_samples import make_record

from unlearnbench.records.store import Store

__all__ = ["command", "install"]


def test_a_failing_method_fails_alone_and_is_the_only_one_run_again(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    out = tmp_path / "out"
    arguments = ("run", "-m", "steady,failing,sisa", *ONCE, *SHARDS, "--out", str(out))
    monkeypatch.setenv("TOY_FAILS", "1")
    told = command(*arguments)
    assert told.code == 1
    assert "4 cells: 3 ok, 1 failed, 0 refused, 0 diverged; 0 were there already." in told.err
    assert "failing repetition 0: error: RuntimeError: fails on purpose" in told.err
    assert "steady" in told.out
    records = records_of(out)
    assert {name: record.status for (name, _), record in records.items()} == {
        "retrain": "ok", "steady": "ok", "failing": "error", "sisa": "ok",
    }  # fmt: skip
    failure = records["failing", 0]
    assert failure.error is not None
    assert failure.error["type"] == "RuntimeError"
    assert "fails on purpose" in failure.error["traceback"]
    assert "ub_toys.py" in failure.error["traceback"]
    assert failure.key in told.err
    assert failure.metrics == {}
    assert [path.name for path in out.glob("records/*/*/failing/*")] == [f"{failure.key}.error.json"]

    finished = {path: kept for path, kept in files_of(out).items() if path.parent.name != "failing"}
    told = command(*arguments, "--overwrite", "never")
    assert told.code == 1
    assert "1 of them failed before" in told.err
    assert command(*arguments).code == 1
    monkeypatch.delenv("TOY_FAILS")
    told = command(*arguments)
    assert told.code == 0
    assert "4 cells: 4 ok, 0 failed, 0 refused, 0 diverged; 3 were there already." in told.err
    assert {path: files_of(out)[path] for path in finished} == finished
    assert sorted(path.suffix for path in out.glob("records/*/*/failing/*")) == [".json", ".npz"]
    assert not list(out.rglob("*.error.json"))


def test_failures_can_be_tolerated_and_are_still_told(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TOY_FAILS", "1")
    arguments = ("run", "-m", "steady,failing", *ONCE, "--out", str(tmp_path / "out"))
    summary = "3 cells: 2 ok, 1 failed, 0 refused, 0 diverged; "
    told = command(*arguments, "--tolerate-failures")
    assert told.code == 0
    assert f"{summary}0 were there already." in told.err
    assert "fails on purpose" in told.err
    assert records_of(tmp_path / "out")["failing", 0].status == "error"
    # Where the traceback is said to be, it is.
    (said,) = re.findall(r"traceback of the first failure is under error in (.+)", told.err)
    assert "fails on purpose" in json.loads(Path(said).read_text("utf-8"))["error"]["traceback"]
    # A cell that failed before and is left alone has failed all the same.
    for flags, code in ((("--tolerate-failures",), 0), ((), 1)):
        told = command(*arguments, "--overwrite", "never", *flags)
        assert told.code == code
        assert f"{summary}2 were there already." in told.err
    told = command(*arguments)
    assert told.code == 1
    assert f"{summary}2 were there already." in told.err


def test_only_failures_of_cells_are_tolerated(command: Any, tmp_path: Path) -> None:
    arguments = ("run", *ONCE, "--tolerate-failures", "--out", str(tmp_path / "out"), "-m")
    assert command(*arguments, "retrian").code == 2
    assert command(*arguments, "steady", "--models", "").code == 3
    assert not (tmp_path / "out").exists()


def test_every_outcome_has_its_place_in_the_summary(
    command: Any, install: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(
        "ub-cheats",
        "from ub_toys import Steady\nfrom unlearnbench import hookimpl\n"
        "class Cheating(Steady):\n    name = 'cheating'\n"
        "    def predict(self, query):\n        self.weight = self.weight + 1\n        return super().predict(query)\n"
        "@hookimpl\ndef register_unlearners(register):\n    register(Cheating)\n",
    )
    monkeypatch.setenv("TOY_FAILS", "1")
    arguments = ("run", *ONCE, "--no-reference", "--out", str(tmp_path / "out"), "-m")
    told = command(*arguments, "steady,failing,cheating,diverging")
    assert told.code == 1
    assert "4 cells: 1 ok, 1 failed, 1 refused, 1 diverged; 0 were there already." in told.err
    told = command(*arguments, "steady,cheating,diverging")
    assert told.code == 0
    assert "3 cells: 1 ok, 0 failed, 1 refused, 1 diverged; 3 were there already." in told.err


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), ("No method is named", "unlearnbench ls method")),
        (("-m", "retrian"), ("Unknown method 'retrian'", "Did you mean retrain", "unlearnbench ls method")),
        (("-m", "steady,retrian"), ("Unknown method 'retrian'",)),
        (
            ("-m", "sisa,sharded[partitioner=hsah]"),
            ("Unknown partitioner 'hsah'", "hash", "unlearnbench ls partitioner"),
        ),
        (("-m", "sisa", "-d", "toyy"), ("Unknown dataset 'toyy'", "toy", "unlearnbench ls dataset")),
        (("-m", "sisa", "-d", "toy,toyy"), ("Unknown dataset 'toyy'",)),
        (("-m", "sisa", "--models", "gnc"), ("Unknown model 'gnc'", "gcn", "unlearnbench ls model")),
    ],
)
def test_what_is_not_known_is_told_before_any_work(
    command: Any, tmp_path: Path, arguments: tuple[str, ...], said: tuple[str, ...]
) -> None:
    dataset = () if "-d" in arguments else ("-d", "toy")
    told = command("run", *arguments, *dataset, "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert all(part in told.err for part in said), told.err
    assert told.out == ""
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("nothing", [("-d", ""), ("--models", ",")])
def test_no_cell_at_all_has_an_exit_code_of_its_own(command: Any, tmp_path: Path, nothing: tuple[str, str]) -> None:
    told = command("run", "-m", "steady", *nothing, "--out", str(tmp_path / "out"))
    assert told.code == 3
    assert "There is nothing to run" in told.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("report", "--table", "tiem"), "Unknown table 'tiem'.\nhint: Did you mean time"),
        (("ls", "metods"), "Unknown kind 'metods'.\nhint: Did you mean method or model or metric?"),
    ],
)
def test_a_misspelt_choice_is_told_what_is_near(command: Any, arguments: tuple[str, ...], said: str) -> None:
    told = command(*arguments)
    assert told.code == 2
    assert said in told.err


@pytest.mark.parametrize("group", [(), ("leaderboard",), ("plugin",), ("store",)])
def test_a_command_with_nothing_to_do_prints_its_help_as_help_does(command: Any, group: tuple[str, ...]) -> None:
    told, asked = command(*group), command(*group, "--help")
    assert (told.code, told.out, asked.code) == (2, "", 0)
    assert told.err.strip() == asked.out.strip()


@pytest.mark.parametrize("table", ["forgetting", "sweep", "stream", "cost"])
def test_a_table_of_nothing_says_what_makes_its_records(command: Any, tmp_path: Path, table: str) -> None:
    Store(tmp_path, "m-0001").save(make_record())
    told = command("report", str(tmp_path), "--table", table)
    assert told.code != 0
    assert re.search(r"Make such records, for example:\s+`unlearnbench (run|audit) [^`]*--\w+", told.err), told.err


@pytest.mark.parametrize("option", ["--html", "--figures"])
def test_a_folder_that_cannot_be_made_is_one_error(command: Any, tmp_path: Path, option: str) -> None:
    Store(tmp_path / "out", "m-0001").save(make_record())
    (tmp_path / "file").touch()
    told = command("report", str(tmp_path / "out"), option, str(tmp_path / "file" / "page"))
    assert told.code != 0
    assert "cannot be written" in told.err
    assert "Traceback" not in told.err
