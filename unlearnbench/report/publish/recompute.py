"""Running cells again: does what a record says come out here too?"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlearnbench.errors import NothingMatchedError, UnlearnbenchError, UsageError
from unlearnbench.measure.machine import describe_machine
from unlearnbench.measure.provenance import provenance
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.report.frame.frame import load_evidence, results_root
from unlearnbench.report.publish.evidence import Graphs
from unlearnbench.report.publish.marks import write_marks
from unlearnbench.report.publish.submitted import too_large
from unlearnbench.report.publish.timing import outermost_seconds
from unlearnbench.running.backends.processes import run_in_processes
from unlearnbench.running.cell_codec import Absent, cell_of_record, json_differences
from unlearnbench.running.config import RunConfig
from unlearnbench.running.device import choose_device
from unlearnbench.running.lookup import available_metrics
from unlearnbench.running.outcome import RunContext
from unlearnbench.running.plan import Plan

# What is the same whenever a cell is computed; times, memory and provenance are not.
COMPARED = ("status", "requests", "claim", "partition", "digests", "metrics", "counts")
# How long a cell may take here: so many times the seconds of its record, and what a process needs to start.
TIMES, ALLOWANCE, MOST_SECONDS = 20.0, 120.0, 86_400.0


@dataclass(frozen=True)
class Recomputed:
    """What came of computing the cell of a record again.

    Args:
        different: Places that differ, with what the record has and what came out here.
        reasons: Why they may differ.
        refusal: Why the cell could not be computed here; empty: it was.
    """

    record: Record
    different: Sequence[tuple[str, Any, Any]] = ()
    reasons: Sequence[str] = ()
    refusal: str = ""

    @property
    def agrees(self) -> bool:
        """Whether it was computed and is the same."""
        return not (self.different or self.refusal)

    def lines(self) -> list[str]:
        """Return it in words: a headline, and what differs and why."""
        cell = self.record.cell
        what = f"{self.record.key} {cell['dataset']['name']} {cell['model']['name']} {self.record.label}"
        what += f" repetition {cell['repetition']} of {self.record.machine}"
        if self.refusal:
            return [f"not computed: {what}: {self.refusal}"]
        if not self.different:
            return [f"the same: {what}"]
        shown = [f"  {place}: {_shown(old)}, here {_shown(new)}" for place, old, new in self.different[:5]]
        more = len(self.different) - len(shown)
        why = "; ".join(self.reasons) or "nothing that is recorded explains it: same kind of machine, same versions"
        shown += [f"  and {more} more"] if more else []
        return [f"different: {what}: {len(self.different)} values", *shown, f"  why it may be: {why}."]


def recompute(
    results: Path,
    number: int,
    seed: int,
    catalogue: Catalogue,
    root: Path | None = None,
    forbid_downloads: bool = False,
    tell: Callable[[Recomputed], None] = lambda one: None,
    cell_timeout: float | None = None,
) -> list[Recomputed]:
    """Draw cells that have a record, compute them again into a temporary folder, and compare; `tell` gets each.

    The same records and seed draw the same cells; all are taken if there are fewer than `number`. Each has a
    process of its own, which is ended after `cell_timeout` seconds, by default after what `time_limit` returns.

    Raises:
        NothingMatchedError: There is no record of a run that came to an outcome.
        UnlearnbenchError: A record cannot be read.
    """
    records = [one for one in load_evidence(results) if not one.is_failure and not one.is_audit]
    if not records:
        raise NothingMatchedError(f"{results}: no records of runs.", "Name the folder they are in.")
    records.sort(key=lambda record: (record.key, record.machine))
    chosen = random.Random(seed).sample(records, min(number, len(records)))
    graphs, found = Graphs(root, forbid_downloads), []
    with tempfile.TemporaryDirectory(prefix="unlearnbench-") as folder:
        for record in chosen:
            try:
                again = _again(record, catalogue, graphs, root, Path(folder), cell_timeout)
            except UnlearnbenchError as error:
                found.append(Recomputed(record, refusal=f"{error.message} {error.hint}".rstrip()))
            else:
                found.append(compare(record, again))
            tell(found[-1])
    return found


def time_limit(record: Record) -> float:
    """Return how many seconds a cell may take: `TIMES` those of its record, and `ALLOWANCE`, a day at most."""
    return min(TIMES * sum(outermost_seconds(record)) + ALLOWANCE, MOST_SECONDS)


def _again(
    record: Record, catalogue: Catalogue, graphs: Graphs, root: Path | None, folder: Path, limit: float | None
) -> Record:
    """Compute the cell of a record in a process of its own.

    Raises:
        UnlearnbenchError: It cannot be computed here.
    """
    if reason := too_large(record):
        raise UsageError(reason, "No record of this package has such a number.")
    cell = cell_of_record(record, catalogue)
    check_requirements([cell.dataset, cell.model, cell.method])
    graph = graphs.of(cell)
    device, machine = choose_device(record.cell["device"]), describe_machine()
    strict = record.provenance.get("deterministic") is True
    threads = int(record.provenance.get("threads") or 1)
    versions = {"plugins": catalogue.versions(), **provenance()}
    metrics, _ = available_metrics(catalogue)
    context = RunContext(device, threads, machine["id"], metrics, versions, deterministic=strict)
    config = RunConfig(
        out=folder, isolate=True, threads=threads, data_root=root, cell_timeout=limit or time_limit(record)
    )
    store = Store(folder, machine["id"])
    plan = Plan([cell], [cell], {cell.dataset_label: graph}, store, context, config, machine)
    (again,) = run_in_processes(plan, lambda progress: None)
    return again


def note_recomputed(results: Path, cells: Sequence[Recomputed]) -> Path | None:
    """Write into the results folder which records were computed again here; None: none was.

    Raises:
        UnlearnbenchError: An earlier file cannot be read, or it cannot be written.
    """
    computed = ((one.record, one.agrees) for one in cells if not one.refusal)
    return write_marks(results_root(results), describe_machine(), computed)


def compare(record: Record, again: Record) -> Recomputed:
    """Compare a record with what came out when its cell was computed again: all but times, exactly."""
    if again.error is not None:
        refusal = f"it fails here: {again.status}: {again.error['type']}: {again.error['message']}"
        return Recomputed(record, refusal=refusal)
    # Records of earlier versions have no digest of their predictions.
    places = {*COMPARED, *(() if record.predictions_digest is None else ("predictions_digest",))}
    one, other = (each.model_dump(mode="json", include=places) for each in (record, again))
    # Metrics that came later than the record: nothing in it can be compared with them.
    other["metrics"] = {name: values for name, values in other["metrics"].items() if name in one["metrics"]}
    different = list(json_differences(one, other))
    return Recomputed(record, different, _reasons(record, again) if different else ())


def _reasons(record: Record, again: Record) -> list[str]:
    stored, here = record.provenance, again.provenance
    found = []
    if record.machine != again.machine:
        found.append(f"another kind of machine ({record.machine}, here {again.machine})")
    if stored.get("instructions") != here.get("instructions"):
        theirs = stored.get("instructions") or "not recorded"
        found.append(f"other vector instructions ({theirs}, here {here.get('instructions')})")
    for group in ("packages", "plugins"):
        differences = json_differences(stored.get(group) or {}, here.get(group) or {})
        found += [f"another {name} ({_shown(old)}, here {_shown(new)})" for name, old, new in differences]
    if stored.get("threads") != here.get("threads"):
        found.append(f"another number of threads ({stored.get('threads')}, here {here.get('threads')})")
    if str(record.cell["device"]) != "cpu" and not stored.get("deterministic"):
        found.append("operations of a GPU may give other bits each time (--deterministic)")
    if stored.get("git") != here.get("git"):
        found.append(f"another commit ({str(stored.get('git'))[:12]}, here {str(here.get('git'))[:12]})")
    found += [
        f"{where} was made from changed source" for where, p in (("it", stored), ("this", here)) if p.get("dirty")
    ]
    return found


def _shown(value: Any) -> str:
    return "nothing" if isinstance(value, Absent) else str(value)
