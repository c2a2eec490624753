"""The paper's sizes of datasets beside those of the data."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from unlearnbench.report import Table, TableSource, dataset_tables
from unlearnbench_graphrevoker.paper.numbers import nothing_printed, published


def against(source: TableSource) -> list[Table]:
    """Build the table of all datasets of the records that the paper names too."""
    printed = {str(row["dataset"]): row for _, row in published("datasets").iterrows()}
    tables = dataset_tables(source, printed, contradictions)
    if not tables:
        raise nothing_printed("datasets", "dataset")
    return tables


def contradictions(raw: list[dict[str, Any]]) -> Iterator[str]:
    """Report where the paper's sizes are not those of the data, and that it counts edges in two ways."""
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
