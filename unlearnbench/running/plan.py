"""From settings to a plan: look everything up, check everything, find out which cells are missing."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch

from unlearnbench.datasets.base import data_root
from unlearnbench.errors import NothingMatchedError
from unlearnbench.graph import Graph
from unlearnbench.measure.allocator import steady_allocator
from unlearnbench.measure.machine import describe_machine
from unlearnbench.measure.provenance import provenance
from unlearnbench.protocol import Protocol
from unlearnbench.records.record import DamagedRecordError, Record
from unlearnbench.records.store import Policy, Store
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.running.cell import Cell
from unlearnbench.running.config import RunConfig
from unlearnbench.running.device import choose_device
from unlearnbench.running.lookup import (
    available_metrics,
    check_cells,
    chosen_datasets,
    chosen_methods,
    chosen_models,
    load_graphs,
    without_duplicates,
)
from unlearnbench.running.outcome import RunContext


@dataclass(frozen=True)
class Progress:
    """Where a run is: told before a cell (without a record) and after it (with one)."""

    cell: Cell
    number: int
    total: int
    record: Record | None = None


@dataclass
class Plan:
    """All cells of a run, checked, and which of them are to be computed.

    Args:
        cells: Every cell of the grid.
        wanted: Those to be computed, in the order they will be.
        graphs: The datasets by label.
        store: Where records go.
        context: What all cells share.
        config: The settings it was made of.
        machine: What the machine is.
        save_state: Where deployed parameters go, if anywhere.
        notices: What a user should be told.
    """

    cells: list[Cell]
    wanted: list[Cell]
    graphs: dict[str, Graph]
    store: Store
    context: RunContext
    config: RunConfig
    machine: dict[str, Any]
    save_state: Path | None = None
    notices: list[str] = field(default_factory=list)


def make_plan(config: RunConfig, catalogue: Catalogue) -> Plan:
    """Look everything up and check everything, before any training.

    Raises:
        UsageError: An unknown name, a setting out of range, a device that is absent, a module that
            a component needs and that is not there, a request or a number of shards that does not
            fit a dataset.
        NothingMatchedError: There is no cell.
    """
    device = choose_device(config.device, elsewhere=config.backend != "local" and config.distribute == "cells")
    torch.set_num_threads(config.threads)
    allocator = steady_allocator()
    forget, training = config.forget_amount(), config.training_settings()
    methods = chosen_methods(config, catalogue)
    models = chosen_models(config, catalogue)
    datasets = without_duplicates(chosen_datasets(config, catalogue))
    metrics, left_out = available_metrics(catalogue)
    if not (methods and models and datasets):
        raise NothingMatchedError("There is nothing to run.", "Name at least one method, dataset and model.")
    check_requirements([*datasets, *models, *methods])
    graphs, said = load_graphs(datasets, data_root(config.data_root), config.offline, config.skip_missing)
    datasets = [dataset for dataset in datasets if dataset.label in graphs]
    cells = []
    for dataset in datasets:
        checksum = graphs[dataset.label].checksum()
        rules = Protocol(
            config.protocol, forget=forget, own_split=graphs[dataset.label].split is not None, poison=config.poison()
        )
        for model in models:
            for repetition in config.repetition_numbers():
                cells += [
                    Cell(rules, dataset, checksum, model, method, training, repetition,
                         config.base_seed(), device.type)
                    for method in methods
                ]  # fmt: skip
    check_cells(cells, graphs)
    machine = describe_machine()
    versions = {"plugins": catalogue.versions(), **provenance(), "allocator": allocator}
    context = RunContext(device, config.threads, machine["id"], metrics, versions, deterministic=config.deterministic)
    plan = Plan(cells, [], graphs, Store(config.out, machine["id"]), context, config, machine, config.save_state)
    plan.notices += said + left_out
    select_missing(plan, config.overwrite)
    return plan


def join_plans(plans: Sequence[Plan]) -> Plan:
    """Make one plan of several grids that go to one store: each cell and each dataset once.

    Args:
        plans: At least one, made with the same store, device and threads.
    """
    whole = replace(plans[0], cells=[], wanted=[], graphs={}, notices=[])
    keys: set[str] = set()
    for plan in plans:
        whole.graphs = {**plan.graphs, **whole.graphs}
        whole.notices += [notice for notice in plan.notices if notice not in whole.notices]
        new = {cell.key for cell in plan.cells} - keys
        whole.cells += [cell for cell in plan.cells if cell.key in new]
        whole.wanted += [cell for cell in plan.wanted if cell.key in new]
        keys |= new
    return whole


def select_missing(plan: Plan, overwrite: Policy) -> None:
    """Find out which cells of a plan are to be computed, and say which records cannot be read.

    Args:
        plan: Its `wanted` and `notices` are set.
        overwrite: What to compute again.
    """
    plan.wanted = [
        cell
        for cell in plan.cells
        if plan.store.wanted(cell.key, overwrite)
        # A state is not in the record: a cell that lacks it is computed again, unless that is forbidden.
        or (
            plan.save_state is not None and overwrite != "never" and not state_path(plan.save_state, cell.key).is_file()
        )
    ]
    plan.notices += [f"{error.message} The cell is computed anew." for error in plan.store.problems]
    plan.store.problems.clear()
    plan.notices += _made_by_other_versions(plan)


def _made_by_other_versions(plan: Plan) -> list[str]:
    """Say which records that stand were made with other versions of the plugins they are about.

    The key of a cell holds the versions of components, which their authors bump when numbers change;
    that of a distribution changes for any reason, and only a reader can tell for which.
    """
    here = plan.context.provenance["plugins"]
    wanted = {cell.key for cell in plan.wanted}
    counts: Counter[str] = Counter()
    for cell in plan.cells:
        record = None
        with contextlib.suppress(DamagedRecordError):  # told where records are gathered
            record = None if cell.key in wanted else plan.store.find(cell.key)
        made = {} if record is None else record.provenance.get("plugins") or {}
        for name in sorted(cell.distributions() & made.keys()):
            if made[name] != here.get(name):
                counts[f"made with {name} {made[name]}, not {here.get(name)}"] += 1
    return [
        f"{count} records that are there were {how}; they are kept: --overwrite always computes them anew."
        for how, count in counts.items()
    ]


def state_path(folder: Path, key: str) -> Path:
    """Give the path of a cell's deployed parameters."""
    return folder / f"{key}.pt"


def take_shard(plan: Plan, shard: tuple[int, int] | None) -> Plan:
    """Leave one part of a plan's cells: the same cells on every machine, whatever is there already.

    Cells are split by repetition first, so that methods that are compared stay together where
    there are repetitions enough.

    Args:
        plan: All cells of a run.
        shard: `(i, n)`: the i-th of n parts, counted from 1; None: all cells.

    Raises:
        NothingMatchedError: There are fewer cells than parts, and this one has none.
    """
    if shard is None:
        return plan
    part, parts = shard
    ordered = sorted(range(len(plan.cells)), key=lambda at: plan.cells[at].repetition)
    chosen = sorted(ordered[(part - 1) * len(ordered) // parts : part * len(ordered) // parts])
    if not chosen:
        raise NothingMatchedError(
            f"--shard {part}/{parts}: there are {len(ordered)} cells, and none of them falls to this part.",
            f"Use at most {len(ordered)} parts.",
        )
    cells = [plan.cells[at] for at in chosen]
    keys = {cell.key for cell in cells}
    return replace(plan, cells=cells, wanted=[cell for cell in plan.wanted if cell.key in keys])
