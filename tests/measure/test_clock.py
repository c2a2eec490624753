"""C1: the device is waited for before both looks at a monotonic clock; nobody pays for the start-up of the process."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import SMALL, command, install, records_of
from measure_samples import CPU, FakeMemory, HandClock, clock_by_hand, fake_meter
from plugin_samples import Write

from unlearnbench.measure.clock import Instruments, synchroniser

__all__ = ["clock_by_hand", "command", "install"]

SLEEPING = """
import torch
from measure_samples import CLOCK
from ub_toys import Steady

from unlearnbench import hookimpl


class Sleeping(Steady):
    name = "sleeping"

    def fit(self, task):
        super().fit(task)
        CLOCK.move(1.0)

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        CLOCK.move(0.2)

    def predict(self, query):
        CLOCK.move(7.0)
        return super().predict(query)


class Starting(Steady):
    '''Takes longer the first time that anything in a process does it.'''

    name = "starting"
    fits = 0

    def fit(self, task):
        super().fit(task)
        CLOCK.move(1.0 if Starting.fits else 50.0)
        Starting.fits += 1


@hookimpl
def register_unlearners(register):
    register(Sleeping)
    register(Starting)
"""


def test_the_device_is_synchronised_before_both_looks_at_the_clock() -> None:
    calls: list[str] = []
    meter = fake_meter(FakeMemory(calls), calls)
    with meter.phase("train"):
        calls.append("work")
    assert calls == ["reset", "sync", "clock", "work", "sync", "clock", "peak", "rest"]


def test_a_device_is_waited_for_by_the_call_of_its_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[Any] = []
    monkeypatch.setattr(torch.cuda, "synchronize", waited.append)
    device = torch.device("cuda", 1)
    synchroniser(device)()
    assert waited == [device]
    synchroniser(CPU)()
    assert waited == [device]


def test_the_clock_never_goes_back() -> None:
    assert Instruments.of(CPU).clock is time.perf_counter
    assert time.get_clock_info("perf_counter").monotonic


@pytest.mark.usefixtures("clock_by_hand")
def test_forgetting_is_timed_apart_from_what_prepares_it_and_from_evaluation(
    command: Any, install: Write, tmp_path: Path
) -> None:
    install("ub-sleeping", SLEEPING)
    arguments = ("--repetitions", "1", "--no-reference", "--out", str(tmp_path / "out"))
    assert command("run", "-m", "sleeping", *SMALL, *arguments).code == 0
    ((_, record),) = records_of(tmp_path / "out").items()
    # The first answers are charged to the request.
    assert record.unlearn_seconds == pytest.approx(0.2 + 7)
    seconds: dict[str, float] = {}
    for phase in record.phases:
        seconds[phase["name"]] = seconds.get(phase["name"], 0) + (phase["seconds"] or 0)
    assert seconds == pytest.approx(
        {"fit": 1, "unlearn": 0.2, "evaluate": 42, "state-first": 0, "state-second": 0}
        | dict.fromkeys(("predict-first", "predict-second", "predict-full"), 7)
    )


def test_the_first_method_does_not_pay_for_the_start_of_the_process(
    command: Any, install: Write, tmp_path: Path, clock_by_hand: HandClock
) -> None:
    install("ub-sleeping", SLEEPING)
    arguments = ("--repetitions", "2", "--no-reference", "--out", str(tmp_path / "out"))
    assert command("run", "-m", "starting", *SMALL, *arguments).code == 0
    records = records_of(tmp_path / "out")
    fits = [phase["seconds"] for record in records.values() for phase in record.phases if phase["name"] == "fit"]
    assert fits == pytest.approx([1, 1])
    # One warm-up a method and model; it is no cell.
    module = __import__("ub_sleeping")
    assert module.Starting.fits == 3
    assert len(records) == 2
