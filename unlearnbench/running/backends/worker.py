"""The process of one cell: `python -m unlearnbench.running.backends.worker`; `processes` starts it.

Standard input holds the order, one line of JSON, and stays open for as long as the parent lives. The
answer is one line of JSON on standard output: which kind of record was saved, or an error that stops
the run.
"""

from __future__ import annotations

import contextlib
import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from collections.abc import Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from unlearnbench.errors import UnlearnbenchError, UsageError
from unlearnbench.messages import hide_warnings_of_torch
from unlearnbench.running.backends.order import CellOrder
from unlearnbench.running.forks import undone_in_forks

if TYPE_CHECKING:
    from unlearnbench.graph import Graph
    from unlearnbench.running.cell import Cell
    from unlearnbench.running.execute import Compute

ORPHANED = 1
BROKEN = 1


def main() -> None:
    """Carry out the order on standard input; then exit, whatever threads a method has left running."""
    hide_warnings_of_torch()
    parent, answer = os.fdopen(os.dup(0), "rb"), os.dup(1)
    order = CellOrder.from_json(parent.readline())
    sealed = parent.read(order.sealed)
    # What a method starts gets the environment of the run.
    os.environ.pop("PYTHONPATH", None)
    os.environ.update({} if order.python_path is None else {"PYTHONPATH": order.python_path})
    # A method must neither write into the answer nor read from the parent.
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=(parent,), name="unlearnbench-parent", daemon=True).start()
    try:
        with _tracebacks():
            report: dict[str, Any] = {"saved": work(order, sealed)}
    except UnlearnbenchError as error:
        report = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
    except BaseException:  # the parent makes a record of any error
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(BROKEN)
    os.write(answer, json.dumps(report).encode() + b"\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


@contextlib.contextmanager
def _tracebacks() -> Iterator[None]:
    """Write a traceback at a crash of this process, and at the signal sent when the time limit is reached."""
    faulthandler.enable()
    if not hasattr(faulthandler, "register"):
        yield
        return
    faulthandler.register(signal.SIGTERM, chain=True)
    with undone_in_forks(_no_tracebacks, signal.SIGTERM):
        yield


def _no_tracebacks() -> None:
    faulthandler.unregister(signal.SIGTERM)
    faulthandler.disable()


def work(order: CellOrder, sealed: bytes = b"") -> str:
    """Compute a cell, save its record, and return which one that was: `outcome` or `failure`.

    Args:
        order: What to compute.
        sealed: Its data; empty: the dataset is loaded.

    Raises:
        UnlearnbenchError: The cell cannot be computed here, or its record cannot be written.
    """
    import torch

    from unlearnbench.measure.allocator import steady_allocator
    from unlearnbench.records.store import Store
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.running.backends.sealed import unseal
    from unlearnbench.running.cell_codec import cell_from_plain
    from unlearnbench.running.execute import do_cell, prepare
    from unlearnbench.running.lookup import available_metrics
    from unlearnbench.running.outcome import RunContext
    from unlearnbench.running.runner import run_cell, run_unscored

    steady_allocator()
    torch.set_num_threads(order.threads)
    catalogue = load_catalogue(disable=order.disable_plugins)
    cell = cell_from_plain(order.cell, catalogue)
    compute: Compute
    if sealed:
        data = unseal(sealed)
        graph, compute = data.graph, lambda cell, _, context: run_unscored(cell, data, context)
    else:
        graph = _loaded(cell, order)
        compute = run_cell if cell.audit is None else cell.audit.cls.auditor(catalogue, _path(order.shared))
    device = torch.device(order.device)
    metrics, _ = available_metrics(catalogue)
    context = RunContext(
        device, order.threads, order.machine, metrics, order.provenance, order.backend, order.deterministic,
        unfinished=_path(order.unfinished), log=order.log,
    )  # fmt: skip
    prepare(cell, context)
    store = Store(Path(order.out), order.machine)
    record = do_cell(cell, graph, context, store, _path(order.save_state), compute)
    return "failure" if record.is_failure else "outcome"


def _loaded(cell: Cell, order: CellOrder) -> Graph:
    from unlearnbench.datasets.base import data_root, load_graph
    from unlearnbench.datasets.raw import offline

    with offline(True):
        graph = load_graph(cell.dataset.build(), data_root(_path(order.data_root)))
    if graph.checksum() != cell.checksum:
        raise UsageError(
            f"Dataset {cell.dataset_label} is not the graph it was when the run began.",
            "Something changed its files meanwhile: run the same command again.",
        )
    return graph


def _path(text: str | None) -> Path | None:
    return None if text is None else Path(text)


def _end_with(parent: IO[bytes]) -> None:
    """Wait until the parent is gone, then exit and kill whatever a method has forked."""
    while parent.read(1):
        pass
    if os.name != "nt":
        os.killpg(0, signal.SIGKILL)
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
