"""Tables as a terminal shows them: each with its caption, and the notes once, below the last."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from unlearnbench.messages import broken
from unlearnbench.report.tables.layout import common_above, filled, grouped, laid_out
from unlearnbench.report.tables.notes import gathered
from unlearnbench.report.tables.table import Table

MOST_SENTENCES = 30
"""Rows up to which a table is followed by a sentence each, unless all notes are asked for."""
MOST_NOTES = 12
"""Short notes that are shown; a table of many audits has hundreds."""

LAYOUTS = (laid_out, filled, grouped, common_above)
"""The layouts that are tried in this order, before a table is written row by row."""

Paint = Callable[[str, str], str]


def plain(text: str, colour: str) -> str:
    """Return a text without colour."""
    return text


def text_of(tables: Sequence[Table], width: int | None = None, short: bool = False, paint: Paint = plain) -> str:
    """Write tables one after the other.

    Args:
        tables: Their texts are printable.
        width: Columns of the terminal; None: any number.
        short: Show the notes in their short form, a few of them.
        paint: Takes a text and `bold` or `dim`, and returns it in colour.
    """
    parts = []
    for number, table in enumerate(tables, start=1):
        caption = table.caption if len(tables) == 1 else f"[{number}] {table.caption}"
        caption = caption if width is None else broken(caption, width)
        lines = "\n".join(paint(line, "bold") for line in caption.split("\n"))
        parts += [lines, "", _body(table, width, paint), ""]
        if table.sentences and (not short or len(table.sentences) <= MOST_SENTENCES):
            parts += [one if width is None else broken(one, width, "  ") for one in table.sentences] + [""]
    notes_of_tables = [table.notes for table in tables]
    notes, commands = gathered(notes_of_tables, short)
    if short:
        left = len(gathered(notes_of_tables, False)[0]) - len(notes[:MOST_NOTES])
        notes = notes[:MOST_NOTES] + ([_more(left)] if left > 0 else [])
    parts += [paint(note if width is None else broken(note, width, "  "), "dim") for note in notes]
    # A command is copied from here, so it stays on one line.
    parts += [paint(command, "dim") for command in commands]
    return "\n".join([*parts, ""])


def _more(count: int) -> str:
    return f"{count} more note{'s' if count > 1 else ''}: add --notes to the command below."


def _body(table: Table, width: int | None, paint: Paint) -> str:
    marked = {(row, table.shown.columns.get_loc(column)) for row, column in table.marked}
    heads = [str(name) for name in table.shown.columns]
    rows = [
        [f"{cell} =" if (i, j) in marked else str(cell) for j, cell in enumerate(row)]
        for i, row in enumerate(table.shown.itertuples(index=False, name=None))
    ]
    lines = next(filter(None, (lay(heads, rows, width, lambda line: paint(line, "bold")) for lay in LAYOUTS)), None)
    return "\n".join(lines) if lines is not None else _row_by_row(heads, rows, width, paint)


def _row_by_row(heads: Sequence[str], rows: Sequence[Sequence[str]], width: int | None, paint: Paint) -> str:
    """Write a table that no line of a narrow terminal can hold: a block for each row, empty cells left out."""
    room = max(map(len, heads[1:]), default=0)
    blocks = []
    for first, *others in rows:
        cells = [f"  {head:<{room}}  {cell}" for head, cell in zip(heads[1:], others, strict=True) if cell]
        if width is not None:
            cells = [broken(cell, width, " " * (room + 4)) for cell in cells]
        blocks.append("\n".join([paint(first, "bold"), *cells]))
    return "\n".join(blocks)
