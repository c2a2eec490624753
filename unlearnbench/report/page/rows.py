"""The leaderboard of the page: the cells of the tables side by side for all groups, and the records behind each."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import pandas as pd

from unlearnbench.errors import DataError
from unlearnbench.records.files import safe_name
from unlearnbench.records.record import FAILURES
from unlearnbench.report.figures.colours import Looks
from unlearnbench.report.figures.series import method_names
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.aliases import alias_notes
from unlearnbench.report.frame.contrasts import overlap
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import MICRO_F1, short_name, unit
from unlearnbench.report.frame.record_groups import UNIT
from unlearnbench.report.frame.timed import quiet_records, timed_records
from unlearnbench.report.tables.columns import SUMMARY
from unlearnbench.report.tables.comparison import ComparisonTable, noop_notes


@dataclass(frozen=True)
class ColumnHead:
    """A column of numbers, and the name that sorts by it.

    Args:
        table: The table its text comes from: `summary` or `comparison`.
        text: The column of that table.
        value: The column of the raw numbers that it is sorted by.
        counted: Which records its number is made of: `score` or `time`.
        view: The view it belongs to; empty for all.
        best_first: 1 if small is good, -1 if large is.
    """

    name: str
    table: str
    text: str
    value: str
    counted: str
    view: str = ""
    best_first: int = 1

    @property
    def title(self) -> str:
        """The head of the column."""
        return self.text if self.table == "summary" else f"{self.text}, points"


def _heads_of(metric: str, text: str, *, compared: bool) -> tuple[ColumnHead, ...]:
    """Make the columns of a metric in both views, with those of the distance to the best method if `compared`."""
    heads = []
    for view in VIEWS:
        title, value = f"{short_name(metric)} {view}{unit(metric)}", f"{metric}_{view}_mean"
        heads.append(ColumnHead(f"{text}-{view}", "summary", title, value, "score", view, -1))
        if compared:
            heads.append(ColumnHead(f"best-{view}", "comparison", f"{view}: to best", view, "score", view, -1))
    return tuple(heads)


HEADS = (
    ColumnHead("n", "summary", "n", "n", "score", best_first=-1),
    *_heads_of(MICRO_F1, "f1", compared=True),
    ColumnHead("seconds", "summary", "unlearn s", "unlearn_seconds_mean", "time"),
    ColumnHead("ratio", "summary", "relative to Retrain", "times_retrain", "time"),
    ColumnHead("hit", "summary", "shards hit", "shards_hit", "time"),
    ColumnHead("peak", "summary", "peak MiB", "peak_mib", "time"),
)
"""The columns that every page has."""


def page_heads(groups: Sequence[Aggregate]) -> tuple[ColumnHead, ...]:
    """Return the columns of the page: those of other metrics that a group shows stand behind n."""
    others = dict.fromkeys(metric for one in groups for metric in one.shown_metrics if metric != MICRO_F1)
    more = (head for metric in others for head in _heads_of(metric, metric, compared=False))
    return (HEADS[0], *more, *HEADS[1:])


RECORD_COLUMNS = ("path", "status", "seed", "repetition", *VIEWS, "seconds", "quiet", "score", "time", "started")
"""What `record_rows` holds of each record."""


def build_board(
    number: int, averages: Aggregate, looks: Looks, heads: Sequence[ColumnHead] = HEADS
) -> tuple[list[dict[str, Any]], list[str]]:
    """Return the rows of the group with this number on the page, texts as in the tables, and their notes.

    A group has no number in columns of metrics that only others show.
    """
    summary = SUMMARY.build("summary", averages)
    notes, texts, apart = [*summary.notes], pd.DataFrame(index=summary.shown.index), pd.DataFrame()
    marked: frozenset[tuple[int, str]] = frozenset()
    try:
        ratio, _ = overlap(averages)
        comparison = ComparisonTable().build("comparison", averages)
        notes += [*comparison.notes, *noop_notes(averages, ratio)]
        texts, apart, marked = comparison.shown, comparison.data, comparison.marked
    except DataError as error:  # the split is unknown
        notes.append(f"Nothing is marked: {error.message}")
    notes += alias_notes(summary.shown, averages.group.frame)
    names = method_names(averages)
    board = []
    for at, row in enumerate(averages.group.rows):
        shown = {"summary": summary.shown.iloc[at], "comparison": texts.iloc[at]}
        raw, to_best, one = summary.data.iloc[at], _to_best(apart, row), looks.of(names[row])
        board.append(
            {
                "group": number,
                "label": str(summary.shown.iloc[at]["method"]),
                "row": row,
                "colour": one.colour,
                "shape": one.shape,
                "status": str(summary.shown.iloc[at].get("status", "")),
                "cells": [
                    {"head": h, "text": str(shown[h.table].get(h.text, "")), "marked": (at, h.text) in marked}
                    for h in heads
                ],
                "values": [short(raw.get(h.value) if h.table == "summary" else to_best.get(h.value)) for h in heads],
            }
        )
    return board, list(dict.fromkeys(notes))


def _to_best(data: pd.DataFrame, row: str) -> dict[str, float]:
    """Map each view to the difference to its best method; 0 for the best itself."""
    mine = data[data["method"] == row] if len(data) else data
    return {
        str(one["view"]): 0.0 if one["best"] == row else one["difference"]
        for _, one in mine.iterrows()
        if one["best"] == row or not pd.isna(one["difference"])
    }


def short(value: Any, digits: int = 6) -> float | None:
    """Round to significant digits; None for what is missing."""
    return None if value is None or pd.isna(value) else float(f"{float(value):.{digits}g}")


def record_rows(averages: Aggregate) -> dict[str, list[list[Any]]]:
    """Map each row of a group to its records, failed ones too, in the order of `RECORD_COLUMNS`.

    `path` leads from the results folder to the file; `score` and `time`: whether the means of F1 and of
    times are made of it.
    """
    chosen = averages.chosen[averages.chosen["status"] == "ok"]
    _, timed, _ = timed_records(averages.group)
    timed = pd.concat([quiet_records(part) for _, part in timed.groupby("row")]) if len(timed) else timed
    scored, clocked = (set(zip(part["machine"], part["key"], strict=True)) for part in (chosen, timed))
    listed: defaultdict[str, list[list[Any]]] = defaultdict(list)
    for (row, *_), views in averages.group.frame.groupby(["row", *UNIT, "machine", "key", "status"], sort=True):
        first = views.iloc[0]
        by_view = dict(zip(views["view"], views["f1_micro"], strict=True))
        failed = first["status"] in FAILURES
        place = (first["machine"], first["key"])
        listed[str(row)].append(
            [
                path_of(first),
                f"{first['status']}: {first['error_type']}" if first["error_type"] else str(first["status"]),
                int(first["seed"]),
                int(first["repetition"]),
                *(None if failed else short(by_view.get(view)) for view in VIEWS),
                short(first["unlearn_seconds"]),
                None if pd.isna(first["exclusive"]) else int(first["exclusive"]),
                int(not failed and place in scored),
                int(not failed and place in clocked),
                str(first["started"])[:16],
            ]
        )
    return listed


def path_of(row: pd.Series[Any]) -> str:
    """Return where a record lies below the results folder, as the store writes it and as a link needs it."""
    folders = (safe_name(str(row[name])) for name in ("machine", "dataset", "method_name"))
    file = f"{row['key']}{'.error' if row['status'] in FAILURES else ''}.json"
    return quote("/".join(("records", *folders, file)))
