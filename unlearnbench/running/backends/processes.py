"""Runs each cell in a process of its own.

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
from pathlib import Path
from time import perf_counter
from typing import IO, Any

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.measure.request_time import HARNESS_PHASES
from unlearnbench.records.record import Record
from unlearnbench.running.backends.order import CellOrder
from unlearnbench.running.backends.received import (
    Ended,
    Received,
    backend_name,
    read_received,
    record_ended,
    report_end,
    save_received,
)
from unlearnbench.running.backends.sealed import seal
from unlearnbench.running.cell import Cell
from unlearnbench.running.cell_codec import cell_to_plain
from unlearnbench.running.learning_curves import scored_curves
from unlearnbench.running.plan import Plan, Progress
from unlearnbench.running.runner import cell_data, score_arrays

WORKER = "unlearnbench.running.backends.worker"
# How long a process that ran out of time has to write its traceback.
TRACEBACK_SECONDS = 5.0
# How much of a process's output is kept and shown.
OUTPUT_BYTES = 100_000


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
        backend=backend_name(plan),
        python_path=os.environ.get("PYTHONPATH"),
        shared=None if shared is None or cell.runs_foreign_code() else str(shared),
    )


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
