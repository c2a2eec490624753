"""Runs cells on the workers of a dask cluster; only this process writes records."""

from __future__ import annotations

import contextlib
import json
import tempfile
from collections.abc import Callable, Generator, Iterator, Mapping
from pathlib import Path
from typing import Any
from uuid import uuid4

from unlearnbench import messages
from unlearnbench.errors import UnlearnbenchError, UsageError
from unlearnbench.records.files import make_folder, write_whole
from unlearnbench.records.record import Record
from unlearnbench.registry.requirements import require_module
from unlearnbench.running.backends import dask_worker
from unlearnbench.running.backends.processes import order_of
from unlearnbench.running.backends.received import (
    Ended,
    read_received,
    record_ended,
    record_lost,
    report_end,
    save_received,
)
from unlearnbench.running.cell import Cell
from unlearnbench.running.plan import Plan, Progress, state_path

CONNECT_SECONDS = 20
# Cells sent per worker thread: one runs and one waits, so that no thread is idle.
SENT_PER_THREAD = 2
# Protocols that need certificates.
TLS = ("tls://", "wss://")
# The resource of a worker with a GPU: dask worker ... --resources GPU=1
GPU = "GPU"


def run_on_dask(plan: Plan, report: Callable[[Progress], None]) -> Generator[Record, None, None]:
    """Compute the cells of a plan on the workers of its scheduler, and yield their records as they are saved.

    A cell whose worker is lost is computed by another; a cell that has cost as many workers as the
    scheduler allows is recorded as killed.

    Raises:
        UsageError: dask.distributed is not installed, no scheduler answers, or the versions of a worker
            differ.
        UnlearnbenchError: The scheduler is lost, or a record cannot be saved.
    """
    if not plan.wanted:
        return
    with connected(plan) as client:
        yield from _cells(client, plan, report)


@contextlib.contextmanager
def connected(plan: Plan) -> Iterator[Any]:
    """Connect to the scheduler of a plan and check the workers' versions; close the connection at the end.

    Raises:
        UsageError: dask.distributed is not installed, no scheduler answers, or the versions of a worker
            differ.
    """
    need = require_module("distributed", "unlearnbench[dask]")
    if not need.is_met:
        raise UsageError(f"`backend` dask needs the module 'distributed': {need.describe()}.", need.remedy)
    import distributed

    address = plan.config.scheduler
    assert address is not None
    try:
        client = distributed.Client(address, timeout=CONNECT_SECONDS)
    except Exception as error:  # each protocol raises errors of its own, a TypeError where TLS is not set up
        hint = "Start one with `dask scheduler` and give the address it prints, such as tcp://HOST:8786."
        if address.startswith(TLS):
            hint = "Addresses of this kind need certificates and keys in dask's settings, distributed.comm.tls."
        raise UsageError(f"`scheduler` {address}: no dask scheduler answers there ({error}).", hint) from None
    try:
        _check_workers(client, plan)
        yield client
    finally:
        with contextlib.suppress(OSError, TimeoutError):
            client.close(timeout=CONNECT_SECONDS)


def _check_workers(client: Any, plan: Plan) -> None:
    """Check the versions of all workers; those that join later are checked with each cell."""
    versions = client.run(dask_worker.versions, plan.config.disable_plugins, on_error="return")
    if not versions:
        messages.note(f"{plan.config.scheduler} has no worker yet: cells wait for one.")
    for worker, there in versions.items():
        if isinstance(there, BaseException):
            raise UsageError(
                f"Worker {worker} cannot say which versions it has: {type(there).__name__}: {there}.",
                "Install the same unlearnbench there as here.",
            )
        _refuse(worker, dask_worker.version_differences(plan.context.provenance, json.loads(there)))


def _refuse(worker: str, differences: list[str]) -> None:
    if differences:
        raise other_versions(worker, differences)


def other_versions(worker: str, differences: list[str]) -> UsageError:
    """Make the error for a worker whose versions differ."""
    return UsageError(
        f"Worker {worker} has other versions than this side: {'; '.join(differences)}.",
        "Install the same there, start the worker anew, and run the same command again.",
    )


def _cells(client: Any, plan: Plan, report: Callable[[Progress], None]) -> Generator[Record, None, None]:
    import distributed

    waiting, total, done = list(reversed(plan.wanted)), len(plan.wanted), 0
    sent: dict[Any, Cell] = {}
    try:
        while waiting or sent:
            room = SENT_PER_THREAD * max(1, sum(client.nthreads().values()))
            while waiting and len(sent) < room:
                cell = waiting.pop()
                report(Progress(cell, done + len(sent) + 1, total))
                sent[_send(client, plan, cell)] = cell
            for future in distributed.wait(list(sent), return_when="FIRST_COMPLETED").done:
                cell, done = sent.pop(future), done + 1
                record = _received(client, plan, cell, future)
                report(Progress(cell, done, total, record))
                yield record
    except (distributed.CancelledError, distributed.comm.CommClosedError, OSError, TimeoutError) as error:
        raise UnlearnbenchError(
            f"The scheduler {plan.config.scheduler} is lost ({type(error).__name__}: {error}).",
            "Finished cells are kept: run the same command again when there is a scheduler.",
        ) from error
    finally:
        with contextlib.suppress(Exception):  # the scheduler may be gone
            client.cancel(list(sent))


def _send(client: Any, plan: Plan, cell: Cell) -> Any:
    order = order_of(plan, cell).to_json()
    # A unique key, so that dask does not return the result of an earlier run.
    key = f"unlearnbench-{cell.key}-{uuid4().hex}"
    resources = {GPU: 1} if plan.context.device.type == "cuda" else None
    return client.submit(
        dask_worker.compute, order, plan.config.cell_timeout, key=key, pure=False, resources=resources, retries=0
    )


def _received(client: Any, plan: Plan, cell: Cell, future: Any) -> Record:
    """Save the result of a worker for a cell, or the failure if there is none."""
    import distributed

    try:
        answer: Mapping[str, Any] = future.result()
    except distributed.KilledWorker as error:
        return record_lost(plan, cell, "killed", "KilledWorker", f"Every worker that began it was lost. {error}")
    except (ImportError, AttributeError) as error:
        raise UsageError(
            f"A worker cannot compute cells: {type(error).__name__}: {error}.",
            "Install the same unlearnbench there as here.",
        ) from error
    _refuse(f"on machine {answer['machine']}" if answer["machine"] else "that joined later", answer["differences"])
    ended = Ended(**answer["ended"])
    report_end(ended)
    record = _keep(plan, cell, answer["files"]) if "saved" in ended.answer else None
    return record_ended(plan, cell, ended) if record is None else record


def _keep(plan: Plan, cell: Cell, files: Mapping[str, bytes]) -> Record | None:
    """Read a worker's files as a store, with all checks, and write them into the store of the run."""
    with tempfile.TemporaryDirectory(prefix="unlearnbench-") as name:
        folder = Path(name)
        for path, content in files.items():
            if path.startswith("records/") and ".." not in Path(path).parts:
                make_folder((folder / path).parent)
                (folder / path).write_bytes(content)
        received = read_received(folder, plan, cell)
    if received is None:
        return None
    state = files.get(f"state/{state_path(Path(), cell.key).name}")
    if plan.save_state is not None and state is not None and not received[0].is_failure:
        make_folder(plan.save_state)
        write_whole(state_path(plan.save_state, cell.key), state)
    return save_received(plan, received)
