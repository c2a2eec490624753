"""What came of a cell in another process: its record is read and saved, or one is written of its failure."""

from __future__ import annotations

import signal
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlearnbench.errors import StoppedError
from unlearnbench.records.curve_files import HEAD
from unlearnbench.records.record import Record, Status
from unlearnbench.records.store import Store
from unlearnbench.running.cell import Cell
from unlearnbench.running.outcome import Arrays
from unlearnbench.running.plan import Plan

Received = tuple[Record, Arrays | None]


@dataclass(frozen=True)
class Ended:
    """How the process of a cell ended.

    Args:
        code: Its exit code; -N: ended by signal N.
        answer: What it reported: `{"saved": "outcome" or "failure"}`, or an error that stops the
            run; empty if it reported nothing.
        output: The end of what it wrote to standard error and standard output.
        in_time: Whether it ended by itself within the time limit.
        started: When it was started.
    """

    code: int
    answer: dict[str, Any]
    output: str
    in_time: bool
    started: str


def report_end(ended: Ended) -> None:
    """Print the output of a cell's process.

    Raises:
        UnlearnbenchError: The process met an error that every cell would meet.
    """
    if ended.output:
        print(ended.output, end="" if ended.output.endswith("\n") else "\n", file=sys.stderr)
    if "error" in ended.answer:
        raise StoppedError(ended.answer["error"], ended.answer["hint"], ended.answer["exit_code"])


def read_received(folder: Path, plan: Plan, cell: Cell) -> Received | None:
    """Read what the process of a cell wrote into a folder, with all checks of a store."""
    store = Store(folder, plan.store.machine)
    record = store.find(cell.key) or store.find_failure(cell.key)
    if record is None:
        return None
    if not (store.folder(record) / f"{record.key}.npz").is_file():
        return record, None
    curves = store.curves(record) or {}
    return record, store.arrays(record) | {f"{HEAD}{name}": column for name, column in curves.items()}


def save_received(plan: Plan, received: Received) -> Record:
    """Write what the process of a cell wrote into the store of the run."""
    record, arrays = received
    if record.is_failure:
        plan.store.save_failure(record)
    else:
        save_outcome(plan.store, record, arrays, plan.config.keeps_records)
    return record


def save_outcome(store: Store, record: Record, arrays: Arrays | None, keeps_records: bool) -> None:
    """Save the outcome of a cell; with `keeps_records` learning curves alone, if there is a record already.

    That record keeps its times. If it deployed other parameters, the curves are not those of its training.
    """
    if not keeps_records or not store.has(record.key):
        store.save(record, arrays)
    elif not store.add_curves(record.key, record, arrays or {}):
        print(
            f"note: {record.key}: its record deployed other parameters than this training, whose learning curves are"
            " left out; --overwrite always makes both anew.",
            file=sys.stderr,
        )


def record_ended(plan: Plan, cell: Cell, ended: Ended) -> Record:
    """Save the failure of a cell whose process ended without a record."""
    status: Status
    if ended.in_time:
        status, kind = "killed", "ProcessEnded"
        message = f"Its process ended {_how(ended.code)} before it had a record."
    else:
        seconds = plan.config.cell_timeout
        status, kind = "timeout", "TimeoutError"
        message = f"Its process was ended after {seconds:g} s (--cell-timeout), starting up included."
    return record_lost(plan, cell, status, kind, message, ended.output, exit_code=ended.code, started=ended.started)


def record_lost(
    plan: Plan, cell: Cell, status: Status, kind: str, message: str, output: str = "", **known: Any
) -> Record:
    """Save the failure of a cell that was lost; `known` are further fields of its provenance."""
    context = plan.context
    record = Record(
        key=cell.key,
        status=status,
        label=cell.method.label,
        alias=cell.method.alias,
        cell=cell.canonical(),
        provenance={
            **context.provenance,
            "isolated": True,
            **known,
            **context.torch_settings(),
            "backend": backend_name(plan),
            "machine": context.machine,
        },
        error={"type": kind, "message": message, "traceback": output},
    )
    plan.store.save_failure(record)
    return record


def backend_name(plan: Plan) -> str:
    """Return how cells are run, as records have it."""
    if plan.config.backend != "local":
        return plan.config.backend
    return "processes" if plan.config.jobs > 1 else plan.context.backend


def _how(code: int) -> str:
    """Describe how a process ended; shells and job schedulers write 128 + N for signal N."""
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"with exit code {code}"
    reason = ": the system may have run out of memory" if name == "SIGKILL" else ""
    return f"by signal {number} ({name}{reason})" if code < 0 else f"with exit code {code} (128 + {name}{reason})"
