"""Which tables there are, and how they are made of a data frame."""

from __future__ import annotations

from dataclasses import replace
from typing import Protocol

import pandas as pd

from unlearnbench.errors import NothingMatchedError, unknown_name
from unlearnbench.report.aggregate import Aggregate, aggregate
from unlearnbench.report.columns import MEMORY, SUMMARY, TIME, UTILITY
from unlearnbench.report.comparison import ComparisonTable
from unlearnbench.report.equivalence import EquivalenceTable
from unlearnbench.report.grouping import group_records
from unlearnbench.report.table import Table


class TableKind(Protocol):
    """A kind of table: makes one of each group of records."""

    def build(self, name: str, found: Aggregate) -> Table:
        """Build the table of one group; what stands below every table alike comes later."""


TABLES: dict[str, TableKind] = {
    "summary": SUMMARY,
    "utility": UTILITY,
    "time": TIME,
    "memory": MEMORY,
    "comparison": ComparisonTable(),
    "equivalence": EquivalenceTable(),
}


def build_tables(frame: pd.DataFrame, name: str = "summary", source: str = "results") -> list[Table]:
    """Build one table per protocol, dataset, model and device.

    Args:
        frame: What `load_records` gave, or a part of it.
        name: A key of `TABLES`.
        source: The results folder as the user wrote it, for the command below the table.

    Raises:
        UsageError: An unknown table.
        NothingMatchedError: The frame is empty.
    """
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    if frame.empty:
        raise NothingMatchedError("No record matches.", "Run some cells, or ask for less.")
    problems = [f"Could not be read and is left out: {problem}" for problem in frame.attrs.get("problems", [])]
    command = f"Made by: unlearnbench report {source} --table {name}"
    tables = [TABLES[name].build(name, aggregate(group)) for group in group_records(frame)]
    return [replace(table, notes=(*table.notes, *problems, command)) for table in tables]
