"""Columns of text that fit a width: heads and cells are broken where words, labels and spreads allow it."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from functools import cache

GAP = "  "
# Lines a row may take on average; beyond it a table is read more easily row by row.
TALLEST = 4.0
_MARKS = ("*", "†", "=")
_PARTS = re.compile(r"[^\[,;]*[\[,;]?")
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
    cells = [list(map(str, column)) for column in zip(heads, *rows, strict=True)]
    widths = [max(map(len, column)) for column in cells]
    if width is not None:
        _fit(cells, widths, width - len(GAP) * (len(heads) - 1))
        if sum(widths) + len(GAP) * (len(heads) - 1) > width:
            return None
    blocks = [_lines(row, widths) for row in zip(*cells, strict=True)]
    if rows and sum(map(len, blocks[1:])) > TALLEST * len(rows):
        return None
    rule = GAP.join("-" * one for one in widths)
    return [*map(bold, blocks[0]), rule, *(line for block in blocks[1:] for line in block)]


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

    A label can be broken behind its bracket and its commas; a sign stays with its number, and a mark with its cell.
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
