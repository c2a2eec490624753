"""Runs each cell in a process of its own, and records the cells whose process ended without a record.

The process receives its order as one line of JSON and answers with one line of JSON. A cell of a run gets its
data with the order, without the labels of validation and test nodes: it writes its record and predictions
into a temporary folder, and they are scored here. What came of a cell is written into the store here.
"""

from __future__ import annotations

import contextlib
import datetime
import json
import math
import os
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter
from typing import IO, Any

from unlearnbench.errors import StoppedError, UnlearnbenchError
from unlearnbench.measure.request_time import HARNESS_PHASES
from unlearnbench.records.curve_files import HEAD
from unlearnbench.records.record import Record, Status
from unlearnbench.records.store import Store
from unlearnbench.running.backends.order import CellOrder
from unlearnbench.running.backends.sealed import seal
from unlearnbench.running.cell import Cell
from unlearnbench.running.cell_codec import cell_to_plain
from unlearnbench.running.learning_curves import scored_curves
from unlearnbench.running.outcome import Arrays
from unlearnbench.running.plan import Plan, Progress
from unlearnbench.running.runner import cell_data, score_arrays

WORKER = "unlearnbench.running.backends.worker"
# How long a process that ran out of time has to write its traceback.
TRACEBACK_SECONDS = 5.0
Received = tuple[Record, Arrays | None]
# How much of a process's output is kept and shown.
OUTPUT_BYTES = 100_000


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


def run_in_processes(plan: Plan, report: Callable[[Progress], None]) -> Generator[Record, None, None]:
    """Compute the cells of a plan, each in its own process, and yield their records as they end.

    Raises:
        UnlearnbenchError: A process could not save its record, or has other versions than this
            one. The other processes are ended.
    """
    jobs = plan.config.jobs
    waiting, total, done = list(reversed(plan.wanted)), len(plan.wanted), 0
    running: dict[Future[tuple[Ended, Received | None]], Cell] = {}
    processes = Processes()
    with _shared_folder(plan) as shared, ThreadPoolExecutor(jobs) as threads:
        try:
            while waiting or running:
                while waiting and len(running) < jobs:
                    cell = waiting.pop()
                    report(Progress(cell, done + len(running) + 1, total))
                    running[threads.submit(_computed, plan, cell, processes, shared)] = cell
                for computed in wait(running, return_when=FIRST_COMPLETED).done:
                    cell, done = running.pop(computed), done + 1
                    record = _kept(plan, cell, *computed.result())
                    report(Progress(cell, done, total, record))
                    yield record
        finally:
            processes.end()


@contextlib.contextmanager
def _shared_folder(plan: Plan) -> Iterator[Path | None]:
    """Make a folder in which the audits of a run leave predictions of Retrain and the controls for each other."""
    if not any(cell.audit for cell in plan.wanted):
        yield None
        return
    with tempfile.TemporaryDirectory(prefix="unlearnbench-", ignore_cleanup_errors=True) as name:
        yield Path(name)


class Processes:
    """The running processes; none is started after `end`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._running: set[subprocess.Popen[bytes]] = set()
        self._ended = False

    def run(self, order: CellOrder, seconds: float | None, sealed: bytes = b"") -> Ended:
        """Run a process from start to end, or until `seconds` are over, start-up included; None: without limit."""
        started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
        with tempfile.TemporaryFile() as answer, tempfile.TemporaryFile() as output:
            process = self._start(answer, output)
            if process is None:
                return Ended(-signal.SIGKILL, {}, "", True, started)
            assert process.stdin is not None
            try:
                # It stays open: the process ends when it closes, that is, when this process is gone.
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.write(order.to_json().encode() + b"\n" + sealed)
                    process.stdin.flush()
                in_time = _wait(process, seconds)
            finally:
                _kill(process)
                process.wait()
                with contextlib.suppress(BrokenPipeError):
                    process.stdin.close()
                with self._lock:
                    self._running.discard(process)
            return Ended(process.returncode, _read_answer(answer), _tail(output), in_time, started)

    def end(self) -> None:
        """Kill all running processes, and start no more."""
        with self._lock:
            self._ended = True
            for process in self._running:
                _kill(process)

    def _start(self, answer: IO[bytes], output: IO[bytes]) -> subprocess.Popen[bytes] | None:
        # The same search path, so that the process finds the same components.
        # What is no text, a Path for instance, Python's own search passes over.
        search_path = os.pathsep.join(place or os.getcwd() for place in sys.path if isinstance(place, str))
        with self._lock:
            if self._ended:
                return None
            try:
                process = subprocess.Popen(
                    [sys.executable, "-P", "-m", WORKER],
                    stdin=subprocess.PIPE,
                    stdout=answer,
                    stderr=output,
                    env={**os.environ, "PYTHONPATH": search_path},
                    # A group of its own: Ctrl-C reaches this process alone, and what a method forks can be killed.
                    process_group=None if os.name == "nt" else 0,
                )
            except OSError as error:
                raise UnlearnbenchError(
                    f"No process could be started for a cell: {error.strerror or error}.",
                    "Use fewer `jobs`, or none, and run the same command again: finished cells are kept.",
                ) from error
            self._running.add(process)
            return process


def order_of(plan: Plan, cell: Cell, out: Path | None = None, sealed: int = 0, shared: Path | None = None) -> CellOrder:
    """Return the order for the process of a cell that writes its record into `out`, by default the store.

    In the folder `shared` a method of another distribution could leave anything: its cells do without.
    """
    data_root = plan.config.data_root
    return CellOrder(
        cell=cell_to_plain(cell),
        disable_plugins=plan.config.disable_plugins,
        provenance={**plan.context.provenance, "isolated": True},
        **plan.context.torch_settings(),
        data_root=None if data_root is None else str(data_root.absolute()),
        out=str(out or plan.store.root),
        unfinished=str(plan.store.root) if out and not plan.context.log else None,
        log=plan.context.log,
        sealed=sealed,
        save_state=None if plan.save_state is None else str(plan.save_state),
        machine=plan.context.machine,
        backend=_backend(plan),
        python_path=os.environ.get("PYTHONPATH"),
        shared=None if shared is None or cell.runs_foreign_code() else str(shared),
    )


def _backend(plan: Plan) -> str:
    """Return how cells are run, as records have it."""
    if plan.config.backend != "local":
        return plan.config.backend
    return "processes" if plan.config.jobs > 1 else plan.context.backend


def report_end(ended: Ended) -> None:
    """Print the output of a cell's process.

    Raises:
        UnlearnbenchError: The process met an error that every cell would meet.
    """
    if ended.output:
        print(ended.output, end="" if ended.output.endswith("\n") else "\n", file=sys.stderr)
    if "error" in ended.answer:
        raise StoppedError(ended.answer["error"], ended.answer["hint"], ended.answer["exit_code"])


def _computed(plan: Plan, cell: Cell, processes: Processes, shared: Path | None) -> tuple[Ended, Received | None]:
    """Run the process of a cell, and read and score what it wrote."""
    data = None if cell.audit else cell_data(cell, plan.graphs[cell.dataset_label])
    sealed = b"" if data is None else seal(data)
    with tempfile.TemporaryDirectory(prefix="unlearnbench-") as name:
        started = perf_counter()
        ended = processes.run(order_of(plan, cell, Path(name), len(sealed), shared), plan.config.cell_timeout, sealed)
        seconds = perf_counter() - started
        received = read_received(Path(name), plan, cell) if "saved" in ended.answer else None
    if received is None or data is None:
        return ended, received
    record, arrays = received[0], None if received[1] is None else scored_curves(received[1], data)
    if record.status != "ok":
        return ended, (record, arrays)
    metrics, problems = score_arrays(arrays or {}, data, plan.context.metrics)
    outer = math.fsum(row.get("seconds") or 0 for row in record.phases if row["name"] in HARNESS_PHASES)
    if outer > seconds:
        problems.append(f"Its phases sum to {outer:.3f} s, but its process took {seconds:.3f} s: its times are wrong.")
    fields = {
        "metrics": metrics,
        "notes": [*record.notes, *problems],
        "provenance": {**record.provenance, "scored_outside": True, "process_seconds": seconds},
    }
    return ended, (Record.model_validate({**record.model_dump(), **fields}), arrays)


def _kept(plan: Plan, cell: Cell, ended: Ended, received: Received | None) -> Record:
    """Save what came of a cell; if its process left no record, one of its failure."""
    report_end(ended)
    return record_ended(plan, cell, ended) if received is None else save_received(plan, received)


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
            "backend": _backend(plan),
            "machine": context.machine,
        },
        error={"type": kind, "message": message, "traceback": output},
    )
    plan.store.save_failure(record)
    return record


def _how(code: int) -> str:
    """Describe how a process ended; shells and job schedulers write 128 + N for signal N."""
    number = -code if code < 0 else code - 128
    try:
        name = signal.Signals(number).name
    except ValueError:
        return f"with exit code {code}"
    reason = ": the system may have run out of memory" if name == "SIGKILL" else ""
    return f"by signal {number} ({name}{reason})" if code < 0 else f"with exit code {code} (128 + {name}{reason})"


def _wait(process: subprocess.Popen[bytes], seconds: float | None) -> bool:
    """Wait for a process; one that takes too long is made to write its traceback and to end."""
    try:
        process.wait(seconds)
    except subprocess.TimeoutExpired:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(TRACEBACK_SECONDS)
        return False
    return True


def _kill(process: subprocess.Popen[bytes]) -> None:
    if os.name == "nt":
        process.kill()
        return
    # The group may be gone, or belong to another user by now.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(process.pid, signal.SIGKILL)


def _read_answer(file: IO[bytes]) -> dict[str, Any]:
    try:
        answer = json.loads(_tail(file).rpartition("\n")[0].rpartition("\n")[2])
    except ValueError:
        return {}
    return answer if isinstance(answer, dict) else {}


def _tail(file: IO[bytes]) -> str:
    file.seek(0, os.SEEK_END)
    size = file.tell()
    file.seek(max(0, size - OUTPUT_BYTES))
    return file.read().decode(errors="replace")
