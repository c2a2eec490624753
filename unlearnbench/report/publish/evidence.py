"""Whether the contents of a record follow from its graph, its protocol and the predictions beside it."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any

import torch
from numpy.typing import NDArray

from unlearnbench.component import canonical_json
from unlearnbench.datasets.base import data_root
from unlearnbench.errors import UnlearnbenchError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.measure.digests import changed_names, predictions_digest
from unlearnbench.protocol import protocol
from unlearnbench.records.digits import what_follows
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.running.cell import Cell
from unlearnbench.running.lookup import available_metrics, load_graphs
from unlearnbench.running.runner import cell_data, score_arrays
from unlearnbench.running.settings import base_seed


class Graphs:
    """The graphs of cells, each loaded once, and what the protocol draws from them."""

    def __init__(self, root: Path | None, forbid_downloads: bool) -> None:
        self._root, self._forbid = root, forbid_downloads
        self._graphs: dict[str, Graph] = {}
        self._checksums: dict[str, str] = {}
        self._data: dict[str, protocol.RepetitionData] = {}
        self._refusals: dict[str, UnlearnbenchError] = {}

    def of(self, cell: Cell) -> Graph:
        """Return the graph of a cell.

        Raises:
            UnlearnbenchError: It cannot be had or made, or has another checksum than the cell says.
        """
        label = cell.dataset_label
        if label in self._refusals:
            raise self._refusals[label]
        if label not in self._graphs:
            try:
                check_requirements([cell.dataset])
                self._graphs |= load_graphs([cell.dataset], data_root(self._root), self._forbid)[0]
                self._checksums[label] = self._graphs[label].checksum()
            except UnlearnbenchError as error:
                self._refusals[label] = error
                raise
            except (MemoryError, RuntimeError) as error:  # torch raises it where memory does not suffice
                self._refusals[label] = UsageError(f"Its graph {label} cannot be made here: {error}.")
                raise self._refusals[label] from error
        checksum = self._checksums[label]
        if checksum != cell.checksum:
            raise UsageError(
                f"Its graph {label} has the checksum {cell.checksum[:12]}..., here it is {checksum[:12]}...",
                "The files of the dataset are others.",
            )
        return self._graphs[label]

    def data_of(self, cell: Cell) -> protocol.RepetitionData:
        """Return what the protocol draws for a cell.

        Raises:
            UnlearnbenchError: The graph cannot be had, or the request does not fit it.
        """
        graph = self.of(cell)
        setting = canonical_json([cell.protocol.canonical(), cell.dataset_label, cell.seed, cell.repetition])
        if setting not in self._data:
            self._data[setting] = cell_data(cell, graph)
        return self._data[setting]


class Evidence:
    """Checks records against what they were made from."""

    def __init__(self, root: Path, catalogue: Catalogue, graphs: Graphs) -> None:
        self._root, self._graphs = root, graphs
        self._metrics = available_metrics(catalogue)[0]

    def problem(self, record: Record, cell: Cell) -> str:
        """Return what does not follow; empty: all of it does."""
        if record.key != cell.key:
            return f"its key is {record.key}, that of its cell {cell.key}."
        if record.label != cell.method.label:
            return f"its label is {record.label[:60]!r}, that of its cell {cell.method.label!r}."
        if cell.seed != base_seed({}):
            return f"cell.seed is {cell.seed}, that of the protocol {base_seed({})}: methods would not be comparable."
        try:
            graph, data = self._graphs.of(cell), self._graphs.data_of(cell)
        except UnlearnbenchError as error:
            return f"{error.message} {error.hint}".rstrip()
        if (graph.split is not None) is not cell.protocol.own_split:
            return "its protocol splits the graph in another way than the dataset does."
        if record.is_audit:
            return ""
        return (
            _claim_problem(record, cell)
            or _request_problem(record, data)
            or _partition_problem(record, cell, data)
            or score_problem(record, [spec.name for spec in self._metrics], len(data.split.test), len(data.split.val))
            or self._array_problem(record, data)
        )

    def _array_problem(self, record: Record, data: protocol.RepetitionData) -> str:
        """Compare a record with its archive, where there is one."""
        store = Store(self._root, record.machine)
        path = store.path(record).with_suffix(".npz")
        if not path.exists():
            return ""
        try:
            arrays = store.arrays(record)
            return self._contradiction(record, data, arrays, path.name)
        except (UnlearnbenchError, KeyError, ValueError, TypeError, IndexError, RuntimeError):
            return f"{path.name} beside it cannot be read."

    def _contradiction(
        self, record: Record, data: protocol.RepetitionData, arrays: Mapping[str, NDArray[Any]], name: str
    ) -> str:
        expected = {
            "forgotten": data.request.ids,
            **{part: getattr(data.split, part) for part in ("train", "val", "test")},
        }
        for part, ids in expected.items():
            if not torch.equal(torch.from_numpy(arrays[part]).reshape(ids.shape), ids):
                return f"{name} beside it holds another {'request' if part == 'forgotten' else f'split ({part})'}."
        if record.predictions_digest not in (None, predictions_digest(arrays)):
            return f"{name} beside it holds other predictions than its `predictions_digest` says."
        if record.status != "ok":
            return ""
        scores, _ = score_arrays(arrays, data, self._metrics)
        for metric, views in record.metrics.items():
            for view, moments in views.items():
                for moment, value in moments.items():
                    found = scores[metric][view][moment]
                    same = value is None if found is None or not math.isfinite(found) else value is not None
                    if not same or (value is not None and found is not None and abs(value - found) > 1e-9):
                        return f"{metric} of the view {view} {_moment(moment)} is {value}, of its predictions {found}."
        return ""


def digest_problem(record: Record) -> str:
    """Return which digests are missing or contradict the rest; empty: none."""
    if record.status != "ok" or record.is_audit:
        return ""
    before, after = (record.digests.get(moment) for moment in ("before", "after"))
    for moment, digests in (("before", before), ("after", after)):
        if not isinstance(digests, dict) or not digests:
            return f"it has no digests of the parameters {moment} the request."
    assert isinstance(before, dict)
    assert isinstance(after, dict)
    changed = changed_names(before, after)
    change = record.digests.get("relative_change")
    if any(record.digests.get(name) != value for name, value in what_follows(changed).items()):
        return "its digests and what it says of changed members contradict each other."
    if not changed and change:
        return f"no digest changed, and digests.relative_change is {change}."
    return ""


def score_problem(record: Record, metrics: Collection[str], test: int, val: int) -> str:
    """Return which score of a record cannot be one of so many test and validation nodes; empty: none."""
    if record.status != "ok":
        return "it has scores without an outcome." if record.metrics else ""
    sizes = {"": test, "val_": val}
    if unknown := sorted(set(record.metrics) - {f"{prefix}{name}" for prefix in sizes for name in metrics}):
        return f"no metric here is called {', '.join(unknown)}."
    for prefix, size in sizes.items():
        for name in (f"{prefix}f1_micro", f"{prefix}f1_macro"):
            for view in VIEWS:
                moments = record.metrics.get(name, {}).get(view, {})
                for moment in ("before", "after", *moments):
                    value, where = moments.get(moment), f"{name} of the view {view} {_moment(moment)}"
                    if not size and value is None:
                        continue
                    if value is None or not size or not 0 <= value <= 1:
                        return f"{where} is {value}, not a share{'' if size else ': there are no such nodes'}."
                    if name.endswith("micro") and abs(value * size - round(value * size)) > 1e-6:
                        return f"{where} is {value}: not of {size} nodes."
    return ""


def _moment(moment: str) -> str:
    return {"before": "before the request", "after": "after the request"}.get(moment, f"of {moment}")


def _claim_problem(record: Record, cell: Cell) -> str:
    if record.claim is None:
        return "it has no claim." if record.status == "ok" else ""
    method = cell.method.build()
    declared = {"claim": method.claim.value, "reason": method.claim_reason}
    if record.claim != declared:
        return f"it claims {_words(record.claim)}; the method declares {_words(declared)}."
    return ""


def _words(claim: Mapping[str, str]) -> str:
    return f"{claim.get('claim')} ({reason})" if (reason := claim.get("reason")) else str(claim.get("claim"))


def _request_problem(record: Record, data: protocol.RepetitionData) -> str:
    if not record.requests:
        return "it has no digest of its request."
    if [one["ids_sha256"] for one in record.requests] != [one.sha256() for one in data.requests]:
        return "its request is not the one that the protocol draws."
    left = len(data.split.train)
    for request, drawn in zip(record.requests, data.requests, strict=True):
        if request["count"] != len(drawn.ids):
            return f"its request counts {request['count']}, the protocol draws {len(drawn.ids)}."
        left -= len(drawn.ids) if drawn.kind == "node" else 0
        sizes = request.get("sizes")
        if sizes is not None and sum(sizes) != left:
            return f"the sizes of its shards after a request add up to {sum(sizes)}; {left} training nodes are left."
    spent = [request["counts"] for request in record.requests if "counts" in request]
    for name in record.counts if spent else ():
        if not name.startswith("fit_") and name != "parameter_bytes":
            total = sum(counts.get(name, 0) for counts in spent)
            if record.counts[name] != total:
                return f"counts.{name} is {record.counts[name]}, and those of its requests add up to {total}."
    return ""


def _partition_problem(record: Record, cell: Cell, data: protocol.RepetitionData) -> str:
    if record.partition is None:
        return ""
    sizes, nodes = record.partition["sizes"], len(data.split.train)
    if sum(sizes) != nodes:
        return f"partition.sizes add up to {sum(sizes)}; there are {nodes} training nodes."
    shards = getattr(cell.method.params, "num_shards", len(sizes))
    if len(sizes) != shards:
        return f"partition.sizes are {len(sizes)}, its method has {shards} shards."
    hit = record.counts.get("shards_hit") or 0
    if hit > len(sizes) * len(record.requests):
        return f"counts.shards_hit is {hit}, of {len(sizes)} shards."
    return ""
