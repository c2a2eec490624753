"""Columns of text that fit a width: heads and cells are broken where words, labels and spreads allow it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from itertools import groupby

from unlearnbench.messages import broken

GAP = "  "
# Lines a row may take on average; beyond it a table is read more easily row by row.
TALLEST = 4.0
# Rows that share their first cells, on average, where these are written once above them.
LEAST_SHARED = 3
# Lines a row may take there on average: one, or where that is too few three.
SHORT_ROWS = (1.0, 3.0)
# How many of the first cells may stand above.
MOST_LEADING = 2
_MARKS = ("*", "†", "=")
_PARTS = re.compile(r"\[?[^\[,;]*[\[,;]?")
_INDENT = "  "

Paint = Callable[[str], str]


def laid_out(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, bold: Paint = str
) -> list[str] | None:
    """Lay a table out in lines, as the format `simple` of tabulate does.

    Args:
        heads: One a column.
        rows: The cells, line by line; what `bold` gets are whole lines of a cell.
        width: The most columns; None: any number.
        bold: How heads are written.

    Returns:
        The lines; None where the table does not fit, or would be too tall to be read.
    """
    blocks = _blocks(heads, rows, width, TALLEST)
    if blocks is None:
        return None
    head, rule, *others = blocks
    return [*map(bold, head), *rule, *(line for block in others for line in block)]


def filled(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, bold: Paint = str
) -> list[str] | None:
    """Lay a table out without the columns that are empty in every row. Takes and returns what `laid_out` does."""
    held = [column for column in range(len(heads)) if any(row[column] for row in rows)]
    return (
        laid_out([heads[at] for at in held], [[row[at] for at in held] for row in rows], width, bold) if held else None
    )


def grouped(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, bold: Paint = str
) -> list[str] | None:
    """Lay out a table whose rows share cells: what all have stands above it, their first cells above those with them.

    Takes what `laid_out` takes. Returns None where few rows share their first cells, or the rest does not fit in three
    lines a row.
    """
    for tallest in SHORT_ROWS:
        for leading in range(1, MOST_LEADING + 1):
            lines = _below_first_cells(heads, rows, width, bold, leading, tallest)
            if lines is not None:
                return lines
    return None


def common_above(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, bold: Paint = str
) -> list[str] | None:
    """Lay out a table below what stands in all of its rows; None where these are few. Takes what `laid_out` takes."""
    return _below_first_cells(heads, rows, width, bold, 0, TALLEST)


def _below_first_cells(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, bold: Paint, leading: int, tallest: float
) -> list[str] | None:
    names = [", ".join(row[:leading]) for row in rows]
    if len(rows) < LEAST_SHARED * len([name for name, _ in groupby(names)]):
        return None
    others = range(leading, len(heads))
    differing = [column for column in others if len({row[column] for row in rows}) > 1]
    indent = _INDENT if leading else ""
    room = None if width is None else width - len(indent)
    blocks = _blocks([heads[at] for at in differing], [[row[at] for at in differing] for row in rows], room, tallest)
    if blocks is None:
        return None
    common = [f"{heads[at]} {rows[0][at]}" for at in others if at not in differing and rows[0][at]]
    head, rule, *lines = ([indent + line for line in block] for block in blocks)
    above = f"All rows: {'; '.join(common)}"
    laid = (above if width is None else broken(above, width, _INDENT)).split("\n") if common else []
    laid += [*map(bold, head), *rule]
    for name, pairs in groupby(zip(names, lines, strict=True), lambda pair: pair[0]):
        laid += [*([bold(name)] if leading else []), *(line for _, block in pairs for line in block)]
    return laid


def _blocks(
    heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, tallest: float
) -> list[list[str]] | None:
    """Return the lines of the head, the rule below it and the lines of each row; None where they do not fit."""
    cells = [list(map(str, column)) for column in zip(heads, *rows, strict=True)]
    widths = [max(map(len, column)) for column in cells]
    if width is not None:
        _fit(cells, widths, width - len(GAP) * (len(heads) - 1))
        if sum(widths) + len(GAP) * (len(heads) - 1) > width:
            return None
    head, *blocks = [_lines(row, widths) for row in zip(*cells, strict=True)]
    if rows and sum(map(len, blocks)) > tallest * len(rows):
        return None
    return [head, [GAP.join("-" * one for one in widths)], *blocks]


def _fit(cells: list[list[str]], widths: list[int], room: int) -> None:
    """Make columns narrower until they fit, those first that add the fewest lines for what they give."""
    while sum(widths) > room:
        steps = []
        for column, width in enumerate(widths):
            narrower = max(len(line) for cell in cells[column] for line in wrapped(cell, width - 1, column == 0))
            if narrower < width:
                before, after = (
                    sum(len(wrapped(cell, one, column == 0)) for cell in cells[column]) for one in (width, narrower)
                )
                steps.append(((after - before) / (width - narrower), column, narrower))
        if not steps:
            return
        _, column, narrower = min(steps)
        widths[column] = narrower


def _lines(row: Sequence[str], widths: Sequence[int]) -> list[str]:
    parts = [wrapped(cell, width, column == 0) for column, (cell, width) in enumerate(zip(row, widths, strict=True))]
    lines = []
    for number in range(max(map(len, parts))):
        texts = [part[number] if number < len(part) else "" for part in parts]
        lines.append(GAP.join(f"{text:<{width}}" for text, width in zip(texts, widths, strict=True)).rstrip())
    return lines


@cache
def wrapped(cell: str, width: int, is_label: bool = False) -> tuple[str, ...]:
    """Break a cell into lines; a piece that is longer than the width stands alone, and labels go on indented."""
    if len(cell) <= width:
        return (cell,)
    lines: list[str] = []
    for piece in _pieces(cell):
        indent = _INDENT if is_label and lines else ""
        if lines and len(lines[-1] + piece) <= width:
            lines[-1] += piece
        else:
            lines.append(indent + piece.lstrip())
    return tuple(lines)


def _pieces(cell: str) -> Iterator[str]:
    """Yield what must not be broken, with the space before it.

    A label can be broken behind its bracket and its commas, an interval before its bracket; a sign stays with its
    number, and a mark with its cell.
    """
    words: list[str] = []
    for word in cell.split(" "):
        if words and (word in _MARKS or words[-1] == "±"):
            words[-1] += f" {word}"
        else:
            words.append(word)
    for number, word in enumerate(words):
        for place, part in enumerate(filter(None, _PARTS.findall(word))):
            yield f" {part}" if number and not place else part
