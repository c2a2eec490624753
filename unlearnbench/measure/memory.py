"""Memory peaks: resident memory of the process, and torch's counters of a CUDA device.

Sizes are in MiB. What cannot be read is None, never 0, and the source gives the reason.
"""

from __future__ import annotations

import contextlib
import mmap
import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from functools import cache
from pathlib import Path
from typing import ClassVar

import psutil
import torch

MIB = float(2**20)
SAMPLING_SECONDS = 0.005
PROBE_BYTES = 32 * 2**20

Sizes = dict[str, float | None]


class MemorySource(ABC):
    """A peak of memory that can be read and reset.

    Attributes:
        name: Its name in records.
        reasons: Field to the reason why it cannot be read; empty if all can.
    """

    name: ClassVar[str]
    reasons: Mapping[str, str] = {}

    @abstractmethod
    def reset(self) -> Sizes:
        """Reset the peak to what is in use now, and return that, fields `start_*`."""

    @abstractmethod
    def peak(self) -> Sizes:
        """Return the peak since the last reset, fields `peak_*`."""

    def rest(self) -> None:  # noqa: B027
        """Stop watching until the next reset, where something has to be stopped."""


class HighWaterMark(MemorySource):
    """The kernel's peak of the resident set on Linux, which can be reset (proc(5), `clear_refs` and `VmHWM`).

    The kernel updates it at every page fault, so that no peak between two readings is missed.
    """

    name = "vmhwm"

    def __init__(self, folder: Path = Path("/proc/self")) -> None:
        self._status = folder / "status"
        self._clear = folder / "clear_refs"

    def reset(self) -> Sizes:
        """Set the peak to what is resident now."""
        self._clear.write_text("5")
        return {"start_rss_mib": self._read("VmRSS")}

    def peak(self) -> Sizes:
        """Return the peak since the last reset."""
        return {"peak_rss_mib": self._read("VmHWM")}

    def works(self) -> bool:
        """Whether the peak can be read and falls when reset: some kernels and sandboxes ignore resets."""
        try:
            before = self._read("VmHWM")
            with mmap.mmap(-1, PROBE_BYTES) as probe:
                for page in range(0, PROBE_BYTES, mmap.PAGESIZE):
                    probe[page] = 1
            raised = self._read("VmHWM")
            self.reset()
            fallen = self._read("VmHWM")
        except (OSError, ValueError):
            return False
        half = PROBE_BYTES / MIB / 2
        # An earlier peak may be above the probe: then it does not rise.
        return raised >= before and raised - fallen >= half

    def _read(self, field: str) -> float:
        for line in self._status.read_text(encoding="utf-8", errors="replace").splitlines():
            key, _, value = line.partition(":")
            if key == field:
                return float(value.split()[0]) * 1024 / MIB
        raise ValueError(f"{self._status} has no field {field}.")


class SampledRss(MemorySource):
    """The largest resident set seen by a thread that samples every few milliseconds.

    A peak shorter than the interval can be missed. The thread runs only between `reset` and `rest`.
    """

    name = "sampled"

    def __init__(self, seconds: float = SAMPLING_SECONDS) -> None:
        self._process: psutil.Process | None = None
        self._seconds = seconds
        # Largest sizes seen by the thread and by its owner, without a lock that a forked process could inherit held.
        self._seen = [0, 0]
        self._enough = threading.Event()
        self._thread: threading.Thread | None = None

    def reset(self) -> Sizes:
        """Set the peak to what is resident now, and start sampling."""
        now = self._resident()
        self._seen = [now, now]
        if self._thread is None:
            self._enough.clear()
            self._thread = threading.Thread(target=self._watch, name="unlearnbench-rss", daemon=True)
            self._thread.start()
        return {"start_rss_mib": now / MIB}

    def peak(self) -> Sizes:
        """Return the largest size seen since the last reset."""
        self._look(self._seen, 1)
        return {"peak_rss_mib": max(self._seen) / MIB}

    def rest(self) -> None:
        """Stop the thread."""
        if self._thread is not None:
            self._enough.set()
            self._thread.join()
            self._thread = None

    def _resident(self) -> int:
        if self._process is None:
            self._process = psutil.Process()
        return int(self._process.memory_info().rss)

    def _look(self, seen: list[int], place: int) -> None:
        seen[place] = max(seen[place], self._resident())

    def _watch(self) -> None:
        while not self._enough.wait(self._seconds):
            with contextlib.suppress(OSError, psutil.Error):  # the next reading of the meter says so
                self._look(self._seen, 0)


@cache
def _mark_works() -> bool:
    # Cached: the kernel stays the same, and the probe touches 32 MiB.
    return HighWaterMark().works()


class Fallible(MemorySource):
    """A source of resident memory that may fail: then the peak is unknown from there on, and nothing else fails."""

    def __init__(self, source: MemorySource) -> None:
        self._source = source
        self.name = source.name  # type: ignore[misc]
        self.reasons: dict[str, str] = dict(source.reasons)

    def reset(self) -> Sizes:
        """Reset the peak, if it can be read."""
        return self._read(self._source.reset, "start_rss_mib")

    def peak(self) -> Sizes:
        """Return the peak since the last reset, None if it cannot be read."""
        return self._read(self._source.peak, "peak_rss_mib")

    def rest(self) -> None:
        """Stop watching until the next reset."""
        self._source.rest()

    def _read(self, call: Callable[[], Sizes], field: str) -> Sizes:
        if not self.reasons:
            try:
                return call()
            except Exception as error:  # a sandbox may hide /proc in any way
                reason = f"resident memory cannot be read ({type(error).__name__}: {error})"
                self.reasons = dict.fromkeys(("start_rss_mib", "peak_rss_mib"), reason)
        return {field: None}


def resident_memory() -> MemorySource:
    """Return the best source on this machine: the kernel's peak where it works, else samples."""
    return Fallible(HighWaterMark() if _mark_works() else SampledRss())


class CudaMemory(MemorySource):
    """Torch's counters of one CUDA device: memory in tensors, and memory reserved by its allocator."""

    name = "torch"

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def reset(self) -> Sizes:
        """Set both peaks to what is in use now."""
        torch.cuda.reset_peak_memory_stats(self._device)
        return {"start_gpu_mib": torch.cuda.memory_allocated(self._device) / MIB}

    def peak(self) -> Sizes:
        """Return both peaks since the last reset."""
        return {
            "peak_gpu_mib": torch.cuda.max_memory_allocated(self._device) / MIB,
            "peak_gpu_reserved_mib": torch.cuda.max_memory_reserved(self._device) / MIB,
        }


class NoGpu(MemorySource):
    """The source where no GPU is used: every field is None, for one reason."""

    name = "none"

    def __init__(self, reason: str) -> None:
        fields = ("start_gpu_mib", "peak_gpu_mib", "peak_gpu_reserved_mib")
        self.reasons = dict.fromkeys(fields, reason)

    def reset(self) -> Sizes:
        """Return None."""
        return {"start_gpu_mib": None}

    def peak(self) -> Sizes:
        """Return None for both peaks."""
        return {"peak_gpu_mib": None, "peak_gpu_reserved_mib": None}


def gpu_memory(device: torch.device) -> MemorySource:
    """Return the source for a device: torch's counters on CUDA, `NoGpu` elsewhere."""
    return CudaMemory(device) if device.type == "cuda" else NoGpu(f"computed on {device.type}")
