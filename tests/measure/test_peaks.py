"""C2: a peak of memory begins anew with each phase; what was not measured is empty and never 0."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import SMALL, command, csv_rows, install, records_of
from measure_samples import CPU, FakeGpu, FakeMemory, fake_meter, gpu_by_hand
from plugin_samples import Write

from unlearnbench.measure.clock import Meter
from unlearnbench.measure.memory import MIB, CudaMemory, HighWaterMark, SampledRss, gpu_memory
from unlearnbench.task.training import Listener

__all__ = ["command", "gpu_by_hand", "install"]

FILLING = """
from measure_samples import GPU
from ub_toys import Steady

from unlearnbench import hookimpl


class Large(Steady):
    '''Takes 512 MiB for a moment, and keeps one when it forgets.'''

    name = "large"
    mib, left = 512, 1

    def fit(self, task):
        super().fit(task)
        with task.phase("train"):
            self.use(self.mib)

    def unlearn(self, request, retained):
        super().unlearn(request, retained)
        self.use(self.mib / 2)
        GPU.use(GPU.used + self.left)

    def use(self, mib):
        start = GPU.used
        GPU.use(start + mib)
        GPU.use(start)


class Small(Large):
    name = "small"
    mib, left = 64, 0


@hookimpl
def register_unlearners(register):
    register(Large)
    register(Small)
"""
GPU_FIELDS = ("start_gpu_mib", "peak_gpu_mib", "peak_gpu_reserved_mib")


def test_a_phase_starts_with_a_new_peak_and_holds_those_inside_it() -> None:
    memory = FakeMemory()
    meter = fake_meter(memory)
    memory.use(500)
    memory.use(10)
    with meter.phase("outer"):
        memory.use(100)
        memory.use(10)
        with meter.phase("small"):
            memory.use(20)
            memory.use(10)
        with meter.phase("large"):
            memory.use(70)
            memory.use(10)
    with meter.phase("next"):
        memory.use(15)
    peaks = {row["name"]: row["peak_rss_mib"] for row in meter.phases}
    assert peaks == {"outer": 100, "outer/small": 20, "outer/large": 70, "next": 15}
    assert {row["start_rss_mib"] for row in meter.phases} == {10}


def test_the_peak_of_an_inner_phase_is_a_peak_of_the_outer_one() -> None:
    memory = FakeMemory()
    meter = fake_meter(memory)
    with meter.phase("outer"):
        with meter.phase("first"):
            memory.use(90)
            memory.use(1)
        with meter.phase("second"):
            memory.use(2)
    assert [row["peak_rss_mib"] for row in meter.phases] == [90, 90, 2]


def test_a_peak_before_the_innermost_phase_reaches_the_outermost() -> None:
    memory = FakeMemory()
    meter = fake_meter(memory)
    with meter.phase("outer"), meter.phase("middle"):
        memory.use(100)
        memory.use(1)
        with meter.phase("inner"):
            memory.use(2)
    assert [row["peak_rss_mib"] for row in meter.phases] == [100, 100, 2]


def test_without_a_gpu_its_fields_are_empty_with_a_reason() -> None:
    meter = Meter(CPU)
    listener: Listener = meter
    with listener.phase("train"), listener.phase("inner"):
        torch.ones(10)
    for row in meter.phases:
        assert [row[key] for key in ("start_gpu_mib", "peak_gpu_mib", "peak_gpu_reserved_mib")] == [None] * 3
        assert row["peak_rss_mib"] >= row["start_rss_mib"] > 10
    assert meter.phases[0]["gpu_process_mib"] is None
    assert meter.reasons == dict.fromkeys(
        ("start_gpu_mib", "peak_gpu_mib", "peak_gpu_reserved_mib", "gpu_process_mib"), "computed on cpu"
    )
    assert meter.sources["rss"] in ("vmhwm", "sampled")
    assert meter.sources["gpu"] == "none"


@pytest.mark.skipif(sys.platform != "linux", reason="a mark of Linux")
def test_the_kernels_mark_falls_when_reset() -> None:
    if not HighWaterMark().works():
        pytest.skip("this kernel does not reset the mark")
    meter = Meter(CPU)
    assert meter.sources["rss"] == "vmhwm"
    with meter.phase("large"):
        torch.ones(int(96 * MIB) // 4)
    with meter.phase("small"):
        torch.ones(int(8 * MIB) // 4)
    large, small = meter.phases
    assert large["peak_rss_mib"] - large["start_rss_mib"] > 90
    assert small["peak_rss_mib"] - small["start_rss_mib"] < 40


def test_a_sampled_peak_starts_anew_with_each_reset() -> None:
    source = SampledRss()
    source.reset()
    block = bytearray(os.urandom(1)) * int(64 * MIB)
    high = source.peak()["peak_rss_mib"]
    del block
    start = source.reset()["start_rss_mib"]
    low = source.peak()["peak_rss_mib"]
    source.rest()
    assert high is not None
    assert low is not None
    assert start is not None
    assert high - start > 48
    assert low - start < 16


@pytest.mark.cuda
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_peaks_of_a_gpu_are_not_carried_over() -> None:
    device = torch.device("cuda", 0)
    assert gpu_memory(device).reasons == {}
    meter = Meter(device)
    for name, mib in (("large", 512), ("small", 64)):
        with meter.phase(name):
            torch.ones(int(mib * MIB) // 4, device=device)
    large, small = meter.phases
    assert large["peak_gpu_mib"] - large["start_gpu_mib"] >= 512
    assert 64 <= small["peak_gpu_mib"] - small["start_gpu_mib"] < 100
    assert small["peak_gpu_reserved_mib"] >= small["peak_gpu_mib"]
    assert (small["gpu_process_mib"] is None) == ("gpu_process_mib" in meter.reasons)


def test_the_counters_of_a_gpu_are_reset_by_the_call_that_torch_has_now(monkeypatch: pytest.MonkeyPatch) -> None:
    device, calls = torch.device("cuda", 1), []
    for name, value in (("reset_peak_memory_stats", None), ("memory_allocated", 3 * MIB), ("max_memory_allocated",
                        5 * MIB), ("max_memory_reserved", 8 * MIB)):  # fmt: skip
        monkeypatch.setattr(
            torch.cuda, name, lambda where, name=name, value=value: calls.append((name, where)) or value
        )
    memory = CudaMemory(device)
    assert memory.reset() == {"start_gpu_mib": 3}
    assert memory.peak() == {"peak_gpu_mib": 5, "peak_gpu_reserved_mib": 8}
    assert {where for _, where in calls} == {device}
    assert calls[0][0] == "reset_peak_memory_stats"


def test_what_one_method_took_is_no_peak_of_the_next(
    command: Any, install: Write, tmp_path: Path, gpu_by_hand: FakeGpu
) -> None:
    install("ub-filling", FILLING)
    out = tmp_path / "out"
    arguments = ("--repetitions", "1", "--no-reference", "--out", str(out))
    assert command("run", "-m", "large,small", *SMALL, *arguments).code == 0
    records = records_of(out)
    rows = {name: {row["name"]: row for row in record.phases} for (name, _), record in records.items()}
    for name, mib in (("large", 512), ("small", 64)):
        for phase, taken in (("fit", mib), ("train", mib), ("unlearn", mib / 2)):
            row = rows[name][phase]
            assert row["peak_gpu_mib"] - row["start_gpu_mib"] == taken, (name, phase)
            assert row["peak_gpu_reserved_mib"] == row["peak_gpu_mib"] + 2
    # What large kept (once in its warm-up, once in its cell) is there when small begins.
    assert rows["small"]["fit"]["start_gpu_mib"] == 2
    found = csv_rows(command("report", str(out), "--table", "memory", "--format", "csv").out)
    peaks = {row["method"]: float(row["unlearn_peak_gpu_mib"]) for row in found}
    assert peaks == {"large": 1 + 256, "small": 2 + 32}
    for record in records.values():
        assert record.provenance["device"] == "cpu"


def test_on_a_cpu_the_fields_of_a_gpu_are_empty_in_record_and_table(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    told = command("run", "-m", "steady", *SMALL, "--repetitions", "1", "--device", "cpu", "--out", str(out))
    assert told.code == 0
    for record in records_of(out).values():
        assert not any(field in row for row in record.phases for field in GPU_FIELDS)
        assert not set(record.provenance["readings"]["reasons"]) & {*GPU_FIELDS, "gpu_process_mib"}
        assert record.gpu_reason == "computed on cpu"
    for row in csv_rows(command("report", str(out), "--table", "memory", "--format", "csv").out):
        assert (row["unlearn_peak_gpu_mib"], row["fit_peak_gpu_mib"]) == ("", "")
        assert float(row["unlearn_peak_rss_mib"]) > 10
