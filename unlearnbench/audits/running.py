"""Plans of audits, with the same grid, store and resuming as runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

from unlearnbench.audits.base import Audit
from unlearnbench.audits.subject import Subject
from unlearnbench.component import Spec
from unlearnbench.errors import NothingMatchedError
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.running.config import RunConfig
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.running.plan import Plan, make_plan, select_missing, take_shard
from unlearnbench.task.training import Silent

ALL = "all"


def chosen_audits(names: Sequence[str], catalogue: Catalogue) -> list[Spec]:
    """Return the audits of these brackets in the order to run them, each once; `all` names every registered one.

    Raises:
        UsageError: An unknown name or parameter.
    """
    wanted = [one for name in names for one in (catalogue.names("audit") if name == ALL else [name])]
    specs = {spec.label: spec for spec in (resolve(catalogue, "audit", name) for name in wanted)}
    check_requirements(list(specs.values()))
    return sorted(specs.values(), key=lambda spec: (spec.cls.order, spec.label))


def make_audit_plan(config: RunConfig, names: Sequence[str], catalogue: Catalogue) -> Plan:
    """Look up and check everything before any training: the grid as for a run, and audits by bracket or `all`.

    Raises:
        UsageError: As `make_plan`.
        NothingMatchedError: No audit applies to a named method.
    """
    audits = chosen_audits(names, catalogue)
    # Records of runs do not matter here: with `always` none of them is read or mentioned.
    plan = make_plan(replace(config, overwrite="always"), catalogue)
    recipes = {
        (cell.dataset_label, cell.model.label): cell.training for cell in plan.cells if cell.method.name == REFERENCE
    }
    cells: list[Cell] = []
    unfit: dict[tuple[str, str], dict[str, None]] = {}
    for audit in audits:
        examiner: Audit = audit.build()
        for cell in plan.cells:
            reason = examiner.unfit(cell.method)
            if config.forget_kind not in audit.cls.kinds:
                reason = f"it asks about requests of {' and '.join(sorted(audit.cls.kinds))}s"
            # A cell has one recipe, with which the audit trains Retrain too.
            if cell.training != recipes.get((cell.dataset_label, cell.model.label), cell.training):
                reason = "it was tuned with another recipe than Retrain; audit it with `protocol` www24"
            if reason:
                unfit.setdefault((audit.label, reason), {})[cell.method.label] = None
            else:
                cells.append(replace(cell, audit=audit))
    told = [f"{label} is not for {', '.join(methods)}: {reason}" for (label, reason), methods in unfit.items()]
    if not cells:
        raise NothingMatchedError("There is nothing to audit.", " ".join(f"{one}." for one in told))
    plan.cells = cells
    plan.notices += told
    select_missing(plan, config.overwrite)
    return take_shard(plan, config.shard)


class _Stopwatch(Silent):
    """Measures the seconds of the phase `partition`."""

    seconds = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if name == "partition":
            self.seconds += time.perf_counter() - start


def estimate(plan: Plan, find: Callable[[str], Spec], on_predicted: Callable[[str], None]) -> dict[str, float]:
    """Estimate how many seconds each cell of a plan takes, by running and timing each method once.

    `on_predicted` is called with the name of each before. Runs of references and controls, which cells of an audit
    share, count in the first of them; what different audits share counts every time, so that it is an overestimate.

    Returns:
        Seconds by the key of a cell.
    """
    seconds: dict[tuple[str, str, str], tuple[float, float]] = {}
    of_cell, known = dict[str, float](), set[tuple[str, str, str, int, str]]()
    for cell in plan.wanted:
        assert cell.audit is not None
        examiner: Audit = cell.audit.build()
        total = 0.0
        for label, times in examiner.effort(cell.method).items():
            shared = (cell.audit.label, cell.dataset_label, cell.model.label, cell.repetition, label)
            if label != cell.method.label and shared in known:
                continue
            known.add(shared)
            method = cell.method if label == cell.method.label else find(label)
            key = (cell.dataset_label, cell.model.label, method.label)
            if key not in seconds:
                on_predicted(" ".join(key))
                graph = plan.graphs[cell.dataset_label]
                seconds[key] = _timed(Subject(replace(cell, method=method), graph, plan.context.device, find))
            full, partition = seconds[key]
            total += times * full
            if method is cell.method:
                total += examiner.partitions(method) * partition
        of_cell[cell.key] = total
    return of_cell


def start_longest_first(plan: Plan, seconds: Mapping[str, float]) -> None:
    """Order what is wanted by what `estimate` returned, so that no process waits for a long cell at the end."""
    plan.wanted.sort(key=lambda cell: -seconds[cell.key])


def _timed(subject: Subject) -> tuple[float, float]:
    """Run a method once; return the seconds of the run and of its partition."""
    watch, start = _Stopwatch(), time.perf_counter()
    task = replace(subject.task(), listener=watch)
    subject.forget(subject.fit(subject.cell.method, task), task)
    return time.perf_counter() - start, watch.seconds
