"""Clocks, memories and drivers of GPUs whose readings are known."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch

from unlearnbench.measure import clock
from unlearnbench.measure.clock import Instruments, Meter
from unlearnbench.measure.memory import NoGpu, Sizes
from unlearnbench.measure.nvml import GpuReading

CPU = torch.device("cpu")


class FakeMemory:
    """A heap with a peak, as a kernel or an allocator keeps it."""

    name = "fake"

    def __init__(self, calls: list[str] | None = None) -> None:
        self.reasons: dict[str, str] = {}
        self.used = self.most = 0.0
        self.calls = [] if calls is None else calls

    def use(self, mib: float) -> None:
        self.used = mib
        self.most = max(self.most, mib)

    def reset(self) -> Sizes:
        self.calls.append("reset")
        self.most = self.used
        return {"start_rss_mib": self.used}

    def peak(self) -> Sizes:
        self.calls.append("peak")
        return {"peak_rss_mib": self.most}

    def rest(self) -> None:
        self.calls.append("rest")


def fake_meter(memory: FakeMemory, calls: list[str] | None = None) -> Meter:
    log = [] if calls is None else calls
    ticks = iter(range(1000))

    def clock() -> float:
        log.append("clock")
        return float(next(ticks))

    tools = Instruments(lambda: log.append("sync"), clock, memory, NoGpu("none here"), lambda: GpuReading(None, "none"))
    return Meter(CPU, tools)


class FakeNvmlError(Exception):
    pass


class FakeNotFoundError(FakeNvmlError):
    pass


class FakeInvalidError(FakeNvmlError):
    pass


class FakeNotSupportedError(FakeNvmlError):
    pass


class FakeNvml:
    """A driver with GPUs `{uuid: [(pid, bytes or None), ...]}`, in the order of the bus."""

    NVMLError = FakeNvmlError
    NVMLError_NotFound = FakeNotFoundError
    NVMLError_InvalidArgument = FakeInvalidError
    NVMLError_NotSupported = FakeNotSupportedError

    def __init__(self, gpus: dict[str, list[tuple[int, int | None]]], supported: bool = True) -> None:
        self.gpus = gpus
        self.supported = supported
        self.opened = 0

    def nvmlInit(self) -> None:  # noqa: N802
        self.opened += 1

    def nvmlDeviceGetHandleByUUID(self, uuid: str) -> str:  # noqa: N802
        if uuid not in self.gpus:
            raise FakeNotFoundError("Not Found")
        return uuid

    def nvmlDeviceGetComputeRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        if not self.supported:
            raise FakeNotSupportedError("Not Supported")
        return [SimpleNamespace(pid=pid, usedGpuMemory=used) for pid, used in self.gpus[handle]]

    def nvmlDeviceGetGraphicsRunningProcesses(self, handle: str) -> list[Any]:  # noqa: N802
        raise FakeNotSupportedError("Not Supported")

    def nvmlDeviceGetCount(self) -> int:  # noqa: N802
        return len(self.gpus)

    def nvmlDeviceGetHandleByIndex(self, index: int) -> str:  # noqa: N802
        return list(self.gpus)[index]

    def nvmlDeviceGetName(self, handle: str) -> bytes:  # noqa: N802
        return f"Model {handle[-1]}".encode()

    def nvmlSystemGetDriverVersion(self) -> bytes:  # noqa: N802
        if not self.supported:
            raise FakeNotSupportedError("Not Supported")
        return b"570.1"


class HandClock:
    """A clock that moves only when it is told to."""

    now = 100.0

    def read(self) -> float:
        return self.now

    def move(self, seconds: float) -> None:
        self.now += seconds


class FakeGpu(FakeMemory):
    """As `FakeMemory`, with the fields of a GPU."""

    name = "torch"

    def reset(self) -> Sizes:
        super().reset()
        return {"start_gpu_mib": self.used}

    def peak(self) -> Sizes:
        return {"peak_gpu_mib": self.most, "peak_gpu_reserved_mib": self.most + 2}


# What a method of a made-up plugin moves and fills, and what the harness reads in its place.
CLOCK = HandClock()
GPU = FakeGpu()


@pytest.fixture
def clock_by_hand(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    """Let the harness read `CLOCK`."""
    for name in ("perf_counter", "monotonic"):
        monkeypatch.setattr(clock, name, CLOCK.read)
    return CLOCK


@pytest.fixture
def gpu_by_hand(monkeypatch: pytest.MonkeyPatch) -> FakeGpu:
    """Let the harness read `GPU`, whatever the device."""
    monkeypatch.setattr(clock, "gpu_memory", lambda device: GPU)
    GPU.use(0)
    return GPU
