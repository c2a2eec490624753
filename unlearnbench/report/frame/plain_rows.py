"""Rows of a frame as dictionaries: what is done row by row takes a hundredth of the time with them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pandas as pd

Row = Mapping[str, Any]


def plain_rows(frame: pd.DataFrame, names: Iterable[str] | None = None) -> list[Row]:
    """Return the rows of a frame, each with its values in some columns by name; default: in all."""
    # `frame[names].to_dict("records")` is the same, and takes several times longer for a wide frame.
    columns = {str(name): frame[name].tolist() for name in (frame.columns if names is None else names)}
    return [dict(zip(columns, row, strict=True)) for row in zip(*columns.values(), strict=True)]


def rows_by(frame: pd.DataFrame, column: str, names: Iterable[str]) -> dict[str, list[Row]]:
    """Return the rows of a frame by the value of a column, each with its values in the columns `names`."""
    found: dict[str, list[Row]] = {}
    for value, row in zip(frame[column], plain_rows(frame, names), strict=True):
        found.setdefault(str(value), []).append(row)
    return found
