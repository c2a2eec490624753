"""Corrective unlearning: accuracy on manipulated classes and on all others, where a part of what is wrong is known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.poison import LEAST_HARM, recovery, wrong_things
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, shown_names, shown_statuses, with_facets
from unlearnbench.statistics.averages import mean, sample_sd

CLASSES = ("affected", "remaining")
MOMENTS = {"clean": "_clean", "poisoned": "_before", "unlearned": ""}
"""What a table calls a moment, to the end of the name of a column of the frame."""


def corrective_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build the table of a group; none if nothing was manipulated in its records."""
    if not set(_columns()) <= set(averages.chosen) or averages.chosen["accuracy_affected_clean"].isna().all():
        return []
    names, status = shown_names(averages), shown_statuses(averages.data)
    by_view: dict[str, list[dict[str, str]]] = {view: [] for view in VIEWS}
    units, raw = averages.group.units, []
    for view, lines in by_view.items():
        for at, (row, config) in enumerate(zip(averages.data["method"], averages.data["method_config"], strict=True)):
            cells = _complete(averages, row, view)
            shown, numbers = _scores(cells)
            count = {"n": shown_count(len(cells), units)}
            lines.append({"method": names[at], "view": view, **count, **shown, "status": status[at]})
            expected = {"n": len(cells), "expected": units}
            raw.append({"method": row, "view": view, **expected, **numbers, "method_config": config})
    lines = _merged(by_view)
    heads = [head for head in lines[0] if head != "status" or any(status)]
    facets = with_facets(name, averages, pd.DataFrame(raw))
    caption = f"Corrective unlearning: {averages.group.name}."
    return [Table(name, caption, pd.DataFrame(lines, columns=heads), facets, tuple(_notes(averages)))]


def _merged(by_view: Mapping[str, Sequence[Mapping[str, str]]]) -> list[dict[str, str]]:
    """Put the rows of all views below each other; once, where none of them differs, as without shards."""
    bare = [[{**line, "view": ""} for line in lines] for lines in by_view.values()]
    if all(lines == bare[0] for lines in bare):
        return [{**line, "view": " and ".join(by_view)} for line in bare[0]]
    return [dict(line) for lines in by_view.values() for line in lines]


def _columns() -> list[str]:
    return [f"accuracy_{classes}{end}" for classes in CLASSES for end in MOMENTS.values()]


def _complete(averages: Aggregate, row: str, view: str) -> pd.DataFrame:
    """Return the repetitions of a row that have every moment."""
    cells = averages.chosen[(averages.chosen["row"] == row) & (averages.chosen["view"] == view)]
    return cells[cells["status"] == "ok"].dropna(subset=_columns())


def _scores(cells: pd.DataFrame) -> tuple[dict[str, str], dict[str, Any]]:
    """Average the accuracies; as text and as numbers."""
    shown: dict[str, str] = {}
    numbers: dict[str, Any] = {}
    for classes in CLASSES:
        means = {}
        for moment, end in MOMENTS.items():
            values = [float(value) for value in cells[f"accuracy_{classes}{end}"]]
            value, spread = mean(values), sample_sd(values)
            means[moment] = value
            shown[f"{classes}, {moment} %"] = "" if value is None else formatting.percent(value, spread)
            numbers |= {f"{classes}_{moment}_mean": value, f"{classes}_{moment}_sd": spread}
        if classes == "affected":
            share = numbers["recovery"] = recovery(means["clean"], means["poisoned"], means["unlearned"])
            shown["recovery"] = "" if cells.empty else "NA" if share is None else formatting.hundredths(share)
    return shown, numbers


def _notes(averages: Aggregate) -> Iterator[str]:
    wrong, known = wrong_things(averages)
    yield (
        f"n: repetitions of {averages.group.units} with status ok, mean ± sample standard deviation (none for n = 1);"
        " accuracy on the test nodes of the two affected classes and on those of the remaining ones."
    )
    yield (
        f"clean: trained without any of the {wrong}; poisoned: trained with all of them; unlearned: after forgetting"
        f" {known}. Of retrain, clean is the oracle and unlearned is training anew without what is known; poisoned is"
        " what doing nothing leaves."
    )
    yield (
        "recovery: (unlearned - poisoned)/(clean - poisoned) of the means on the affected classes, 1 where all of the"
        f" damage is undone; NA where it was less than {100 * LEAST_HARM:g} points."
    )
    yield from origin_notes(averages, has_views=True)
    yield from details(averages.notes)
