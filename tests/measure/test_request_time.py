"""Time that a method hides: in its answers, or from the clock."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, command, install, records_of
from measure_samples import clock_by_hand
from plugin_samples import Write
from record_samples import make_record

from unlearnbench.measure.request_time import answers_like_training, holds_first_answers, request_seconds
from unlearnbench.report.frame.frame import frame_of
from unlearnbench.report.tables.index import build_tables

__all__ = ["clock_by_hand", "command", "install"]

HIDING = """
import time

from measure_samples import CLOCK
from ub_toys import Steady

from unlearnbench import hookimpl


class Postponing(Steady):
    '''Trains for a second whenever it is asked for anything, and unlearns at once.'''

    name = "postponing"

    def fit(self, task):
        super().fit(task)
        CLOCK.move(1)

    def state(self):
        CLOCK.move(1)
        return super().state()

    def predict(self, query):
        CLOCK.move(1)
        return super().predict(query)


class Stopping(Steady):
    '''Stops the clocks of the module `time` while it forgets.'''

    name = "stopping"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        names = ("perf_counter", "monotonic", "time")
        clocks = [getattr(time, name) for name in names]
        sleep, now = time.sleep, time.perf_counter()
        for name in names:
            setattr(time, name, lambda: now)
        sleep(0.2)
        for name, clock in zip(names, clocks):
            setattr(time, name, clock)


class Holding(Steady):
    '''Changes the clock that it is measured by.'''

    name = "holding"

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        tools = retained.listener._instruments
        now = tools.clock()
        tools.clock = lambda: now
        time.sleep(0.2)


@hookimpl
def register_unlearners(register):
    for cls in (Postponing, Stopping, Holding):
        register(cls)
"""


@pytest.fixture
def recorded(command: Any, install: Write, tmp_path: Path) -> Any:
    """Give a function that runs a method once, and gives its record and what was printed."""
    install("ub-hiding", HIDING)

    def run(method: str) -> Any:
        told = command("run", "-m", method, *ONCE, "--no-reference", "--out", str(tmp_path / "out"))
        ((_, record),) = records_of(tmp_path / "out").items()
        return record, told

    return run


def test_training_in_every_answer_is_charged_and_named(recorded: Any, clock_by_hand: Any) -> None:
    record, told = recorded("postponing")
    seconds = {row["name"]: row["seconds"] for row in record.phases}
    assert (seconds["unlearn"], seconds["state-second"], seconds["predict-second"]) == (0, 1, 1)
    assert record.unlearn_seconds == pytest.approx(2)
    assert [note.partition(" took")[0] for note in record.notes if "anew" in note] == ["state()", "predict()"]
    assert "postponing: state() or predict() takes about as long as the first training, in 1 records." in " ".join(
        told.out.split()
    )


def test_stopped_clocks_of_the_module_time_hide_nothing(recorded: Any) -> None:
    record, _ = recorded("stopping")
    assert record.status == "ok"
    assert record.unlearn_seconds >= 0.2


def test_a_clock_that_was_changed_is_named(recorded: Any) -> None:
    record, _ = recorded("holding")
    assert record.status == "refused"
    assert record.notes[0].startswith("The clock was changed: ")
    assert record.unlearn_seconds is None


def rows(**seconds: float) -> list[dict[str, Any]]:
    return [{"name": name.replace("_", "-"), "seconds": value} for name, value in seconds.items()]


def test_the_request_is_all_up_to_the_first_answers_whatever_the_second_take() -> None:
    phases = rows(fit=2.0, unlearn=1.0, state_first=0.25, state_second=0.25, predict_first=0.5, predict_second=0.5)
    assert request_seconds(phases) == 1.75
    assert list(answers_like_training(phases)) == []
    assert list(answers_like_training([*phases, *rows(predict_second=0.5)])) == [("predict()", 1.0, 2.0)]
    assert request_seconds(rows(unlearn=1.0)) is None
    assert (
        request_seconds([*rows(unlearn=1.0, state_first=0.1), {**rows(predict_first=1.0)[0], "failed": True}]) is None
    )
    # Too short to be told from what any call costs.
    assert list(answers_like_training(rows(fit=0.01, predict_first=0.04))) == []


def test_a_sum_of_rounded_phases_still_holds_the_first_answers() -> None:
    phases = rows(unlearn=0.0720004, state_first=0.0000454, predict_first=0.0000454)
    rounded = [{**row, "seconds": round(row["seconds"], 6)} for row in phases]
    seconds = round(request_seconds(phases), 6)
    assert seconds != round(request_seconds(rounded), 6)
    assert holds_first_answers(seconds, rounded) is True
    assert holds_first_answers(0.072, rounded) is False
    assert holds_first_answers(0.072, rows(unlearn=0.072)) is None


def test_a_table_names_times_of_two_meanings() -> None:
    answers = rows(fit=2.5, unlearn=1.0, state_first=0.25, predict_first=0.25)
    old = [make_record("retrain", r, phases=answers, seconds=1.0) for r in range(2)]
    new = [make_record("sisa", r, phases=answers, seconds=1.5) for r in range(2)]

    def notes(records: list[Any]) -> list[str]:
        (table,) = build_tables(frame_of(records), "time")
        return [note for note in table.notes if "first answers" in note]

    assert notes(old) == notes(new) == []
    (note,) = notes([*old, *new])
    assert note.startswith("2 of 4 records are from before the first answers were charged to the request")
