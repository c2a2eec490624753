"""How messages are written in a terminal: of one form, broken at words, in colour where that is welcome.

In a file or a pipe a message is one line without colour, so that it can be searched for.
"""

from __future__ import annotations

import os
import re
import shutil
import sys
import textwrap
import warnings
from typing import Any

WIDTH = 80
"""Columns where the width of a terminal is not known."""
_COLOURS = {"error": "31;1", "hint": "36", "warning": "33", "note": "36", "bold": "1", "dim": "2", "green": "32;1"}
# Commands, and a spread with its sign and its mark.
_ONE_PIECE = re.compile(r"`[^`]*`|± \S+(?: [*†=](?!\S))?")
_GLUE = "\ue010"  # of the private use area, so in no text


def is_coloured(stream: Any) -> bool:
    """Whether a stream is a terminal that takes colours, and `NO_COLOR` does not forbid them."""
    is_plain = os.environ.get("NO_COLOR") or os.environ.get("TERM") == "dumb"
    return not is_plain and stream is not None and stream.isatty()


def painted(text: str, colour: str, stream: Any) -> str:
    """Return text in a colour of `_COLOURS` if a stream takes colours."""
    return f"\x1b[{_COLOURS[colour]}m{text}\x1b[0m" if text and is_coloured(stream) else text


def columns() -> int:
    """Return the columns of the terminal, as `COLUMNS` or the terminal says; `WIDTH` where none does."""
    return max(20, shutil.get_terminal_size((WIDTH, 24)).columns)


def broken(text: str, width: int, hang: str = "") -> str:
    """Break each line of a text at words; a command in backquotes stays in one piece.

    Args:
        text: One line or several.
        width: The most columns of a line; a longer word stands alone.
        hang: What stands before every line but the first.
    """
    glued = _ONE_PIECE.sub(lambda piece: piece[0].replace(" ", _GLUE), text)
    lines: list[str] = []
    for paragraph in glued.split("\n"):
        wrapper = textwrap.TextWrapper(
            width,
            initial_indent=hang if lines else "",
            subsequent_indent=hang,
            break_long_words=False,
            break_on_hyphens=False,
        )
        lines += wrapper.wrap(paragraph) or [""]
    return "\n".join(lines).replace(_GLUE, " ")


def write_message(kind: str, text: str) -> None:
    """Write `kind: text` to standard error.

    Args:
        kind: `error`, `hint`, `warning` or `note`.
        text: One sentence or several.
    """
    stream = sys.stderr
    if stream is None:
        return
    line = f"{kind}: {text}"
    if stream.isatty():
        line = broken(line, columns(), " " * (len(kind) + 2))
    print(painted(f"{kind}:", kind, stream) + line.removeprefix(f"{kind}:"), file=stream)


def hide_warnings_of_torch() -> None:
    """Hide what torch and PyG say to those who program with them, unless Python was started with `-W`."""
    if not sys.warnoptions:
        for category in (FutureWarning, DeprecationWarning):
            warnings.filterwarnings("ignore", category=category, module=r"torch(_geometric)?(\.|$)")


def note(text: str) -> None:
    """Write a note: something that one should know."""
    write_message("note", text)


def warning(text: str) -> None:
    """Write a warning: something that may be wrong."""
    write_message("warning", text)


def error(message: str, hint: str = "") -> None:
    """Write an error, and what helps against it."""
    write_message("error", message)
    if hint:
        write_message("hint", hint)
