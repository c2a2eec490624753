"""Whether the times, the memory and the dates of a record agree with each other."""

from __future__ import annotations

import datetime
import math
from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from unlearnbench.measure.load import Load
from unlearnbench.measure.request_time import (
    FIT_PHASES,
    HARNESS_PHASES,
    REQUEST_PHASES,
    ROUNDED,
    holds_first_answers,
    request_seconds,
)
from unlearnbench.records.record import Record
from unlearnbench.running.outcome import SERIAL

# No step of a network is faster than this, on any device.
STEP_SECONDS = 1e-6
EARLIEST = datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)
# By how much the clocks of two machines may differ.
CLOCK = datetime.timedelta(minutes=10)
# Counters of resident memory lag behind, and the size of the machine is rounded.
MEMORY_SLACK = 1.05
_MIB = 1024.0


def timing_problem(record: Record, machine: Mapping[str, Any], now: datetime.datetime) -> str:
    """Return which times, sizes or dates contradict each other or the machine; empty: none."""
    return (
        _phase_problem(record)
        or _nesting_problem(record)
        or _speed_problem(record)
        or _date_problem(record, now)
        or _memory_problem(record, machine)
        or _load_problem(record, machine)
    )


def outermost_seconds(record: Record) -> tuple[float, ...]:
    """Return the seconds of the phases that are in no other one; no two cells ever have the same."""
    return tuple(float(phase["seconds"] or 0.0) for phase in record.phases if _is_outermost(record, phase["name"]))


def _is_outermost(record: Record, name: str) -> bool:
    return name in HARNESS_PHASES or (record.is_audit and "/" not in name)


def _phase_problem(record: Record) -> str:
    names = tuple(phase["name"] for phase in record.phases)
    if record.is_audit or record.status == "refused":
        return ""
    expected = FIT_PHASES + len(record.requests) * REQUEST_PHASES
    if tuple(name for name in names if name in HARNESS_PHASES) != expected:
        return f"its phases are not those of a cell: {', '.join(expected)}."
    if any("failed" in phase for phase in record.phases):
        return "a phase of it failed, and yet it has an outcome."
    charged, phases = record.unlearn_seconds, request_seconds(record.phases)
    if charged is None or not holds_first_answers(charged, record.phases):
        return f"unlearn_seconds is {charged}, and the phases from the request to the first answers took {phases}."
    outside = record.provenance.get("process_seconds")
    if outside is not None and math.fsum(outermost_seconds(record)) > outside:
        return f"its phases took longer than its process, {outside} s."
    return ""


def _nesting_problem(record: Record) -> str:
    """Compare each phase with the sum of those inside it."""
    inside: defaultdict[str, float] = defaultdict(float)
    outside: defaultdict[str, float] = defaultdict(float)
    for phase in record.phases:
        name, seconds = phase["name"], float(phase["seconds"] or 0.0)
        outside[name] += seconds
        if "/" in name:
            inside[name.rpartition("/")[0]] += seconds
        elif not _is_outermost(record, name):
            inside["fit"] += seconds
    for name, seconds in inside.items():
        if name in outside and seconds > outside[name] * (1 + 1e-9) + ROUNDED * len(record.phases):
            return f"the parts of its phase `{name}` took {seconds} s, all of it {outside[name]} s."
    return ""


def _speed_problem(record: Record) -> str:
    for phase, count in (("fit", "fit_steps"), ("unlearn", "steps")):
        seconds = sum(float(one["seconds"] or 0.0) for one in record.phases if one["name"] == phase)
        steps = record.counts.get(count) or 0
        if seconds < steps * STEP_SECONDS:
            return f"{steps} steps in {seconds} s of `{phase}`: no machine is as fast."
    return ""


def _date_problem(record: Record, now: datetime.datetime) -> str:
    text = record.provenance["started"]
    try:
        started = datetime.datetime.fromisoformat(text)
    except ValueError:
        return f"provenance.started is {text!r}, no date."
    if started < EARLIEST:
        return f"provenance.started is {text}, before there was this benchmark."
    if started + datetime.timedelta(seconds=sum(outermost_seconds(record))) > now + CLOCK:
        return f"provenance.started is {text}, and with its seconds it ends in the future."
    return ""


def _memory_problem(record: Record, machine: Mapping[str, Any]) -> str:
    most = (machine["memory_gib"] + 1) * _MIB
    on_cpu = record.cell["device"] == "cpu"
    if not on_cpu and not machine["gpus"]:
        return f"it was computed on {record.cell['device']}, and the machine has no GPU."
    for phase in record.phases:
        sizes: dict[str, Any] = {**phase}
        name = phase["name"]
        start, peak = sizes.get("start_rss_mib"), sizes.get("peak_rss_mib")
        if peak is not None and not 1 <= peak <= most:
            return f"peak_rss_mib of `{name}` is {peak}; the machine has {machine['memory_gib']} GiB."
        if start is not None and peak is not None and start > peak * MEMORY_SLACK:
            return f"peak_rss_mib of `{name}` is {peak}, less than the {start} at its start."
        gpu = [key for key, value in sizes.items() if "gpu" in key and value is not None]
        if on_cpu and gpu:
            return f"{gpu[0]} of `{name}` is {sizes[gpu[0]]}, and it was computed on the CPU."
    return ""


def _load_problem(record: Record, machine: Mapping[str, Any]) -> str:
    known = record.provenance
    quiet = Load(None, None, known["other_cores"]).is_exclusive()
    if known["exclusive"] is not (known["backend"] == SERIAL and quiet):
        what = f"backend {known['backend']} and {known['other_cores']} cores of other work"
        return f"provenance.exclusive is {known['exclusive']}, with {what}."
    if (known["other_cores"] or 0) > machine["cores"] * MEMORY_SLACK:
        return f"provenance.other_cores is {known['other_cores']}; the machine has {machine['cores']}."
    if not str(known.get("device", record.cell["device"])).startswith(str(record.cell["device"])):
        return f"provenance.device is {known['device']}, that of the cell {record.cell['device']}."
    return ""
