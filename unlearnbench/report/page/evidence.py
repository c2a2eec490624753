"""The section of the page on forgetting: the table `forgetting` with what stands behind each cell."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.aliases import alias_notes
from unlearnbench.report.page.rows import path_of, short
from unlearnbench.report.tables.evidence import Cell
from unlearnbench.report.tables.forgetting import NAME, forgetting_places, forgetting_table
from unlearnbench.report.tables.index import command_note


def build_evidence(groups: Sequence[Aggregate], audits: pd.DataFrame | None, source: str) -> list[dict[str, Any]]:
    """Return each place with its columns, and rows whose cells hold their text, number, interval and records."""
    places = []
    for place in forgetting_places(groups, audits):
        table, first = forgetting_table(place), place.audits.iloc[0]
        rows = [
            {"method": place.names[config], "claim": place.claim(config), "cells": list(map(_cell, cells))}
            for config, cells in place.rows.items()
        ]
        places.append(
            {
                **{name: str(first[name]) for name in ("dataset", "model")},
                "caption": table.caption,
                "heads": place.heads(),
                "rows": rows,
                "notes": (*table.notes, *alias_notes(table.shown, place.audits), command_note(source, NAME)),
            }
        )
    return places


def _cell(cell: Cell) -> dict[str, Any]:
    return {
        "text": cell.text,
        "value": short(cell.value),
        "said": _said(cell),
        "records": [[path_of(row), row["status"], int(row["repetition"])] for _, row in cell.records.iterrows()],
    }


def _said(cell: Cell) -> str:
    interval = "" if cell.low is None or cell.high is None else f"95 % interval {cell.low:.4g} to {cell.high:.4g}"
    count = f"n = {cell.n}" if cell.n else ""
    return "; ".join(filter(None, (interval, count, cell.state)))
