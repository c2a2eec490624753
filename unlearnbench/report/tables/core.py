"""The tables that come with the package, by the names they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Protocol

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.tables.audits import audit_tables
from unlearnbench.report.tables.columns import MEMORY, SUMMARY, TIME, UTILITY, VALIDATION
from unlearnbench.report.tables.comparison import ComparisonTable
from unlearnbench.report.tables.corrective import corrective_tables
from unlearnbench.report.tables.cost import cost_tables
from unlearnbench.report.tables.datasets import dataset_tables
from unlearnbench.report.tables.distances import distance_tables
from unlearnbench.report.tables.equivalence import EquivalenceTable
from unlearnbench.report.tables.factorial import factorial_tables
from unlearnbench.report.tables.forgetting import forgetting_places, forgetting_table
from unlearnbench.report.tables.poison import poison_tables
from unlearnbench.report.tables.source import Builder, TableSource, by_group
from unlearnbench.report.tables.stream import stream_tables
from unlearnbench.report.tables.sweep import sweep_tables
from unlearnbench.report.tables.table import Table


class TableKind(Protocol):
    """A kind of table that every group of records has one of."""

    def build(self, name: str, averages: Aggregate) -> Table:
        """Build the table of one group."""


def _one_each(kind: TableKind) -> Builder:
    def tables(source: TableSource) -> Iterator[Table]:
        for group in source.scored_groups:
            yield kind.build(source.name, group)

    return tables


EVERY_GROUP: dict[str, TableKind] = {
    "summary": SUMMARY,
    "utility": UTILITY,
    "time": TIME,
    "memory": MEMORY,
    "validation": VALIDATION,
    "comparison": ComparisonTable(),
    "equivalence": EquivalenceTable(),
}
"""Tables that every group of records has."""
SCORED = tuple(name for name in EVERY_GROUP if name not in ("time", "memory"))
"""Those that show any metric."""

MADE_BY = {
    "distances": "`unlearnbench audit distance --methods finetune --repetitions 5`",
    "forgetting": "`unlearnbench audit exactness,distance --methods sisa`",
    "sweep": "`unlearnbench run --methods sisa --forget-ratio 0.005,0.05,0.2`",
    "stream": "`unlearnbench run --methods sisa --stream 20 --forget-ratio 0.01`",
}
"""What makes records for tables that show some records alone, and have no experiment."""

summary, utility, time, memory, validation, comparison, equivalence = map(_one_each, EVERY_GROUP.values())
poison = by_group(poison_tables)
corrective = by_group(corrective_tables)
factorial = by_group(factorial_tables)
stream = by_group(stream_tables)


def datasets(source: TableSource) -> Iterator[Table]:
    """Build the table of the sizes of datasets."""
    yield from dataset_tables(source)


def cost(source: TableSource) -> Iterator[Table]:
    """Build the tables of stages, and of time against deletions."""
    yield from cost_tables(source.frame)


def sweep(source: TableSource) -> Iterator[Table]:
    """Build the tables of several amounts to forget."""
    yield from sweep_tables(source)


def audits(source: TableSource) -> Iterator[Table]:
    """Build the tables of verdicts and scores."""
    yield from audit_tables(source.frame)


def distances(source: TableSource) -> Iterator[Table]:
    """Build the tables of distances from Retrain, place by place."""
    yield from distance_tables(source.frame)


def forgetting(source: TableSource) -> Iterator[Table]:
    """Build the table of what is known of each method's forgetting."""
    yield from map(forgetting_table, forgetting_places(source.scored_groups, source.audits))
