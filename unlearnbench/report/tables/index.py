"""Which tables there are, and how they are made of a data frame."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Protocol

import pandas as pd

from unlearnbench.errors import NothingMatchedError, UsageError, unknown_name
from unlearnbench.experiments import experiment_names, find_experiment
from unlearnbench.report.frame.aggregate import Aggregate, aggregate
from unlearnbench.report.frame.record_groups import group_records
from unlearnbench.report.paper.ablation import ablation_tables
from unlearnbench.report.paper.against import against_tables
from unlearnbench.report.paper.against_time import against_time_tables
from unlearnbench.report.paper.characteristics import characteristics_tables
from unlearnbench.report.paper.claims import claim_tables
from unlearnbench.report.paper.published import published
from unlearnbench.report.tables.columns import MEMORY, SUMMARY, TIME, UTILITY, VALIDATION
from unlearnbench.report.tables.comparison import ComparisonTable
from unlearnbench.report.tables.datasets import dataset_tables
from unlearnbench.report.tables.equivalence import EquivalenceTable
from unlearnbench.report.tables.factorial import factorial_tables
from unlearnbench.report.tables.poison import poison_tables
from unlearnbench.report.tables.table import Table

GroupTables = Callable[[str, Aggregate], list[Table]]
CHARACTERISTICS, CLAIMS, DATASETS = "characteristics", "claims", "datasets"
OTHERS = (CHARACTERISTICS, CLAIMS, DATASETS)


class TableKind(Protocol):
    """A kind of table: makes one of each group of records."""

    def build(self, name: str, found: Aggregate) -> Table:
        """Build the table of one group; what stands below every table alike comes later."""


TABLES: dict[str, TableKind] = {
    "summary": SUMMARY,
    "utility": UTILITY,
    "time": TIME,
    "memory": MEMORY,
    "validation": VALIDATION,
    "comparison": ComparisonTable(),
    "equivalence": EquivalenceTable(),
}
"""Tables that every group of records gives."""

OF_EXPERIMENTS: dict[str, GroupTables] = {
    "partition-ablation": ablation_tables,
    "aggregation-ablation": ablation_tables,
    "poison": poison_tables,
    "factorial": factorial_tables,
}
"""Tables that only those groups give which hold what they compare."""


def _against_partition(name: str, found: Aggregate) -> list[Table]:
    return [*against_tables(name, found), *against_time_tables(name, found)]


AGAINST: dict[str, GroupTables] = {
    "utility": against_tables,
    "time": against_time_tables,
    "partition-ablation": _against_partition,
    "aggregation-ablation": against_tables,
}
"""What stands in place of a table where it is set against the paper."""


def build_tables(
    frame: pd.DataFrame,
    name: str = "summary",
    source: str = "results",
    against: bool = False,
    audits: pd.DataFrame | None = None,
) -> list[Table]:
    """Build the tables of each protocol, dataset, model and device that has something to show.

    Args:
        frame: What `load_records` gave, or a part of it.
        name: Which table: a key of `TABLES` or of `OF_EXPERIMENTS`, `characteristics`, `claims` or `datasets`.
        source: The results folder and what was selected of it, as the user wrote it, for the command below
            the table.
        against: Set our numbers against the paper's.
        audits: What `load_audits` gave, for `characteristics`.

    Raises:
        UsageError: An unknown table, or one that the paper has no numbers for.
        NothingMatchedError: The frame is empty, or holds nothing that the table shows.
    """
    if name not in (*TABLES, *OF_EXPERIMENTS, *OTHERS):
        raise unknown_name("table", name, (*TABLES, *OF_EXPERIMENTS, *OTHERS))
    if against and name == CLAIMS:
        raise UsageError("Table claims always stands against the paper.", "Leave --against out.")
    if against:
        published(name)
    if frame.empty:
        raise NothingMatchedError("No record matches.", "Run some cells, or ask for less.")
    problems = [f"Could not be read and is left out: {problem}" for problem in frame.attrs.get("problems", [])]
    command = f"Made by: unlearnbench report {source} --table {name}{' --against paper' if against else ''}"
    tables = list(_tables(frame, name, against, audits))
    if not tables:
        raise _nothing(name, against)
    return [replace(table, notes=(*table.notes, *problems, command)) for table in tables]


def _tables(frame: pd.DataFrame, name: str, against: bool, audits: pd.DataFrame | None) -> Iterable[Table]:
    if name == DATASETS:
        yield from dataset_tables(name, frame, against)
        return
    if name == CLAIMS:
        yield from claim_tables(name, [aggregate(group) for group in group_records(frame)])
        return
    for group in group_records(frame):
        found = aggregate(group)
        if name == CHARACTERISTICS:
            yield from characteristics_tables(name, found, audits, against)
        elif against:
            yield from AGAINST[name](name, found)
        elif name in TABLES:
            yield TABLES[name].build(name, found)
        else:
            yield from OF_EXPERIMENTS[name](name, found)


def _nothing(name: str, against: bool) -> NothingMatchedError:
    makers = [one for one in experiment_names() if name in find_experiment(one).tables]
    runs = " or ".join(f"`unlearnbench run --experiment {one}`" for one in makers)
    hint = f"Make such records: {runs}." if runs else ""
    if against and not runs:
        column = "dataset" if name == DATASETS else "method"
        hint = f"The paper has: {', '.join(dict.fromkeys(published(name)[column]))}."
    what = "stands in the paper" if against else "is what it compares"
    return NothingMatchedError(f"Table {name}: nothing in these records {what}.", hint)
