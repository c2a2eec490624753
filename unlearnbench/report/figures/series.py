"""What figures show, as numbers: the page and the figures on paper draw the same."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.errors import DataError
from unlearnbench.report.figures.colours import HEAT
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap
from unlearnbench.report.frame.plain_rows import plain_rows, rows_by
from unlearnbench.report.frame.record_groups import known
from unlearnbench.report.frame.timed import quiet_records
from unlearnbench.report.tables.cost import Curve
from unlearnbench.report.tables.factorial import matrix
from unlearnbench.report.tables.factorial_design import find_grids
from unlearnbench.report.tables.table import Table, shown_statuses
from unlearnbench.statistics.averages import mean

OTHER = "other"
PHASES: dict[str, tuple[str, dict[str, str]]] = {
    "fit": (
        "fit_seconds",
        {"partition": "partition_seconds", "train": "train_seconds", "aggregator": "aggregate_seconds"},
    ),
    "unlearn": (
        "unlearn_seconds",
        {
            "retrain": "unlearn_retrain_seconds",
            "update": "unlearn_update_seconds",
            "aggregator": "unlearn_aggregate_seconds",
        },
    ),
}
"""Moment to the column of its whole, and its parts in the order they are drawn; what is left is `other`."""


@dataclass(frozen=True)
class Point:
    """Micro-F1 (0 to 1) after the request against unlearning time: means and sample standard deviations.

    `method` names what gives a row its look; a spread of fewer than two repetitions is None.
    """

    row: str
    method: str
    seconds: float
    seconds_sd: float | None
    score: float
    score_sd: float | None


@dataclass(frozen=True)
class TimeBar:
    """What a moment in the life of a method took, in mean seconds; the parts, `other` among them, are the whole."""

    row: str
    method: str
    total: float
    parts: Mapping[str, float]


@dataclass(frozen=True, eq=False)
class Heat:
    """Micro-F1 of every partitioner (rows) with every aggregator (columns), and its table.

    `scores` maps (view, partitioner, aggregator) to mean micro-F1, 0 to 1; what has no record is not there.
    """

    averages: Aggregate
    table: Table
    partitioners: Sequence[str]
    aggregators: Sequence[str]
    scores: Mapping[tuple[str, str, str], float]

    def limits(self, view: str) -> tuple[float, float]:
        """Return between which scores of a view colours change; zeros without any.

        Scores below Tukey's lower fence, 1.5 interquartile ranges under the quartile, share the darkest
        colour: one pair that fails would make all others look alike.
        """
        scores = sorted(score for (seen, *_), score in self.scores.items() if seen == view)
        if not scores:
            return 0.0, 0.0
        lower, upper = (scores[round(share * (len(scores) - 1))] for share in (0.25, 0.75))
        return max(scores[0], lower - 1.5 * (upper - lower)), scores[-1]

    def step(self, view: str, partitioner: str, aggregator: str) -> int | None:
        """Return which colour of `HEAT` a cell has; None without a score."""
        score, (low, high) = self.scores.get((view, partitioner, aggregator)), self.limits(view)
        return None if score is None else round(max(0.0, score - low) / (high - low or 1.0) * (len(HEAT) - 1))


def method_names(averages: Aggregate) -> dict[str, str]:
    """Map each row of a group to the name of its method."""
    frame = averages.group.frame
    return {str(row): str(name) for row, name in zip(frame["row"], frame["method_name"], strict=True)}


def tags(rows: Iterable[tuple[str, str]]) -> dict[str, str]:
    """Number the rows of a figure (row, method) that share a method, and so its look; others have no tag."""
    by_method: defaultdict[str, list[str]] = defaultdict(list)
    for row, method in rows:
        by_method[method].append(row)
    shared = [row for alike in by_method.values() if len(alike) > 1 for row in alike]
    return {row: str(at + 1) for at, row in enumerate(shared)}


def points(averages: Aggregate, view: str) -> tuple[list[Point], dict[str, str]]:
    """Return the points of a view, and the rows that have none with the reason."""
    names = method_names(averages)
    drawn: list[Point] = []
    lacking: dict[str, str] = {}
    for row, status in zip(plain_rows(averages.data), shown_statuses(averages.data), strict=True):
        score, seconds = row[f"f1_micro_{view}_mean"], row["unlearn_seconds_mean"]
        name = str(row["method"])
        if pd.isna(score) or pd.isna(seconds) or seconds <= 0:
            lacking[name] = status or ("no F1" if pd.isna(score) else "no time")
            continue
        spreads = [row[column] for column in ("unlearn_seconds_sd", f"f1_micro_{view}_sd")]
        seconds_sd, score_sd = (None if pd.isna(spread) else float(spread) for spread in spreads)
        drawn.append(Point(name, names[name], float(seconds), seconds_sd, float(score), score_sd))
    return drawn, lacking


def stacks(averages: Aggregate, moment: str) -> list[TimeBar]:
    """Return the time of each row at a moment, a key of `PHASES`, split by phase.

    A phase stands apart where every timed record has it; the rest of the whole is `other`.
    """
    names = method_names(averages)
    column, columns = PHASES[moment]
    timed = averages.timed[averages.timed[column].notna()]
    timed_of = rows_by(timed, "row", ["exclusive", column, *columns.values()])
    drawn = []
    for row in averages.group.rows:
        records = quiet_records(timed_of.get(row, ()))
        total = mean(record[column] for record in records)
        if total is None:
            continue
        measured = {name: known(record[phase] for record in records) for name, phase in columns.items()}
        parts = {name: mean(values) or 0.0 for name, values in measured.items() if len(values) == len(records)}
        parts[OTHER] = max(0.0, total - sum(parts.values()))
        drawn.append(TimeBar(row, names[row], total, parts))
    return drawn


def heats(averages: Aggregate) -> list[Heat]:
    """Find the grids of partitioners and aggregators in a group."""
    drawn = []
    for design, part in find_grids(averages):
        try:
            ratio, _ = overlap(part)
        except DataError:  # without a known split nothing can be compared, and the table is refused
            continue
        table = matrix("factorial", part, design, ratio)
        data = table.data[table.data["f1_micro_mean"].notna()]
        rows = data[["view", "partitioner", "aggregator", "f1_micro_mean"]].itertuples(index=False, name=None)
        scores = {
            (str(view), str(partitioner), str(aggregator)): float(f1) for view, partitioner, aggregator, f1 in rows
        }
        drawn.append(Heat(part, table, design.levels["partitioner"], design.levels["aggregator"], scores))
    return drawn


def lines(curve: Curve) -> tuple[dict[str, pd.DataFrame], list[str]]:
    """Return the rows of a curve that have two numbers of deletions or more, and name those that have one."""
    parts = {str(row): part for row, part in curve.data[curve.data["seconds"].notna()].groupby("method", sort=False)}
    drawn = {row: part for row, part in parts.items() if len(part) > 1}
    return drawn, [row for row in parts if row not in drawn]


def panel_facets(averages: Aggregate) -> dict[str, Any]:
    """Return what sets a group apart beside its dataset and model, as plain values."""
    facets = averages.group.facets
    configs = {name: json.loads(facets[f"{name}_config"]) for name in ("protocol", "training", "other")}
    return {**configs, "device": facets["device"]}
