"""From settings to the records of audits: the same grid, store and resuming as those of a run."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import asdict, replace

from torch import Tensor

from unlearnbench.audits.base import Audit, Finding
from unlearnbench.audits.subject import Memory, Subject
from unlearnbench.cells import Cell
from unlearnbench.component import Spec
from unlearnbench.config import RunConfig
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.execution import Compute, Plan, choose_wanted, make_plan, take_shard
from unlearnbench.graph import Graph
from unlearnbench.needs import check_needs
from unlearnbench.plugins import Catalogue
from unlearnbench.record import Record
from unlearnbench.resolve import resolve
from unlearnbench.runner import Arrays, Outcome, Surroundings, measured
from unlearnbench.task import Silent

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
    check_needs(list(found.values()))
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
    plan = make_plan(config.model_copy(update={"overwrite": "always"}), catalogue)
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
    choose_wanted(plan, config.overwrite)
    return take_shard(plan, config.shard)


def auditor(catalogue: Catalogue) -> Compute:
    """Make what computes the record of an audit's cell.

    Args:
        catalogue: Where audits find references and controls.
    """
    memory = Memory()
    here: list[str] = []

    def compute(cell: Cell, graph: Graph, around: Surroundings) -> tuple[Record, Arrays, Mapping[str, Tensor]]:
        subject = Subject(cell, graph, around.device, lambda name: resolve(catalogue, "unlearner", name), memory)
        # One graph's answers at a time: those of all would fill the memory of a long run.
        if here != [cell.dataset_label]:
            memory.forget()
            here[:] = [cell.dataset_label]
        return measured(cell, around, lambda outcome: _examine(subject, outcome))

    return compute


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
                seconds[key] = _timed(Subject(replace(cell, method=method), graph, plan.around.device, find))
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


def _examine(subject: Subject, outcome: Outcome) -> str:
    cell = subject.cell
    assert cell.audit is not None
    audit: Audit = cell.audit.build()
    outcome.fields["requests"] = [{"ids_sha256": subject.request.sha256(), "count": len(subject.request.ids)}]
    method = cell.method.build()
    outcome.fields["claim"] = {"claim": method.claim.value, "reason": method.claim_reason}
    with outcome.meter.phase("audit"):
        finding = audit.examine(subject)
    outcome.fields["audit"] = _plain(finding)
    outcome.arrays |= finding.arrays
    return "ok"


def _plain(finding: Finding) -> dict[str, object]:
    return {
        "verdict": finding.verdict,
        "scores": [asdict(score) for score in finding.scores],
        "details": dict(finding.details),
        "notes": list(finding.notes),
    }
