"""The process of one cell: `python -m unlearnbench.running.backends.worker`; `processes` starts it.

One line of JSON on standard input says what to do; standard input stays open for as long as the
parent lives. One line of JSON on standard output says what came of it: which kind of record was
saved, or an error that is to stop the whole run.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any

from unlearnbench.errors import UnlearnbenchError, UsageError

if TYPE_CHECKING:
    from unlearnbench.running.execute import Compute

ORPHANED = 1
BROKEN = 1


def main() -> None:
    """Do what standard input says, and end whatever threads a method has left."""
    parent, answer = os.fdopen(os.dup(0), "rb"), os.dup(1)
    order = json.loads(parent.readline())
    # What a method prints is no answer, and what it reads is not the parent's.
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    os.dup2(2, 1)
    threading.Thread(target=_end_with, args=(parent,), name="unlearnbench-parent", daemon=True).start()
    # Where it was when it crashed, or when it was told to end because its time was over.
    faulthandler.enable()
    if hasattr(faulthandler, "register"):
        faulthandler.register(signal.SIGTERM, chain=True)
    try:
        said: dict[str, Any] = {"saved": work(order)}
    except UnlearnbenchError as error:
        said = {"error": error.message, "hint": error.hint, "exit_code": error.exit_code}
    except BaseException:  # whatever it is, the parent makes a record of it
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(BROKEN)
    os.write(answer, json.dumps(said).encode() + b"\n")
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)


def work(order: dict[str, Any]) -> str:
    """Compute a cell and save its record.

    Args:
        order: What `isolation` wrote.

    Returns:
        Which record was saved: `outcome` or `failure`.

    Raises:
        UnlearnbenchError: The cell cannot be had here, or its record cannot be written.
    """
    import torch

    from unlearnbench.datasets.base import data_root, load_graph
    from unlearnbench.datasets.raw import offline
    from unlearnbench.measure.allocator import steady_allocator
    from unlearnbench.records.store import Store
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.running.cell_codec import cell_from_plain
    from unlearnbench.running.execute import do_cell, prepare
    from unlearnbench.running.lookup import available_metrics
    from unlearnbench.running.outcome import RunContext
    from unlearnbench.running.runner import run_cell

    steady_allocator()
    torch.set_num_threads(order["threads"])
    catalogue = load_catalogue(disable=order["disable_plugins"])
    cell = cell_from_plain(order["cell"], catalogue)
    root = order["data_root"]
    with offline(True):
        graph = load_graph(cell.dataset.build(), data_root(None if root is None else Path(root)))
    if graph.checksum() != cell.checksum:
        raise UsageError(
            f"Dataset {cell.dataset_label} is not the graph it was when the run began.",
            "Something changed its files meanwhile: run the same command again.",
        )
    device = torch.device(order["device"])
    context = RunContext(
        device,
        order["threads"],
        order["machine"],
        available_metrics(catalogue)[0],
        order["provenance"],
        order["backend"],
        order["deterministic"],
    )
    compute: Compute = run_cell
    if cell.audit is not None:
        compute = cell.audit.cls.auditor(catalogue)
    prepare(cell, context)
    state = order["save_state"]
    store = Store(Path(order["out"]), order["machine"])
    record = do_cell(cell, graph, context, store, None if state is None else Path(state), compute)
    return "failure" if record.is_failure else "outcome"


def _end_with(parent: IO[bytes]) -> None:
    """Wait until the parent is gone, then end, with everything a method has forked."""
    while parent.read(1):
        pass
    if os.name != "nt":
        os.killpg(0, signal.SIGKILL)
    os._exit(ORPHANED)


if __name__ == "__main__":
    main()
