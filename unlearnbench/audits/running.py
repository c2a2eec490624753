"""From settings to the records of audits: the same grid, store and resuming as those of a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from unlearnbench.audits.base import Audit
from unlearnbench.audits.subject import Subject
from unlearnbench.component import Spec
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.config import RunConfig
from unlearnbench.running.plan import Plan, make_plan, select_missing, take_shard
from unlearnbench.task.training import Silent

ALL = "all"


def chosen_audits(names: Sequence[str], catalogue: Catalogue) -> list[Spec]:
    """Look audits up; `all` names every one that is there.

    Args:
        names: Brackets.
        catalogue: Where components are found.

    Returns:
        The audits in the order they are to be run in, each once.

    Raises:
        UsageError: An unknown name or parameter.
    """
    wanted = [one for name in names for one in (catalogue.names("audit") if name == ALL else [name])]
    found: dict[str, Spec] = {}
    for name in wanted:
        spec = resolve(catalogue, "audit", name)
        found.setdefault(spec.label, spec)
    check_requirements(list(found.values()))
    return sorted(found.values(), key=lambda spec: (spec.cls.order, spec.label))


def make_audit_plan(config: RunConfig, names: Sequence[str], catalogue: Catalogue) -> Plan:
    """Look everything up and check everything, before any training.

    Args:
        config: The grid, as for a run.
        names: The audits: brackets, or `all`.
        catalogue: Where components are found.

    Raises:
        UsageError: As `execution.make_plan`.
        NothingMatchedError: No audit has anything to ask of a method named.
    """
    audits = chosen_audits(names, catalogue)
    if config.forget_kind != "node":
        raise UsageError("Audits ask about forgotten nodes.", "Leave --forget-kind out.")
    # Records of runs are not what is asked for here: with `always` none of them is read or spoken of.
    plan = make_plan(replace(config, overwrite="always"), catalogue)
    cells, unfit = [], Counter[str]()
    for audit in audits:
        examiner: Audit = audit.build()
        for cell in plan.cells:
            reason = examiner.unfit(cell.method)
            if reason:
                unfit[f"{audit.label} is not for {cell.method.label}: {reason}"] += 1
            else:
                cells.append(replace(cell, audit=audit))
    if not cells:
        raise NothingMatchedError("There is nothing to audit.", " ".join(unfit))
    plan.cells = cells
    plan.notices += list(unfit)
    select_missing(plan, config.overwrite)
    return take_shard(plan, config.shard)


class _Stopwatch(Silent):
    """Takes the seconds of the phase `partition`."""

    seconds = 0.0

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        if name == "partition":
            self.seconds += time.perf_counter() - start


def estimate(plan: Plan, find: Callable[[str], Spec], tell: Callable[[str], None]) -> float:
    """Estimate how long the audits of a plan take: each method is run once and timed.

    Args:
        plan: What is to be audited.
        find: Looks a method up by its bracket.
        tell: Called with the name of each method before it is timed.

    Returns:
        Seconds. Answers that audits share are counted every time, so it is rather too high.
    """
    seconds: dict[tuple[str, str, str], tuple[float, float]] = {}
    total = 0.0
    for cell in plan.wanted:
        assert cell.audit is not None
        examiner: Audit = cell.audit.build()
        for label, times in examiner.effort(cell.method).items():
            method = cell.method if label == cell.method.label else find(label)
            key = (cell.dataset_label, cell.model.label, method.label)
            if key not in seconds:
                tell(" ".join(key))
                graph = plan.graphs[cell.dataset_label]
                seconds[key] = _timed(Subject(replace(cell, method=method), graph, plan.context.device, find))
            whole, partition = seconds[key]
            total += times * whole
            if method is cell.method:
                total += examiner.partitions(method) * partition
    return total


def _timed(subject: Subject) -> tuple[float, float]:
    """Run a method once: seconds of the whole, and of its partition alone."""
    watch, start = _Stopwatch(), time.perf_counter()
    task = replace(subject.task(), listener=watch)
    subject.forget(subject.fit(subject.cell.method, task), task)
    return time.perf_counter() - start, watch.seconds
