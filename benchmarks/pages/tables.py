"""Tables of a page that a program writes between `<!-- table NAME -->` and `<!-- end -->`; people write the rest."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pandas as pd

MARK = re.compile(r"<!-- table(?: (?P<name>[a-z-]+) -->)?")
BLOCK = re.compile(r"(<!-- table (?P<name>[a-z-]+) -->\n\n)(?P<lines>(?:(?!<!-- ).)*?)(\n\n<!-- end -->)", re.S)

Tables = Mapping[str, Callable[[Any], list[str]]]
"""The lines of each table by its name, made of the evidence."""


def written(text: str, tables: Tables, evidence: Any) -> str:
    """Return a page with its tables made anew.

    Raises:
        ValueError: The page does not have each of the tables once, or not between both marks.
    """
    marked = [mark["name"] or text[mark.start() :].partition("\n")[0] for mark in MARK.finditer(text)]
    whole = [block["name"] for block in BLOCK.finditer(text)]
    if not sorted(marked) == sorted(whole) == sorted(tables):
        wrong = {*marked} ^ {*tables} | {*marked} - {*whole} | {name for name in marked if marked.count(name) > 1}
        raise ValueError(f"unknown, missing, there twice or without an end: table {', '.join(sorted(wrong))}")
    return BLOCK.sub(lambda block: block[1] + "\n".join(tables[block["name"]](evidence)) + block[4], text)


def stale(text: str, anew: str) -> list[str]:
    """Return the names of the tables that are not what they would be if they were made anew."""
    pairs = zip(BLOCK.finditer(text), BLOCK.finditer(anew), strict=True)
    return [old["name"] for old, new in pairs if old[0] != new[0]]


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
