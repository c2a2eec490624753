"""A table of a paper in its own layout: a line a method, a column a model, what is printed with ours below it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import pandas as pd

from unlearnbench.errors import UsageError
from unlearnbench.registry.catalogue import Catalogue, Entry
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.notes import Command, Note
from unlearnbench.report.tables.table import Table

PUBLISHED, OURS = "published", "ours"
ABOUT = (
    "ours: with the defaults of each method, mean ± half of the 95 % interval. Other readings of its formulas, and"
    " whether the difference is more than chance: `unlearnbench report --table {name} --against {against}`."
)
SHARE, SECONDS, RATIO = "F1 in %", "seconds to unlearn", "time to unlearn, relative"


class _Quantity(NamedTuple):
    """What is printed and what we measured: columns of raw data."""

    title: str
    printed: str
    ours: str


QUANTITIES = (
    _Quantity(SHARE, "published_f1_micro", "f1_micro_mean"),
    _Quantity(SECONDS, "published_seconds", "unlearn_seconds_mean"),
    _Quantity(RATIO, "published_ratio", "ratio"),
)


def printed_tables(catalogue: Catalogue, plugin: str) -> dict[str, Entry]:
    """Return the tables of the paper that a plugin brings, by what they are called there.

    Raises:
        UsageError: No plugin of that name brings any.
    """
    entries = [one for alike in catalogue.entries["table"].values() for one in alike if one.printed]
    found = {one.printed: one for one in sorted(entries, key=lambda one: one.printed) if one.plugin == plugin}
    if not found:
        papers = ", ".join(sorted({one.plugin for one in entries})) or "none"
        raise UsageError(f"No tables of a paper {plugin!r} are known.", f"There are those of: {papers}.")
    return found


def laid_out(entry: Entry, tables: Sequence[Table], made_by: Command) -> list[Table]:
    """Lay tables that were set against published numbers out as the paper prints them.

    Args:
        entry: The table.
        tables: One for each dataset and model, with `source`, `published_at` and a quantity in their raw data.
        made_by: The command that makes it.

    Returns:
        One table for each quantity; tables without such numbers as they are.
    """
    if any("published_at" not in table.data for table in tables):
        return list(tables)
    lines = pd.DataFrame([line for table in tables for line in _lines(table.data)]).sort_values("at", kind="stable")
    data = pd.concat([table.data for table in tables], ignore_index=True)
    notes = dict.fromkeys(note for table in tables for note in table.notes if not isinstance(note, Command))
    about = Note(ABOUT.format(name=entry.name, against=entry.against))
    return [
        Table(
            entry.name,
            f"{entry.printed} of the {entry.against}, and ours: {title}.",
            _as_printed(lines[lines["title"] == title]),
            data,
            (about, *notes, made_by),
        )
        for title in (quantity.title for quantity in QUANTITIES)
        if title in set(lines["title"])
    ]


def _as_printed(lines: pd.DataFrame) -> pd.DataFrame:
    models, shown = list(dict.fromkeys(lines["model"])), []
    for row, part in lines.groupby("row", sort=False):
        by_whose = {
            whose: dict(zip(of_one["model"], of_one["text"], strict=True))
            for whose, of_one in part.sort_values("order", kind="stable").groupby("whose", sort=False)
        }
        views = [f"{OURS}, {view} view" for view in VIEWS]
        if by_whose.get(views[0]) == by_whose.get(views[1], {}):  # one network: both views are the same
            by_whose = {PUBLISHED: by_whose[PUBLISHED], OURS: by_whose[views[0]]}
        for at, (whose, texts) in enumerate(by_whose.items()):
            cells = {model: texts.get(model, "") for model in models}
            shown.append({"in the paper": "" if at else row, "": whose, **cells})
    return pd.DataFrame(shown)


def _lines(data: pd.DataFrame) -> Iterator[dict[str, Any]]:
    """Yield what is printed and what is ours, for each number of one dataset and model."""
    for _, row in data.iterrows():
        where = {"row": str(row["source"]).partition(": ")[2], "at": int(row["published_at"]), "model": row["model"]}
        for quantity in QUANTITIES:
            if quantity.printed not in data or pd.isna(row[quantity.printed]):
                continue
            view = str(row.get("view", ""))
            place = 1 + VIEWS.index(view) if view else 1
            whose = f"{OURS}, {view} view" if view else OURS
            for order, one, text in zip((0, place), (PUBLISHED, whose), _texts(quantity, row), strict=True):
                yield {**where, "title": quantity.title, "whose": one, "order": order, "text": text}


def _texts(quantity: _Quantity, row: pd.Series[Any]) -> tuple[str, str]:
    ours = row[quantity.ours]
    if quantity.title == SHARE:
        sd = None if pd.isna(row["published_sd"]) else float(row["published_sd"])
        low, high = (None if pd.isna(row[end]) else float(row[end]) for end in ("low", "high"))
        half = None if low is None or high is None else (high - low) / 2
        printed = formatting.percent(float(row[quantity.printed]), sd)
        return printed, "" if pd.isna(ours) else formatting.percent(float(ours), half)
    printed = f"{float(row[quantity.printed]):.2f}"
    return printed, "" if pd.isna(ours) else f"{float(ours):.2f}"
