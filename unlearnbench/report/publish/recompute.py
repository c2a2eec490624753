"""Running cells again: does what a record says come out here too?"""

from __future__ import annotations

import random
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from unlearnbench.datasets.base import data_root
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.measure.machine import describe_machine
from unlearnbench.measure.provenance import provenance
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store, read_records
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.report.frame.frame import results_root
from unlearnbench.running.cell import Cell
from unlearnbench.running.cell_codec import Absent, cell_of_record, json_differences
from unlearnbench.running.device import choose_device
from unlearnbench.running.execute import do_cell, prepare
from unlearnbench.running.lookup import available_metrics, load_graphs
from unlearnbench.running.outcome import RunContext
from unlearnbench.running.runner import run_cell

# What is the same whenever a cell is computed; times, memory and provenance are not.
COMPARED = ("status", "requests", "claim", "partition", "digests", "metrics", "counts")


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
        shown = [f"  {place}: {_said(old)}, here {_said(new)}" for place, old, new in self.different[:5]]
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
) -> list[Recomputed]:
    """Draw cells that have a record, compute them again into a temporary folder, and compare; `tell` is told each.

    The same records and seed draw the same cells; all are taken if there are fewer than `number`.

    Raises:
        NothingMatchedError: There is no record of a run that came to an outcome.
        UnlearnbenchError: A record cannot be read.
    """
    records = [one for one in read_records(results_root(results)) if not one.is_failure and not one.is_audit]
    if not records:
        raise NothingMatchedError(f"{results}: no records of runs.", "Name the folder they are in.")
    records.sort(key=lambda record: (record.key, record.machine))
    chosen = random.Random(seed).sample(records, min(number, len(records)))
    machine, metrics = describe_machine()["id"], available_metrics(catalogue)[0]
    versions = {"plugins": catalogue.versions(), **provenance()}
    graphs: dict[str, Graph] = {}
    found = []
    with tempfile.TemporaryDirectory(prefix="unlearnbench-") as folder:
        store = Store(Path(folder), machine)
        for record in chosen:
            try:
                cell, graph = _inputs(record, catalogue, root, forbid_downloads, graphs)
                device = choose_device(record.cell["device"])
                threads = int(record.provenance.get("threads") or 1)
                strict = record.provenance.get("deterministic") is True
                context = RunContext(device, threads, machine, metrics, versions, deterministic=strict)
            except UsageError as error:
                found.append(Recomputed(record, refusal=f"{error.message} {error.hint}".rstrip()))
            else:
                torch.set_num_threads(threads)
                prepare(cell, context)
                found.append(compare(record, do_cell(cell, graph, context, store, None, run_cell)))
            tell(found[-1])
    return found


def compare(record: Record, again: Record) -> Recomputed:
    """Compare a record with what came out when its cell was computed again: all but times, exactly."""
    if again.error is not None:
        refusal = f"it fails here: {again.status}: {again.error['type']}: {again.error['message']}"
        return Recomputed(record, refusal=refusal)
    one, other = (each.model_dump(mode="json", include=set(COMPARED)) for each in (record, again))
    # Metrics that came later than the record: nothing in it can be compared with them.
    other["metrics"] = {name: values for name, values in other["metrics"].items() if name in one["metrics"]}
    different = list(json_differences(one, other))
    return Recomputed(record, different, _reasons(record, again) if different else ())


def _inputs(
    record: Record, catalogue: Catalogue, root: Path | None, forbid_downloads: bool, graphs: dict[str, Graph]
) -> tuple[Cell, Graph]:
    cell = cell_of_record(record, catalogue)
    check_requirements([cell.dataset, cell.model, cell.method])
    if cell.dataset_label not in graphs:
        graphs |= load_graphs([cell.dataset], data_root(root), forbid_downloads)[0]
    graph = graphs[cell.dataset_label]
    checksum = graph.checksum()
    if checksum != cell.checksum:
        raise UsageError(
            f"Its graph {cell.dataset_label} has the checksum {cell.checksum[:12]}..., here it is {checksum[:12]}...",
            "The files of the dataset are others.",
        )
    return cell, graph


def _reasons(record: Record, again: Record) -> list[str]:
    told, here = record.provenance, again.provenance
    found = []
    if record.machine != again.machine:
        found.append(f"another kind of machine ({record.machine}, here {again.machine})")
    for group in ("packages", "plugins"):
        differences = json_differences(told.get(group) or {}, here.get(group) or {})
        found += [f"another {name} ({_said(old)}, here {_said(new)})" for name, old, new in differences]
    if told.get("threads") != here.get("threads"):
        found.append(f"another number of threads ({told.get('threads')}, here {here.get('threads')})")
    if str(record.cell["device"]) != "cpu" and not told.get("deterministic"):
        found.append("operations of a GPU may give other bits each time (--deterministic)")
    if told.get("git") != here.get("git"):
        found.append(f"another commit ({str(told.get('git'))[:12]}, here {str(here.get('git'))[:12]})")
    found += [f"{where} was made from changed source" for where, p in (("it", told), ("this", here)) if p.get("dirty")]
    return found


def _said(value: Any) -> str:
    return "nothing" if isinstance(value, Absent) else str(value)
