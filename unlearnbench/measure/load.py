"""Measures how much of the machine other work used while a cell ran.

The load average does not show it, since it includes our own work of the last minute. So: the busy
processor time of the whole machine, minus that of this process and its children, divided by the
elapsed seconds. That is the mean number of cores that other work kept busy.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from dataclasses import dataclass

import psutil

BUSY_CORES = 0.5
MEASURABLE_SECONDS = 0.2
COUNTING_ERROR = 0.1


@dataclass(frozen=True)
class Load:
    """The load of the machine while a cell ran.

    `start` and `end` are load averages of the last minute, None where the system has none; `other_cores` is the mean
    number of cores that other work kept busy, None if it is unknown for a `reason`.
    """

    start: float | None
    end: float | None
    other_cores: float | None
    reason: str = ""

    def is_busy(self) -> bool:
        """Whether other work used more than half a core; an unknown load counts as busy."""
        return self.other_cores is None or self.other_cores > BUSY_CORES

    def is_exclusive(self) -> bool:
        """Whether times measured meanwhile may be compared."""
        return not self.is_busy()


def machine_busy_seconds() -> float:
    """Return the processor time that was not idle, over all cores since the machine started.

    Time that a hypervisor gave to other guests (steal) counts as busy.
    """
    times = psutil.cpu_times()
    idle = times.idle + getattr(times, "iowait", 0.0)
    # Linux counts the time of guests in `user` and `nice` already.
    guests = getattr(times, "guest", 0.0) + getattr(times, "guest_nice", 0.0)
    return float(sum(times) - idle - guests)


def own_busy_seconds() -> float:
    """Return the processor time of this process and all its children, including ended ones."""
    process = psutil.Process()
    total = 0.0
    for one in (process, *process.children(recursive=True)):
        try:
            times = one.cpu_times()
        except psutil.Error:
            continue
        total += times.user + times.system + times.children_user + times.children_system
    return total


def load_average() -> float | None:
    """Return the load average of the last minute; None on a system without one."""
    try:
        return os.getloadavg()[0]
    except (AttributeError, OSError):
        return None


class LoadWatch:
    """Watches the busy seconds of the whole machine and of our own work from construction to `finish`."""

    def __init__(
        self,
        machine: Callable[[], float] = machine_busy_seconds,
        own: Callable[[], float] = own_busy_seconds,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        self._machine, self._own, self._clock = machine, own, clock
        self._unread = ""
        self._start_load = load_average()
        self._start = self._read()

    def finish(self) -> Load:
        """Return the load by other work since construction.

        The kernel counts processor time in hundredths of a second, so shares of a core are
        meaningful from a fifth of a second on.
        """
        end_load = load_average()
        end = self._read()
        if self._unread:
            return Load(self._start_load, end_load, None, self._unread)
        machine, own, seconds = (last - first for last, first in zip(end, self._start, strict=True))
        if seconds < MEASURABLE_SECONDS:
            return Load(self._start_load, end_load, None, f"watched for {seconds:.2f} s, too short to tell")
        if machine + COUNTING_ERROR < own / 2:
            # A sandbox that hides processor use must not pass for an idle machine.
            return Load(self._start_load, end_load, None, "the system does not show the use of its processors")
        return Load(self._start_load, end_load, max(0.0, machine - own) / seconds)

    def _read(self) -> tuple[float, float, float]:
        try:
            return self._machine(), self._own(), self._clock()
        except Exception as error:  # a sandbox may hide /proc in any way; a cell does not end for want of its load
            self._unread = f"the use of the processors cannot be read ({type(error).__name__}: {error})"
            return 0.0, 0.0, 0.0
