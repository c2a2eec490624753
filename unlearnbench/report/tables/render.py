"""Writes tables as text, Markdown, LaTeX and CSV."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import pandas as pd
from tabulate import tabulate

from unlearnbench.errors import unknown_name
from unlearnbench.report.tables.notes import with_text
from unlearnbench.report.tables.table import Table
from unlearnbench.report.tables.text import Paint, plain, text_of

FORMATS = ("text", "md", "latex", "csv", "json")
_LATEX = {
    "\\": r"\textbackslash{}",
    **{char: f"\\{char}" for char in "&%$#_{}"},
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\ensuremath{<}",
    ">": r"\ensuremath{>}",
    "±": r"\ensuremath{\pm}",
    "†": r"\ensuremath{\dagger}",
}
# Stand around a marked cell until tabulate has escaped the rest; of the private use area, so in no text.
_BOLD = {"\ue000": r"\textbf{", "\ue001": "}"}
_FORMULA = ("=", "+", "-", "@", "\t", "\r", "\n")


def render(
    tables: Sequence[Table], style: str = "text", width: int | None = None, short: bool = False, paint: Paint = plain
) -> str:
    """Write tables one after the other.

    Args:
        tables: What `build_tables` gave.
        style: `text`, `md`, `latex` (needs the package booktabs), `csv` (raw numbers; one head
            for all tables) or `json` (raw numbers, captions and notes; what is missing is null).
        width: Columns of the terminal that `text` has to fit.
        short: Show the notes of `text` in their short form, a few of them.
        paint: Colours `text`: takes a text and `bold` or `dim`.

    Raises:
        UsageError: An unknown format.
    """
    if style == "csv":
        return csv_text(pd.concat([table.data for table in tables], ignore_index=True))
    if style == "json":
        return json.dumps([_plain(table) for table in tables], indent=1, allow_nan=False)
    tables = [_printable_table(table) for table in tables]
    if style == "text":
        return text_of(tables, width, short, paint)
    writers = {"md": _markdown, "latex": _latex}
    if style not in writers:
        raise unknown_name("format", style, FORMATS)
    return "\n".join(map(writers[style], tables))


def printable(text: str) -> str:
    r"""Write what a terminal would act on, and what no file can hold, as `\x1b`: a label may come from anyone."""
    return "".join(char if char.isprintable() or char == "\n" else ascii(char)[1:-1] for char in text)


def _printable_table(table: Table) -> Table:
    shown = table.shown.map(lambda cell: printable(str(cell)))
    notes = tuple(with_text(note, printable) for note in table.notes)
    sentences = tuple(map(printable, table.sentences))
    return replace(table, caption=printable(table.caption), shown=shown, notes=notes, sentences=sentences)


def csv_text(data: pd.DataFrame) -> str:
    r"""Write a CSV with `\n` line ends: the same bytes wherever it is written.

    Numbers have up to ten significant digits; what is missing is empty. A text that begins with
    `=`, `+`, `-`, `@` or a control character gets an apostrophe in front, so that no spreadsheet
    takes it for a formula. Half a surrogate pair, which no file can hold, is written as `\udc80`.
    """
    lines = [",".join(_quoted(str(name)) for name in data.columns)]
    lines += [",".join(_quoted(_csv_cell(value)) for value in row) for row in data.itertuples(index=False, name=None)]
    return "\n".join(lines) + "\n"


def _csv_cell(value: Any) -> str:
    if isinstance(value, str):
        value = value.encode("utf-8", "backslashreplace").decode("utf-8")
        return f"'{value}" if value.startswith(_FORMULA) else value
    if pd.isna(value):
        return ""
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and math.fabs(value) < 1e15 else f"{value:.10g}"
    return str(value)


def _quoted(text: str) -> str:
    return '"' + text.replace('"', '""') + '"' if set(text) & set(',"\r\n') else text


def _plain(table: Table) -> dict[str, Any]:
    """Return a table as plain JSON values: the raw numbers, which rows stand out, and what is said of it."""
    rows = [
        {str(name): _json_cell(value) for name, value in zip(table.data.columns, row, strict=True)}
        for row in table.data.itertuples(index=False, name=None)
    ]
    return {"table": table.name, "caption": table.caption, "rows": rows, "notes": list(table.notes)}


def _json_cell(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-8", "backslashreplace").decode("utf-8")
    if pd.isna(value):
        return None
    plain = value.item() if hasattr(value, "item") else value
    if isinstance(plain, float) and not math.isfinite(plain):
        return None
    return plain if isinstance(plain, bool | int | float) else str(plain)


def _markdown(table: Table) -> str:
    rows = _rows(table, lambda cell: f"**{cell}**", _escaped_markdown)
    heads = [_escaped_markdown(name) for name in table.shown.columns]
    body = tabulate(rows, headers=heads, tablefmt="pipe", disable_numparse=True, colalign=_alignment(table))
    notes = [f"- {_escaped_markdown(note)}" for note in table.notes]
    return "\n".join([f"**{_escaped_markdown(table.caption)}**", "", body, "", *notes, ""])


def _latex(table: Table) -> str:
    heads = list(table.shown.columns)
    before, after = _BOLD
    rows = _rows(table, lambda cell: f"{before}{cell}{after}", lambda cell: cell.replace(before, "").replace(after, ""))
    body = tabulate(rows, headers=heads, tablefmt="latex_booktabs", disable_numparse=True, colalign=_alignment(table))
    for char, command in (*((char, _LATEX[char]) for char in "±†"), *_BOLD.items()):
        body = body.replace(char, command)
    notes = [f"% {' '.join(note.split())}" for note in table.notes]
    caption = rf"\caption{{{escaped_latex(table.caption)}}}"
    head = [r"% needs \usepackage{booktabs}", r"\begin{table}", r"\centering", caption]
    return "\n".join([*head, body, r"\end{table}", *notes, ""])


def escaped_latex(text: str) -> str:
    """Write text so that LaTeX shows it as it is."""
    return "".join(_LATEX.get(char, char) for char in " ".join(text.split()))


def _escaped_markdown(text: str) -> str:
    flat = " ".join(text.split())
    return "".join(f"\\{char}" if char in "\\|*_[]<>`" else char for char in flat)


def _rows(table: Table, mark: Callable[[str], str], escape: Callable[[str], str] = str) -> list[list[str]]:
    marked = {(row, table.shown.columns.get_loc(column)) for row, column in table.marked}
    cells = [[escape(str(cell)) for cell in row] for row in table.shown.itertuples(index=False, name=None)]
    return [[mark(cell) if (i, j) in marked else cell for j, cell in enumerate(row)] for i, row in enumerate(cells)]


def _alignment(table: Table) -> list[str]:
    return ["right" if all(map(_is_numeric, table.shown[name])) else "left" for name in table.shown.columns]


def _is_numeric(cell: Any) -> bool:
    text = str(cell).lstrip("-+=< ")
    return not text or text[0].isdigit()
