"""The outcome of a cell, and the record it becomes, whatever goes wrong."""

from __future__ import annotations

import datetime
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray
from pydantic import ValidationError
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError, StoppedError
from unlearnbench.measure.clock import Follow, Meter, Watch, unfollowed, unwatched
from unlearnbench.measure.load import Load, LoadWatch
from unlearnbench.records.record import Record
from unlearnbench.records.unfinished import unfinished_folder
from unlearnbench.running.cell import Cell
from unlearnbench.running.checkpoints import CellCheckpoints
from unlearnbench.running.learning_curves import OnValues
from unlearnbench.running.process_guard import guarded_process, is_out_of_memory
from unlearnbench.task.task import CheckpointStore

# Cells were computed one after the other: only their times are compared.
SERIAL = "serial"
# Some of a cell's members were trained by an earlier run.
RESUMED = "resumed"
# Callbacks were made, or learning curves kept, while a cell was timed.
WATCHED = "watched"
# A cell's members were trained on a cluster.
MEMBERS = "dask-members"

Arrays = dict[str, NDArray[Any]]


@dataclass(frozen=True)
class RunContext:
    """The context that all cells of a run share.

    If `deterministic`, torch refuses operations whose results may vary from call to call. `watch` is called as
    `Meter` says; `is_timed` is false if it does work of its own there. `log` keeps learning curves, and `on_values` is
    called with the values of each epoch: either makes times worthless. `follow` is as in `Meter`.
    `elsewhere` makes, for a cell, the store that has its members trained elsewhere; None: they are
    trained here. `unfinished` is the results folder for checkpoints of unfinished cells; None: none are written.
    """

    device: torch.device
    threads: int
    machine: str
    metrics: Sequence[Spec]
    provenance: Mapping[str, Any]
    backend: str = SERIAL
    deterministic: bool = False
    watch: Watch = unwatched
    is_timed: bool = True
    log: bool = False
    on_values: OnValues | None = None
    follow: Follow = unfollowed
    elsewhere: Callable[[Cell], CheckpointStore] | None = None
    unfinished: Path | None = None

    def torch_settings(self) -> dict[str, Any]:
        """Return the device, threads and determinism as plain JSON values, as records have them."""
        return {"device": str(self.device), "threads": self.threads, "deterministic": self.deterministic}


@dataclass
class Outcome:
    """The results of a cell so far; after a failure, those from before it.

    `fields` and `notes` are those of the record, `arrays` are stored beside it, and `state` is what is deployed.
    """

    meter: Meter
    arrays: Arrays = field(default_factory=dict)
    fields: dict[str, Any] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)
    state: Mapping[str, Tensor] = field(default_factory=dict)
    checkpoints: CellCheckpoints = field(default_factory=CellCheckpoints)


def measured(
    cell: Cell, context: RunContext, work: Callable[[Outcome], str]
) -> tuple[Record, Arrays, Mapping[str, Tensor]]:
    """Compute a cell by `work`, which fills in an outcome and returns the status, and make its record.

    A failure becomes the record's status.

    Returns:
        As for `run_cell`.

    Raises:
        StoppedError: No other cell could be computed either.
    """
    started = datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")
    watch = LoadWatch()
    meter = Meter(context.device, watch=context.watch, follow=context.follow)
    outcome = Outcome(meter, checkpoints=_checkpoints(cell, context))
    failure = None
    key = seeds.seed(cell.seed, "process", cell.dataset_identity, cell.repetition)
    with guarded_process(key, context.device, context.deterministic) as changed:
        try:
            status = work(outcome)
        except RefusedError as error:
            status = "refused"
            outcome.notes.append(str(error))
        except (KeyboardInterrupt, StoppedError):
            raise
        except BaseException as error:  # a method may fail in any way; the record holds the error
            status = "oom" if is_out_of_memory(error) else "error"
            failure = {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
    outcome.notes += changed
    outcome.notes += outcome.checkpoints.notes
    load = watch.finish()
    provenance = _provenance(context, outcome, load, started)
    outcome.notes += _why_untimed(context)
    if load.reason:
        outcome.notes.append(f"Load of the machine: {load.reason}.")
    fields = {
        "key": cell.key,
        "label": cell.method.label,
        "alias": cell.method.alias,
        "cell": cell.canonical(),
        # Phases inside the first fit lose their prefix: `partition`, `train`, `aggregate`.
        "phases": [{**row, "name": row["name"].removeprefix("fit/")} for row in outcome.meter.phases],
        "provenance": provenance,
        "notes": outcome.notes,
    }
    try:
        record = Record(**fields, **outcome.fields, status=status, error=failure)
    except ValidationError as error:
        # Invalid values reported by a method must cost neither this cell its record nor later cells their turn.
        failure = {"type": type(error).__name__, "message": str(error), "traceback": traceback.format_exc()}
        record = Record(**fields, status="error", error=failure)
    return record, outcome.arrays, outcome.state


def _provenance(context: RunContext, outcome: Outcome, load: Load, started: str) -> dict[str, Any]:
    """Return where and how a cell was computed, and how busy the machine was."""
    backend = context.backend
    if backend == SERIAL:
        is_timed = context.is_timed and not context.log
        backend = RESUMED if outcome.checkpoints.taken else SERIAL if is_timed else WATCHED
    return {
        **context.provenance,
        "started": started,
        **context.torch_settings(),
        "backend": backend,
        "machine": context.machine,
        "load": [load.start, load.end],
        "other_cores": load.other_cores,
        "exclusive": backend == SERIAL and load.is_exclusive(),
        "readings": {"sources": outcome.meter.sources, "reasons": dict(outcome.meter.reasons)},
    }


def _why_untimed(context: RunContext) -> Iterator[str]:
    """Yield the reasons why the times of a cell say nothing."""
    if not context.is_timed:
        yield "Callbacks were made while it was timed (on_phase, on_epoch): it gives no times."
    if context.log:
        yield "Learning curves were kept while it was timed (--log curves): it gives no times."
    if context.backend == MEMBERS:
        yield "Members were trained on a cluster (--distribute members): it gives no times."
    elif context.backend != SERIAL:
        how = "--jobs" if context.backend == "processes" else f"--backend {context.backend}"
        yield f"Other cells of the same run were computed beside this one ({how}): it gives no times."


def _checkpoints(cell: Cell, context: RunContext) -> CellCheckpoints:
    elsewhere = context.elsewhere
    store = None if elsewhere is None else lambda: elsewhere(cell)
    if context.unfinished is None:
        return CellCheckpoints(elsewhere=store)
    facts = {
        "cell": cell.key,
        **{name: context.provenance.get(name) for name in ("python", "packages", "plugins", "git")},
        "machine": context.machine,
        **context.torch_settings(),
    }
    return CellCheckpoints(unfinished_folder(context.unfinished, context.machine, cell.key), facts, store)
