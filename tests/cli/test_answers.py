"""Answers of `report` that are kept: read only while every file they were made from is as it was."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, command, install
from platformdirs import user_cache_path

from unlearnbench.cli import report_tables
from unlearnbench.cli.answers import MOST, Answer, Answers

__all__ = ["command", "install"]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    place = tmp_path / "results" / "records" / "m" / "cora" / "sisa"
    place.mkdir(parents=True)
    (place / "one.json").write_text("{}")
    return tmp_path / "results"


def kept(folder: Path, question: Any = "which?") -> Answer | None:
    return Answers(folder, question).find()


ANSWER = Answer("a table ± 1\n", ("a warning",))


def test_an_answer_is_of_its_question_and_its_folder(folder: Path) -> None:
    assert kept(folder) is None
    Answers(folder, "which?").keep(ANSWER)
    assert kept(folder) == ANSWER
    assert kept(folder, "another") is None
    assert kept(folder.parent) is None


def test_a_changed_added_or_removed_file_makes_the_answer_old_whatever_its_size_and_date_say(folder: Path) -> None:
    (path,) = folder.rglob("*.json")
    stat = path.stat()
    Answers(folder, "which?").keep(ANSWER)
    path.write_text("[]")
    os.utime(path, ns=(stat.st_atime_ns, stat.st_mtime_ns))
    assert kept(folder) is None
    Answers(folder, "which?").keep(ANSWER)
    path.with_name("two.json").write_text("{}")
    assert kept(folder) is None
    Answers(folder, "which?").keep(ANSWER)
    path.unlink()
    assert kept(folder) is None


@pytest.mark.slow
def test_a_damaged_answer_is_made_anew_and_old_ones_go(folder: Path) -> None:
    Answers(folder, "which?").keep(ANSWER)
    (path,) = (user_cache_path("unlearnbench", appauthor=False, opinion=False) / "answers").iterdir()
    whole = path.read_text()
    for damaged in (whole[:-9], "{}", "[]", json.dumps({**json.loads(whole), "text": "forged"})):
        path.write_text(damaged)
        assert kept(folder) is None
    for number in range(MOST + 3):
        Answers(folder, number).keep(ANSWER)
    assert len(list(path.parent.iterdir())) == MOST


def test_other_settings_of_the_environment_are_another_question(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Answers(folder, "which?").keep(ANSWER)
    monkeypatch.setenv("UNLEARNBENCH_PLUGINS", "unlearnbench")
    assert kept(folder) is None


def test_report_answers_a_second_time_without_reading_records(command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert command("run", "-m", "steady", *ONCE, "--out", "out").code == 0
    monkeypatch.setattr(report_tables, "MANY", 1)
    first = command("report", "out")
    assert first.err.startswith("reading ")
    monkeypatch.setattr(report_tables, "_answer", lambda *given: pytest.fail("records were read"))
    second = command("report", "out")
    assert (second.code, second.out, second.err) == (0, first.out, "")
