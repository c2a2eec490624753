"""From settings to a plan: look everything up, check everything, find out which cells are missing."""

from __future__ import annotations

import contextlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import product
from pathlib import Path
from typing import Any

import torch

from unlearnbench.component import Spec
from unlearnbench.datasets.base import data_root, little_seen
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
from unlearnbench.running import lookup
from unlearnbench.running.cell import Cell, identity_of
from unlearnbench.running.config import RunConfig
from unlearnbench.running.device import choose_device
from unlearnbench.running.options import TUNED
from unlearnbench.running.outcome import RunContext
from unlearnbench.running.tuned import read_tuned
from unlearnbench.task import Training

# From a method, a model, a dataset and a recipe to the method and the recipe of its cells.
Chooser = Callable[[Spec, Spec, Spec, Training], tuple[Spec, Training]]


@dataclass(frozen=True)
class Progress:
    """How far a run is: reported before a cell (without a record) and after it (with one)."""

    cell: Cell
    number: int
    total: int
    record: Record | None = None


@dataclass
class Plan:
    """All cells of a run, checked, and which of them are to be computed.

    `wanted` are the cells to be computed, in this order; `graphs` the datasets by label; `save_state` the folder
    of deployed parameters; `isolate_foreign` is whether methods and models of others are kept out of this process;
    and `notices` what a user should know. `on_record` is called with each record that was made, once it is saved.
    """

    cells: list[Cell]
    wanted: list[Cell]
    graphs: dict[str, Graph]
    store: Store
    context: RunContext
    config: RunConfig
    machine: dict[str, Any]
    save_state: Path | None = None
    isolate_foreign: bool = False
    notices: list[str] = field(default_factory=list)
    on_record: Callable[[Record], None] = lambda record: None


def make_plan(config: RunConfig | Sequence[RunConfig], catalogue: Catalogue) -> Plan:
    """Look everything up and check everything, before any training.

    Several grids go to one store with the same device and threads: each cell and each dataset is then in
    the plan once.

    Raises:
        UsageError: An unknown name, a setting out of range, a device that is absent, a module that
            a component needs and that is not there, a request or a number of shards that does not
            fit a dataset.
        NothingMatchedError: There is no cell.
    """
    configs = [config] if isinstance(config, RunConfig) else list(config)
    first = configs[0]
    device = choose_device(first.device, elsewhere=first.backend != "local" and first.distribute == "cells")
    torch.set_num_threads(first.threads)
    allocator = steady_allocator()
    grids = [_look_up(each, catalogue) for each in configs]
    metrics, left_out = lookup.available_metrics(catalogue)
    datasets = lookup.without_duplicates(dataset for grid in grids for dataset in grid.datasets)
    graphs, notices = lookup.load_graphs(datasets, data_root(first.data_root), first.offline, first.skip_missing)
    checksums = {label: graph.checksum() for label, graph in graphs.items()}
    cells: dict[str, Cell] = {}
    for grid in grids:
        made = list(grid.cells(graphs, checksums, device))
        lookup.check_cells(made, graphs)
        for cell in made:
            cells.setdefault(cell.key, cell)
    machine = describe_machine()
    # Those that every method of the run has: a record shows which ones belong to it.
    repetitions = sorted(set.intersection(*(set(each.repetition_numbers()) for each in configs)))
    origin = {"plugins": catalogue.versions(), **provenance(), "allocator": allocator, "repetitions": repetitions}
    context = RunContext(device, first.threads, machine["id"], metrics, origin, deterministic=first.deterministic)
    context = replace(context, log=first.log == "curves")
    store = Store(first.out, machine["id"])
    plan = Plan(list(cells.values()), [], graphs, store, context, first, machine, first.save_state)
    plan.notices += notices + left_out
    for each in configs:
        if lookup.ALL in each.methods:
            absent = lookup.fitting_methods(each, catalogue)[1]
            plan.notices += [f"left out of `methods` all: {reason}" for reason in absent if reason not in plan.notices]
    if any(config.setting == "inductive" for config in configs):
        plan.notices += _little_seen(graphs)
    select_missing(plan, first.overwrite)
    return plan


@dataclass(frozen=True)
class _Grid:
    """What the settings of one grid name, looked up; `choose` gives a method its values on a dataset with a model."""

    config: RunConfig
    methods: Sequence[Spec]
    models: Sequence[Spec]
    datasets: Sequence[Spec]
    choose: Chooser

    def cells(self, graphs: Mapping[str, Graph], checksums: Mapping[str, str], device: torch.device) -> Iterator[Cell]:
        """Yield every point of the grid; a dataset that was left out has none."""
        config = self.config
        training, poison, seed = config.training_settings(), config.poison(), config.base_seed()
        for dataset in self.datasets:
            if dataset.label not in graphs:
                continue
            checksum, own_split = checksums[dataset.label], graphs[dataset.label].split is not None
            rules = Protocol(
                config.protocol,
                forget=config.forget_amount(),
                own_split=own_split,
                poison=poison,
                setting=config.setting,
            )
            for model in self.models:
                chosen = [self.choose(method, model, dataset, training) for method in self.methods]
                for repetition, (method, recipe) in product(config.repetition_numbers(), chosen):
                    yield Cell(rules, dataset, checksum, model, method, recipe, repetition, seed, device.type)


def _look_up(config: RunConfig, catalogue: Catalogue) -> _Grid:
    methods, models = lookup.chosen_methods(config, catalogue), lookup.chosen_models(config, catalogue)
    datasets = lookup.without_duplicates(lookup.chosen_datasets(config, catalogue))
    if not (methods and models and datasets):
        raise NothingMatchedError("There is nothing to run.", "Name at least one method, dataset and model.")
    check_requirements([*datasets, *models, *methods])
    if config.is_isolated or config.backend != "local":
        lookup.check_installed([*datasets, *models, *methods])
    return _Grid(config, methods, models, datasets, _chooser(config, catalogue))


def _chooser(config: RunConfig, catalogue: Catalogue) -> Chooser:
    """Return what gives a method its values: tuned ones for the protocol of this name, else those it has."""
    if config.protocol != TUNED:
        return lambda method, model, dataset, training: (method, training)
    values = read_tuned(config.tuned)
    return lambda method, model, dataset, training: values.of(catalogue, method, model, identity_of(dataset), training)


def select_missing(plan: Plan, overwrite: Policy) -> None:
    """Set `wanted`, the cells of a plan that are to be computed, and report records that cannot be read."""
    # A state is not in the record: a cell that lacks it is computed again, unless that is forbidden.
    states = None if overwrite == "never" else plan.save_state
    logs = overwrite != "never" and plan.context.log
    plan.wanted = [
        cell
        for cell in plan.cells
        if plan.store.wanted(cell.key, overwrite)
        or (states is not None and not state_path(states, cell.key).is_file())
        or (logs and not plan.store.has_curves(cell.key))
    ]
    plan.notices += [f"{error.message} The cell is computed anew." for error in plan.store.problems]
    plan.store.problems.clear()
    plan.notices += _made_by_other_versions(plan)


def _little_seen(graphs: Mapping[str, Graph]) -> list[str]:
    """Name the datasets whose own split shows little to inductive training; folds show seven nodes of ten."""
    notes = {label: little_seen(graph, graph.split.train) for label, graph in graphs.items() if graph.split is not None}
    return [
        f"{label}: {note}; `setting` transductive passes messages over all nodes and hides labels alone."
        for label, note in notes.items()
        if note
    ]


def _made_by_other_versions(plan: Plan) -> list[str]:
    """List the existing records that were made with other versions of the plugins they are about.

    The key of a cell holds the versions of components, which their authors bump when numbers change;
    that of a distribution changes for any reason, and only a reader can tell for which.
    """
    here = plan.context.provenance["plugins"]
    wanted = {cell.key for cell in plan.wanted}
    counts: Counter[str] = Counter()
    for cell in plan.cells:
        record = None
        with contextlib.suppress(DamagedRecordError):  # reported where records are gathered
            record = None if cell.key in wanted else plan.store.find(cell.key)
        made = {} if record is None else record.provenance.get("plugins") or {}
        for name in sorted(cell.distributions() & made.keys()):
            if made[name] != here.get(name):
                counts[f"made with {name} {made[name]}, not {here.get(name)}"] += 1
    return [
        f"{count} records that are there were {how}; they are kept: `overwrite` always computes them anew."
        for how, count in counts.items()
    ]


def state_path(folder: Path, key: str) -> Path:
    """Return the path of a cell's deployed parameters."""
    return folder / f"{key}.pt"


def take_shard(plan: Plan, shard: tuple[int, int] | None) -> Plan:
    """Keep the i-th of n parts of a plan's cells: the same cells on every machine, whatever is there already.

    Cells are split by repetition first, so that methods that are compared stay together where
    there are repetitions enough. Parts are counted from 1; None: all cells.

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
            f"`shard` {part}/{parts}: there are {len(ordered)} cells, and none of them falls to this part.",
            f"Use at most {len(ordered)} parts.",
        )
    cells = [plan.cells[at] for at in chosen]
    keys = {cell.key for cell in cells}
    return replace(plan, cells=cells, wanted=[cell for cell in plan.wanted if cell.key in keys])
