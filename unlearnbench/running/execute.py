"""Compute the cells of a plan and save their records."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Callable, Generator, Iterable, Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unlearnbench import messages
from unlearnbench.component import canonical_json
from unlearnbench.graph import Graph, Split
from unlearnbench.hookspecs import SESSION
from unlearnbench.records.record import DamagedRecordError, Record
from unlearnbench.records.states import State
from unlearnbench.records.states import save_state as write_state
from unlearnbench.records.store import Store, remove_temporaries
from unlearnbench.running.backends.dask_cells import run_on_dask
from unlearnbench.running.backends.dask_members import members_on_dask
from unlearnbench.running.backends.processes import run_in_processes
from unlearnbench.running.backends.received import save_outcome
from unlearnbench.running.cell import Cell
from unlearnbench.running.outcome import Arrays, RunContext
from unlearnbench.running.plan import Plan, Progress, state_path
from unlearnbench.running.process_guard import guarded_process
from unlearnbench.running.runner import WARM_UP_SIZES, run_cell, warm_up

Compute = Callable[[Cell, Graph, RunContext], tuple[Record, Arrays, Mapping[str, Tensor]]]


def execute(
    plan: Plan, on_progress: Callable[[Progress], None] = lambda progress: None, compute: Compute = run_cell
) -> list[Record]:
    """Compute the cells that are wanted, each saved as it ends.

    One after the other in this process by `compute`, the members on the workers of a cluster if the
    plan's settings say so; or each in a process of its own, here or on such workers.

    Returns:
        The records of all cells of the plan that have one, in the plan's order: an outcome
        where there is one, else the failure of this run.

    Raises:
        WriteError: A record cannot be written, the disk is full for instance; what was saved
            before is whole.
    """
    plan.store.save_machine(plan.machine)
    if plan.wanted:
        plan.store.check_writable()
    plan.store.clean()
    if plan.save_state is not None:
        remove_temporaries(plan.save_state)
    if plan.config.backend == "dask" and plan.config.distribute == "cells":
        made = run_on_dask(plan, on_progress)
    else:
        made = _run_on_this_machine(plan, on_progress, compute)
    # Closed at once where this is interrupted: no process may go on.
    with contextlib.closing(made):
        failures = {}
        for record in made:
            plan.on_record(record)
            if record.is_failure:
                failures[record.key] = record
    records = [failures.get(cell.key) or _standing(plan.store, cell.key) for cell in plan.cells]
    return [record for record in records if record is not None]


def _run_on_this_machine(
    plan: Plan, on_progress: Callable[[Progress], None], compute: Compute
) -> Generator[Record, None, None]:
    here, apart = split_by_place(plan)
    total = len(plan.wanted)
    yield from _run_here(replace(plan, wanted=here), lambda one: on_progress(replace(one, total=total)), compute)
    yield from run_in_processes(
        replace(plan, wanted=apart),
        lambda one: on_progress(replace(one, number=one.number + len(here), total=total)),
    )


def split_by_place(plan: Plan) -> tuple[list[Cell], list[Cell]]:
    """Return the wanted cells for this process, and those for processes of their own."""
    config = plan.config
    if config.is_isolated:
        return [], plan.wanted
    if not plan.isolate_foreign or config.isolate is not None or config.distribute == "members":
        return plan.wanted, []
    places: tuple[list[Cell], list[Cell]] = ([], [])
    for cell in plan.wanted:
        places[cell.runs_foreign_code()].append(cell)
    return places


def _run_here(plan: Plan, on_progress: Callable[[Progress], None], compute: Compute) -> Generator[Record, None, None]:
    total, warmed = len(plan.wanted), set[str]()
    needs_cluster = plan.config.distribute == "members" and plan.wanted
    with members_on_dask(plan) if needs_cluster else contextlib.nullcontext(plan.context) as context:
        for number, cell in enumerate(plan.wanted, start=1):
            on_progress(Progress(cell, number, total))
            kind = canonical_json([cell.method.canonical(), cell.model.canonical()])
            graph = plan.graphs[cell.dataset_label]
            if kind not in warmed:
                warmed.add(kind)
                # A network of the session may have layers for one number of features and classes alone.
                fixed = SESSION in cell.model.distributions()
                prepare(cell, context, (graph.num_features, graph.num_classes) if fixed else WARM_UP_SIZES)
            record = do_cell(cell, graph, context, plan.store, plan.save_state, compute, plan.config.keeps_records)
            on_progress(Progress(cell, number, total, record))
            yield record


def prepare(cell: Cell, context: RunContext, sizes: tuple[int, int] = WARM_UP_SIZES) -> None:
    """Warm a method and a model up; a failure is reported, and left to the cell itself."""
    try:
        with guarded_process(0, context.device, context.deterministic):
            warm_up(cell, context.device, sizes)
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # the cell itself will fail the same way, and its record says how
        messages.note(f"warming up {cell.method.shown} failed: {error}")


def do_cell(
    cell: Cell,
    graph: Graph,
    context: RunContext,
    store: Store,
    save_state: Path | None,
    compute: Compute,
    keeps_records: bool = False,
) -> Record:
    """Compute one cell and save its record, and its deployed parameters in the folder `save_state`, if there is one.

    With `keeps_records` learning curves alone are saved beside a record that is there.

    Raises:
        WriteError: Something cannot be written.
    """
    if context.unfinished is None and not context.log:
        context = replace(context, unfinished=store.root)
    record, arrays, state = compute(cell, graph, context)
    if not record.is_failure:
        if save_state is not None:
            write_state(_state_of(cell, record, arrays, state), state_path(save_state, record.key))
        save_outcome(store, record, arrays, keeps_records)
        return record
    store.save_failure(record)
    # What failed may hold its data in circles that would only be found when memory is short.
    gc.collect()
    if context.device.type == "cuda":
        torch.cuda.empty_cache()
    return record


def _standing(store: Store, key: str) -> Record | None:
    try:
        return store.find(key)
    except DamagedRecordError as error:  # reported when the plan was made; the other records are sound
        messages.note(error.message)
        return None


def _state_of(cell: Cell, record: Record, arrays: Arrays, weights: Mapping[str, Tensor]) -> State:
    """Return what is kept of a deployed state; a cell that ended early has less of it, an audit none."""
    nothing = np.empty(0, dtype=np.int64)
    ids = {name: torch.from_numpy(arrays.get(name, nothing)) for name in ("forgotten", "train", "val", "test")}
    partition = torch.from_numpy(arrays["partition"]) if "partition" in arrays else None
    split = Split(ids["train"], ids["val"], ids["test"])
    return State(record.key, record.label, cell.canonical(), weights, ids["forgotten"], split, partition)


def identical(records: Iterable[Record]) -> list[str]:
    """Name methods that are different cells and yet deployed the same parameters bit for bit."""
    seen: dict[str, Record] = {}
    notices = []
    for record in records:
        after = record.digests.get("after")
        if not after:
            continue
        place = [record.cell[key] for key in ("dataset", "model", "repetition", "protocol")]
        key = canonical_json([place, after])
        other = seen.setdefault(key, record)
        if other.key != record.key:
            notices.append(
                f"same_as: {record.shown_name} and {other.shown_name} deployed the same parameters in repetition"
                f" {record.cell['repetition']} on {record.cell['dataset']['name']}."
            )
    return notices
