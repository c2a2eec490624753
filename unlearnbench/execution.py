"""From settings to records: look everything up, check everything, then run what is missing."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from unlearnbench import protocol
from unlearnbench.cells import Cell, canonical_json
from unlearnbench.config import RunConfig, make_config
from unlearnbench.datasets.base import data_root
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.files import write_whole
from unlearnbench.graph import Graph
from unlearnbench.inputs import (
    chosen_datasets,
    chosen_methods,
    chosen_models,
    distinct,
    load_graphs,
    usable_metrics,
)
from unlearnbench.measure.allocator import steady_allocator
from unlearnbench.measure.machine import describe_machine
from unlearnbench.measure.provenance import provenance
from unlearnbench.needs import check_needs
from unlearnbench.plugins import Catalogue, load_catalogue, report_problems
from unlearnbench.process_state import own_process_state
from unlearnbench.protocol import Protocol
from unlearnbench.record import DamagedRecordError, Record
from unlearnbench.runner import Arrays, Surroundings, run_cell
from unlearnbench.store import Policy, Store
from unlearnbench.warmup import warm_up

Compute = Callable[[Cell, Graph, Surroundings], tuple[Record, Arrays, Mapping[str, Tensor]]]


@dataclass
class Plan:
    """All cells of a run, checked, and which of them are to be computed.

    Args:
        cells: Every cell of the grid.
        wanted: Those to be computed, in the order they will be.
        graphs: The datasets by label.
        store: Where records go.
        around: What all cells share.
        save_state: Where deployed parameters go, if anywhere.
        notices: What a user should be told.
    """

    cells: list[Cell]
    wanted: list[Cell]
    graphs: dict[str, Graph]
    store: Store
    around: Surroundings
    machine: dict[str, Any]
    save_state: Path | None = None
    notices: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Progress:
    """Where a run is: told before a cell (without a record) and after it (with one)."""

    cell: Cell
    number: int
    total: int
    record: Record | None = None


def make_plan(config: RunConfig, catalogue: Catalogue) -> Plan:
    """Look everything up and check everything, before any training.

    Raises:
        UsageError: An unknown name, a setting out of range, a device that is absent, a module that
            a component needs and that is not there, a request or a number of shards that does not
            fit a dataset.
        NothingMatchedError: There is no cell.
    """
    device = choose_device(config.device)
    torch.set_num_threads(config.threads)
    allocator = steady_allocator()
    forget, training = config.forget_amount(), config.training_settings()
    methods = chosen_methods(config, catalogue)
    models = chosen_models(config, catalogue)
    datasets = distinct(chosen_datasets(config, catalogue))
    metrics, left_out = usable_metrics(catalogue)
    if not (methods and models and datasets):
        raise NothingMatchedError("There is nothing to run.", "Name at least one method, dataset and model.")
    check_needs([*datasets, *models, *methods])
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
    _check_cells(cells, graphs)
    machine = describe_machine()
    versions = {"plugins": catalogue.versions(), **provenance(), "allocator": allocator}
    around = Surroundings(device, config.threads, machine["id"], metrics, versions, deterministic=config.deterministic)
    plan = Plan(cells, [], graphs, Store(config.out, machine["id"]), around, machine, config.save_state)
    plan.notices += said + left_out
    choose_wanted(plan, config.overwrite)
    return plan


def joined(plans: Sequence[Plan]) -> Plan:
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


def choose_wanted(plan: Plan, overwrite: Policy) -> None:
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
            plan.save_state is not None
            and overwrite != "never"
            and not _state_path(plan.save_state, cell.key).is_file()
        )
    ]
    plan.notices += [f"{error.message} The cell is computed anew." for error in plan.store.problems]


def execute(
    plan: Plan, tell: Callable[[Progress], None] = lambda progress: None, compute: Compute = run_cell
) -> list[Record]:
    """Compute the cells that are wanted, one after the other, each saved as it ends.

    Args:
        plan: What to run.
        tell: Called before and after each cell.
        compute: What is done for a cell.

    Returns:
        The records of all cells of the plan that have one, in the plan's order: an outcome
        where there is one, else the failure of this run.
    """
    plan.store.save_machine(plan.machine)
    plan.store.clean()
    failures: dict[str, Record] = {}
    warmed: set[str] = set()
    for number, cell in enumerate(plan.wanted, start=1):
        tell(Progress(cell, number, len(plan.wanted)))
        kind = canonical_json([cell.method.canonical(), cell.model.canonical()])
        if kind not in warmed:
            warmed.add(kind)
            try:
                with own_process_state(0, plan.around.device, plan.around.deterministic):
                    warm_up(cell, plan.around.device)
            except (Exception, SystemExit) as error:  # the cell itself will fail the same way, and its record says how
                print(f"note: warming up {cell.method.label} failed: {error}", file=sys.stderr)
        record, arrays, state = compute(cell, plan.graphs[cell.dataset_label], plan.around)
        if record.is_failure:
            plan.store.save_failure(record)
            failures[record.key] = record
            if record.status == "oom" and plan.around.device.type == "cuda":
                torch.cuda.empty_cache()
        else:
            plan.store.save(record, arrays)
            if plan.save_state is not None:
                _keep_state(state, _state_path(plan.save_state, record.key))
        tell(Progress(cell, number, len(plan.wanted), record))
    found = [failures.get(cell.key) or _standing(plan.store, cell.key) for cell in plan.cells]
    return [record for record in found if record is not None]


def _standing(store: Store, key: str) -> Record | None:
    try:
        return store.find(key)
    except DamagedRecordError as error:  # told already when the plan was made; the other records are sound
        print(f"note: {error.message}", file=sys.stderr)
        return None


def _state_path(folder: Path, key: str) -> Path:
    return folder / f"{key}.pt"


def _keep_state(state: Mapping[str, Tensor], path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    content = io.BytesIO()
    torch.save({name: value.cpu() for name, value in state.items()}, content)
    write_whole(path, content.getvalue())


def run(methods: Sequence[Any] | str, **settings: Any) -> list[Record]:
    """Run a grid and give its records: `unlearnbench run` from Python.

    Args:
        methods: Brackets, or one text with commas.
        **settings: Keys of `config.RunConfig`: `datasets`, `models`, `repetitions`, `out`, ...

    Returns:
        One record a cell, those of earlier runs too.

    Raises:
        UsageError: Something was asked for that cannot be done; nothing was started.
    """
    config = make_config({"methods": methods, **settings}, "unlearnbench.run")
    catalogue = load_catalogue(disable=config.disable_plugins)
    report_problems(catalogue)
    return execute(make_plan(config, catalogue))


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
                f"same_as: {record.label} and {other.label} deployed the same parameters in repetition"
                f" {record.cell['repetition']} on {record.cell['dataset']['name']}."
            )
    return notices


def choose_device(name: str) -> torch.device:
    """Choose where to compute.

    Raises:
        UsageError: The device does not exist here; the message lists what does.
    """
    present = ["cpu", *(f"cuda:{index}" for index in range(torch.cuda.device_count()))]
    if name == "auto":
        return torch.device(present[1] if len(present) > 1 else "cpu")
    wanted = "cuda:0" if name == "cuda" else name
    if wanted not in present:
        raise UsageError(f"--device {name}: there is no such device here.", f"Present: {', '.join(present)}.")
    return torch.device(wanted)


def _check_cells(cells: Sequence[Cell], graphs: dict[str, Graph]) -> None:
    training_nodes: dict[tuple[str, int], int] = {}
    for cell in cells:
        graph, name, repetition = graphs[cell.dataset_label], cell.dataset_identity, cell.repetition
        if (name, repetition) not in training_nodes:
            setting = protocol.setting(cell.protocol, graph, cell.seed, name, repetition)
            training_nodes[name, repetition] = len(setting.split.train)
        kind = cell.protocol.forget.kind
        if kind not in cell.method.cls.forgets:
            raise UsageError(f"{cell.method.label} does not forget {kind}s.", f"Leave it out, or --forget-kind {kind}.")
        num_shards = getattr(cell.method.params, "num_shards", 1)
        if num_shards > training_nodes[name, repetition]:
            raise UsageError(
                f"{cell.method.label}: {num_shards} shards for the {training_nodes[name, repetition]} training nodes"
                f" of {cell.dataset_label}.",
                "Use a smaller --num-shards.",
            )
