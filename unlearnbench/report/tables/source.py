"""What a table is built from, and what builds it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate, aggregate, aggregate_headlines
from unlearnbench.report.frame.record_groups import group_records
from unlearnbench.report.tables.table import Table


@dataclass(frozen=True, eq=False)
class TableSource:
    """The records that a table is built from.

    Args:
        name: The name the table was asked for by.
        frame: One row per record and view (`load_records`), or what `load_audits` returns for a
            table that reads audits alone.
        audits: What `load_audits` returns for a table that reads both; None where no audit ran.
        against: Whose published numbers the table is set against; empty: nobody's.
        metric: The one that was asked for; empty: that which papers report of a dataset.
    """

    name: str
    frame: pd.DataFrame = field(repr=False)
    audits: pd.DataFrame | None = field(default=None, repr=False)
    against: str = ""
    metric: str = ""

    @cached_property
    def groups(self) -> list[Aggregate]:
        """Every protocol, dataset, model and device with its means over repetitions."""
        return [aggregate(group) for group in group_records(self.frame)]

    @cached_property
    def scored_groups(self) -> list[Aggregate]:
        """The same with rows compared by the metric that was asked for."""
        groups = group_records(self.frame)
        return [aggregate(group, self.metric) if self.metric else aggregate_headlines(group) for group in groups]


Builder = Callable[[TableSource], Iterable[Table]]
"""What a table's entry names. What stands below every table alike is added later."""


def by_group(build: Callable[[str, Aggregate], Iterable[Table]]) -> Builder:
    """Make a builder from a function that builds the tables of one group.

    Args:
        build: Takes the name of the table and the group; returns no table for a group that holds
            nothing of what it compares.
    """

    def tables(source: TableSource) -> Iterator[Table]:
        for group in source.groups:
            yield from build(source.name, group)

    return tables
