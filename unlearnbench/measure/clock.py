"""The clock of the harness: seconds and memory peaks of each phase."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

# Held since the import: a method that changes the module `time` changes no reading.
from time import monotonic, perf_counter
from typing import Any

import torch

from unlearnbench.measure.memory import MemorySource, Sizes, gpu_memory, resident_memory
from unlearnbench.measure.nvml import GpuProcessMemory, GpuReading
from unlearnbench.task.training import AfterEpoch, Answer

# How far two clocks may be apart at the end of a phase.
CLOCK_SECONDS, CLOCK_SHARE = 0.01, 0.01

Watch = Callable[[str, int, int], None]
# As `Listener.follow`, with the name of the innermost phase in front.
Follow = Callable[[str, str, int, Sequence[int], Answer], AfterEpoch | None]


def unwatched(phase: str, epoch: int, epochs: int) -> None:
    """Ignore phases and epochs."""


def unfollowed(phase: str, role: str, step: int, networks: Sequence[int], answer: Answer) -> AfterEpoch | None:
    """Follow no training."""
    return None


def synchroniser(device: torch.device) -> Callable[[], None]:
    """Return the call that waits until a device has finished its queued work."""
    if device.type == "cuda":
        return lambda: torch.cuda.synchronize(device)
    if device.type == "mps":
        return torch.mps.synchronize
    return lambda: None


@dataclass
class Instruments:
    """How a meter waits for the device, and what it reads; at the end of outermost phases the driver's figure too.

    `control` is a second clock that the first one must agree with; None: there is none.
    """

    synchronise: Callable[[], None]
    clock: Callable[[], float]
    resident: MemorySource
    gpu: MemorySource
    gpu_process: Callable[[], GpuReading]
    control: Callable[[], float] | None = None

    def read(self) -> tuple[float, float, float]:
        """Read the clock, and the second one before and after: this process may be interrupted in between."""
        control = self.control or (lambda: 0.0)
        return control(), self.clock(), control()

    @classmethod
    def of(cls, device: torch.device) -> Instruments:
        """Choose the instruments for a device."""
        driver = GpuProcessMemory(device)
        return cls(synchroniser(device), perf_counter, resident_memory(), gpu_memory(device), driver.read, monotonic)


@dataclass
class _Open:
    """A running phase."""

    row: dict[str, Any]
    peaks: Sizes = field(default_factory=dict)

    def fold(self, sizes: Sizes) -> None:
        for key, value in sizes.items():
            known = self.peaks.get(key)
            # A peak that could not be read once is unknown.
            unknown = key in self.peaks and (known is None or value is None)
            self.peaks[key] = None if unknown or value is None else value if known is None else max(known, value)


class Meter:
    """The `Listener` of a task (`unlearnbench.task.task`): measures its phases, sums its counts.

    A phase is timed from call to return, with the device synchronised before both readings of the
    clock. Its memory peak starts at its beginning; a phase inside another one has its own peak, and
    the outer peak is the largest of its own and those inside. A meter is for one thread.

    The watch is called with the name of each phase before its clock starts, 0 and 0; and for each epoch in it with
    the name, the number from 1 and the number of epochs. `follow` is asked at the start of each training.

    Attributes:
        clock_fault: How two clocks differed over a phase; empty if they agreed.
    """

    def __init__(
        self,
        device: torch.device,
        instruments: Instruments | None = None,
        watch: Watch = unwatched,
        follow: Follow = unfollowed,
    ) -> None:
        self.device = device
        self.counts: dict[str, int] = {}
        self.reasons: dict[str, str] = {}
        self._instruments = Instruments.of(device) if instruments is None else instruments
        self._watch, self._follow = watch, follow
        self._rows: list[dict[str, Any]] = []
        self._stack: list[_Open] = []
        self._memory = (self._instruments.resident, self._instruments.gpu)
        self.clock_fault = ""
        for source in self._memory:
            self.reasons.update(source.reasons)

    @property
    def phases(self) -> list[dict[str, Any]]:
        """The finished phases, in the order they began.

        Each is `{"name", "seconds", "start_rss_mib", "peak_rss_mib", "start_gpu_mib",
        "peak_gpu_mib", "peak_gpu_reserved_mib"}`; outermost ones have `gpu_process_mib` too.
        Sizes are in MiB, None where `reasons` says why. A phase that an exception ended has
        `"failed": True`. The same name twice is two rows.
        """
        return [dict(row) for row in self._rows if "seconds" in row]

    @property
    def sources(self) -> dict[str, str]:
        """The sources of the sizes: `{"rss": "vmhwm" or "sampled", "gpu": "torch" or "none"}`."""
        return {"rss": self._instruments.resident.name, "gpu": self._instruments.gpu.name}

    def seconds(self, name: str) -> float | None:
        """Sum the seconds of all phases of a name that did not fail; None if there was none."""
        seconds = [row["seconds"] for row in self.phases if row["name"] == name and "failed" not in row]
        return sum(seconds) if seconds else None

    def count(self, **amounts: int) -> None:
        """Add to named counts."""
        for name, amount in amounts.items():
            self.counts[name] = self.counts.get(name, 0) + int(amount)

    def epoch(self, number: int, total: int) -> None:
        """Report to the watch that an epoch of the innermost phase begins."""
        self._watch(self._innermost, number, total)

    def follow(self, role: str, step: int, networks: Sequence[int], answer: Answer) -> AfterEpoch | None:
        """Return what to call after each epoch of a training in the innermost phase; None: nothing."""
        return self._follow(self._innermost, role, step, networks, answer)

    @property
    def _innermost(self) -> str:
        return self._stack[-1].row["name"] if self._stack else ""

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measure the enclosed work under this name; inside another phase, under `outer/name`."""
        opened = self._begin(name)
        tools = self._instruments
        seconds = None
        try:
            tools.synchronise()
            start = tools.read()
            try:
                yield
            finally:
                tools.synchronise()
                end = tools.read()
                seconds = end[1] - start[1]
                self._check_clocks(seconds, end[0] - start[2], end[2] - start[0])
        except BaseException:
            opened.row["failed"] = True
            raise
        finally:
            self._end(opened, seconds)

    def _check_clocks(self, seconds: float, least: float, most: float) -> None:
        slack = CLOCK_SECONDS + CLOCK_SHARE * most
        if self._instruments.control and not least - slack <= seconds <= most + slack:
            self.clock_fault = f"{seconds:.3f} s by one clock, {most:.3f} s by another"

    def _begin(self, name: str) -> _Open:
        outer = self._stack[-1] if self._stack else None
        if outer is not None:
            # The reset below would lose what the outer phase has used so far.
            outer.fold(self._peaks())
        opened = _Open({"name": f"{outer.row['name']}/{name}" if outer else name})
        self._watch(opened.row["name"], 0, 0)
        for source in self._memory:
            opened.row.update(source.reset())
        self._stack.append(opened)
        self._rows.append(opened.row)
        return opened

    def _end(self, opened: _Open, seconds: float | None) -> None:
        self._stack.pop()
        opened.row["seconds"] = seconds
        opened.fold(self._peaks())
        opened.row.update(opened.peaks)
        if self._stack:
            self._stack[-1].fold(opened.peaks)
            return
        reading = self._instruments.gpu_process()
        opened.row["gpu_process_mib"] = reading.mib
        if reading.reason:
            self.reasons["gpu_process_mib"] = reading.reason
        for source in self._memory:
            source.rest()
            self.reasons.update(source.reasons)

    def _peaks(self) -> Sizes:
        sizes: Sizes = {}
        for source in self._memory:
            sizes.update(source.peak())
        return sizes
