"""How large the graphs of the records are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import pandas as pd

from unlearnbench.datasets.catalogue_of_graphs import GraphSize
from unlearnbench.errors import UnlearnbenchError
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report.tables.notes import Note
from unlearnbench.report.tables.source import TableSource
from unlearnbench.report.tables.table import Table

FIELDS = ("nodes", "edges", "features", "classes")


def dataset_tables(
    source: TableSource,
    printed: Mapping[str, pd.Series[Any]] | None = None,
    remarks: Callable[[list[dict[str, Any]]], Iterable[str]] = lambda rows: (),
) -> list[Table]:
    """Build one table of all datasets that the records name.

    Records hold a dataset's name and checksum; its size is what its loader checks every file
    against, so that files of another size never come to a record.

    Args:
        source: The records.
        printed: Published sizes by dataset: any of `FIELDS`, with the `table` and the `row` they
            stand in. They stand beside ours; datasets without any are left out, and there is no
            table if none has them.
        remarks: Returns further notes on the raw rows.
    """
    catalogue, frame = load_catalogue(), source.frame
    lines, raw, unknown = [], [], []
    keys = frame.drop_duplicates("key")
    counts = Counter(zip(keys["dataset"], keys["dataset_sha256"], strict=True))
    for (dataset, sha256), records in sorted(counts.items()):
        if printed is not None and dataset not in printed:
            continue
        size = size_of(catalogue, dataset)
        of_paper = None if printed is None else printed[dataset]
        if size is None:
            unknown.append(dataset)
        lines.append({"dataset": dataset, "n": str(records), **_shown(size, of_paper), "sha256": sha256[:12]})
        front = {"table": source.name, "dataset": dataset, "records": records}
        raw.append({**front, **_raw(size, of_paper), "dataset_sha256": sha256})
    if not lines:
        return []
    caption = "Datasets." if printed is None else "Datasets against the paper."
    notes = tuple(_notes(frame, unknown, remarks(raw)))
    return [Table(source.name, caption, pd.DataFrame(lines), pd.DataFrame(raw), notes)]


def size_of(catalogue: Catalogue, dataset: str) -> GraphSize | None:
    """Return the size a dataset's loader checks for; None where it states none, or nobody knows the dataset here."""
    try:
        cls = catalogue.load(catalogue.find("dataset", dataset))
    except UnlearnbenchError:
        return None
    size = getattr(cls, "size", None)
    return size if isinstance(size, GraphSize) else None


def _shown(size: GraphSize | None, of_paper: pd.Series[Any] | None) -> dict[str, str]:
    line = {}
    for field in FIELDS:
        if of_paper is not None and field in of_paper.index:
            line[f"{field} in the paper"] = f"{int(of_paper[field]):,}"
        line[field] = "" if size is None else f"{getattr(size, field):,}"
    if of_paper is not None:
        line["in the paper"] = f"{of_paper['table']}: {of_paper['row']}"
    return line


def _raw(size: GraphSize | None, of_paper: pd.Series[Any] | None) -> dict[str, Any]:
    line: dict[str, Any] = {field: None if size is None else getattr(size, field) for field in FIELDS}
    if of_paper is not None:
        line |= {f"published_{field}": int(of_paper[field]) for field in FIELDS if field in of_paper.index}
        line["source"] = f"{of_paper['table']}: {of_paper['row']}"
    return line


def _notes(frame: pd.DataFrame, unknown: list[str], remarks: Iterable[str]) -> Iterator[str]:
    yield "n: records. Sizes are those the loader of each dataset checks its files against."
    yield "edges: directed, an undirected edge counts twice."
    if unknown:
        yield f"Size empty: the loader of {', '.join(unknown)} states none, or is not installed here."
    yield from remarks
    protocols = ", ".join(sorted(set(frame["protocol"])))
    machines, devices = (", ".join(sorted(set(frame[column]))) for column in ("machine", "device"))
    versions = ", ".join(sorted(set(frame["unlearnbench"]) - {""})) or "not recorded"
    yield Note(f"Protocol {protocols}; device {devices}; machines: {machines}; unlearnbench {versions}.")
