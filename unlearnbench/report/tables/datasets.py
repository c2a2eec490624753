"""How large the graphs of the records are, and what the paper prints."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pandas as pd

from unlearnbench.datasets.catalogue_of_graphs import GraphSize
from unlearnbench.errors import UnlearnbenchError
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.report.paper.published import published
from unlearnbench.report.tables.table import Table

FIELDS = ("nodes", "edges", "features", "classes")


def dataset_tables(name: str, frame: pd.DataFrame, against: bool = False) -> list[Table]:
    """Build one table of all datasets that the records name.

    Records hold a dataset's name and checksum; its size is what its loader checks every file
    against, so that files of another size never come to a record.

    Args:
        name: `datasets`.
        frame: What `load_records` gave.
        against: Whether the paper's numbers stand beside; then datasets that it does not have are
            left out, and there is no table if it has none of them.
    """
    printed = {str(row["dataset"]): row for _, row in published(name).iterrows()} if against else None
    catalogue = load_catalogue()
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
        raw.append(
            {"table": name, "dataset": dataset, "records": records, **_raw(size, of_paper), "dataset_sha256": sha256}
        )
    if not lines:
        return []
    caption = "Datasets against the paper." if against else "Datasets."
    return [
        Table(
            name, caption, pd.DataFrame(lines), pd.DataFrame(raw), tuple(_notes(frame, raw, unknown, of_paper=against))
        )
    ]


def size_of(catalogue: Catalogue, dataset: str) -> GraphSize | None:
    """Give the size a dataset's loader checks for; None where it states none, or nobody knows the dataset here."""
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


def _notes(frame: pd.DataFrame, raw: list[dict[str, Any]], unknown: list[str], of_paper: bool) -> Iterator[str]:
    yield "n: records. Sizes are those the loader of each dataset checks its files against."
    yield "edges: directed, an undirected edge counts twice."
    if unknown:
        yield f"Size empty: the loader of {', '.join(unknown)} states none, or is not installed here."
    if of_paper:
        yield from _contradictions(raw)
    protocols = ", ".join(sorted(set(frame["protocol"])))
    machines, devices = (", ".join(sorted(set(frame[column]))) for column in ("machine", "device"))
    versions = ", ".join(sorted(set(frame["unlearnbench"]) - {""})) or "not recorded"
    yield f"Protocol {protocols}; device {devices}; machines: {machines}; unlearnbench {versions}."


def _contradictions(raw: list[dict[str, Any]]) -> Iterator[str]:
    """Say where the paper's sizes are not those of the data, and that it counts edges in two ways."""
    known = [row for row in raw if row["nodes"] is not None]
    for row in known:
        if row["nodes"] != row["published_nodes"]:
            digits = sorted(str(row["nodes"])) == sorted(str(row["published_nodes"]))
            slip = ": the same digits in another order" if digits else ""
            yield (f"{row['source']} has {row['published_nodes']:,} nodes, the data {row['nodes']:,}{slip}.")
    twice = [row["dataset"] for row in known if row["edges"] == row["published_edges"]]
    once = [f"{row['dataset']} (half of ours: {row['edges'] // 2:,})" for row in known if row["dataset"] not in twice]
    if once:
        both = f", those of {', '.join(twice)} in both directions as here" if twice else ""
        yield f"The paper counts edges of {', '.join(once)} about once{both}."
