"""Tables of a page that a program writes between `<!-- table NAME -->` and `<!-- end -->`; people write the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

BLOCK = re.compile(r"(<!-- table (?P<name>[a-z-]+) -->\n\n).*?(\n\n<!-- end -->)", re.S)

Tables = Mapping[str, Callable[[Any], list[str]]]
"""The lines of each table by its name, made of the evidence."""


def written(text: str, tables: Tables, evidence: Any) -> str:
    """Return a page with its tables made anew.

    Raises:
        KeyError: The page has a table of another name.
    """
    return BLOCK.sub(lambda found: found[1] + "\n".join(tables[found["name"]](evidence)) + found[3], text)


def stale(text: str, anew: str) -> list[str]:
    """Return the names of the tables that are not what they would be if they were made anew."""
    pairs = zip(BLOCK.finditer(text), BLOCK.finditer(anew), strict=True)
    return [found["name"] for found, other in pairs if found[0] != other[0]]


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    columns = list(head)
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    return [lines[0], "|" + "---|" * len(columns), *lines[1:]]


def number(row: Mapping[str, Any], name: str) -> float | None:
    """Return a number of a row; None where it has none."""
    value = row.get(name)
    return None if value is None or value == "" or pd.isna(value) else float(value)


def fixed(value: float | None, digits: int, missing: str = "") -> str:
    """Write a number with so many decimals, never as -0."""
    return missing if value is None or pd.isna(value) else f"{round(value, digits) + 0.0:.{digits}f}"
