"""The leaderboard of the page: the cells of the tables, side by side for all groups."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.errors import DataError
from unlearnbench.report.figures.colours import Looks
from unlearnbench.report.figures.series import method_names
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.tables.columns import SUMMARY
from unlearnbench.report.tables.comparison import ComparisonTable, noop_notes


@dataclass(frozen=True)
class ColumnHead:
    """A column of numbers.

    Args:
        name: What sorts by it.
        title: Its head.
        table: The table its text comes from: `summary` or `comparison`.
        text: The column of that table.
        value: The column of the raw numbers that it is sorted by.
        counted: Which records its number is made of: `score` or `time`.
        view: The view it belongs to; empty for all.
        best_first: 1 if small is good, -1 if large is.
    """

    name: str
    title: str
    table: str
    text: str
    value: str
    counted: str
    view: str = ""
    best_first: int = 1


HEADS = (
    ColumnHead("n", "n", "summary", "n", "n", "score", best_first=-1),
    *(
        head
        for view in VIEWS
        for head in (
            ColumnHead(
                f"f1-{view}",
                f"F1 {view} %",
                "summary",
                f"F1 {view} %",
                f"f1_micro_{view}_mean",
                "score",
                view,
                best_first=-1,
            ),
            ColumnHead(
                f"best-{view}", f"{view}: to best, points", "comparison", f"{view}: to best", view, "score", view, -1
            ),
        )
    ),
    ColumnHead("seconds", "unlearn s", "summary", "unlearn s", "unlearn_seconds_mean", "time"),
    ColumnHead("ratio", "relative to Retrain", "summary", "relative to Retrain", "times_retrain", "time"),
    ColumnHead("hit", "shards hit", "summary", "shards hit", "shards_hit", "time"),
    ColumnHead("peak", "peak MiB", "summary", "peak MiB", "peak_mib", "time"),
)


def build_board(number: int, found: Aggregate, looks: Looks) -> tuple[list[dict[str, Any]], list[str]]:
    """Give the rows of one group, texts as in the tables, and what must be said of them, each sentence once.

    Args:
        number: Which group it is on the page.
        found: The group.
        looks: How methods are drawn.
    """
    summary = SUMMARY.build("summary", found)
    said, texts, apart = [*summary.notes], pd.DataFrame(index=summary.shown.index), pd.DataFrame()
    marked: frozenset[tuple[int, str]] = frozenset()
    try:
        ratio, _ = overlap(found)
        comparison = ComparisonTable().build("comparison", found)
        said += [*comparison.notes, *noop_notes(found, ratio)]
        texts, apart, marked = comparison.shown, comparison.data, comparison.marked
    except DataError as error:  # the split is unknown
        said.append(f"Nothing is marked: {error.message}")
    names = method_names(found)
    board = []
    for at, row in enumerate(found.group.rows):
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
                    {
                        "head": head,
                        "text": str(shown[head.table].get(head.text, "")),
                        "marked": (at, head.text) in marked,
                    }
                    for head in HEADS
                ],
                "values": [
                    _number(raw[head.value] if head.table == "summary" else to_best.get(head.value)) for head in HEADS
                ],
            }
        )
    return board, list(dict.fromkeys(said))


def _to_best(data: pd.DataFrame, row: str) -> dict[str, float]:
    """Map each view to the difference to its best method; 0 for the best itself."""
    mine = data[data["method"] == row] if len(data) else data
    return {
        str(one["view"]): 0.0 if one["best"] == row else one["difference"]
        for _, one in mine.iterrows()
        if one["best"] == row or not pd.isna(one["difference"])
    }


def _number(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(f"{float(value):.6g}")
