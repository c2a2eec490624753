"""Notes below tables: each in full, and in the short form that a terminal shows."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Self

from typing_extensions import override

from unlearnbench.report.frame.note import Note as Note

LONG = 100
"""Characters from which on a note without a short form is cut."""


class Command(Note):
    """The last line below a table: how it is made."""

    @override
    def __new__(cls, text: str, short: str = "") -> Self:
        return super().__new__(cls, text, text)


def details(texts: Iterable[str]) -> Iterator[Note]:
    """Turn sentences into notes that only those see who ask for all."""
    return (Note(text) for text in texts)


def shortened(note: str) -> str:
    """Return what a terminal shows of a note: its short form, or of a long one without it the first clause."""
    if isinstance(note, Note):
        return note.short
    if len(note) <= LONG:
        return note
    clause = re.split(r"[.;] ", note, maxsplit=1)[0]
    return clause if clause == note else f"{clause}."


def with_text(note: str, change: Callable[[str], str]) -> str:
    """Change the text of a note, and its short form with it."""
    return type(note)(change(note), change(note.short)) if isinstance(note, Note) else change(note)


def gathered(notes_of_tables: Sequence[Sequence[str]], short: bool) -> tuple[list[str], list[str]]:
    """Gather the notes of several tables, each once, with the numbers of the tables it is of unless it is of all.

    Args:
        notes_of_tables: The notes of each table.
        short: In the short form.

    Returns:
        The notes in the order in which they first stand, and the commands.
    """
    places: tuple[dict[str, list[int]], dict[str, list[int]]] = ({}, {})
    for number, notes in enumerate(notes_of_tables, start=1):
        for note in notes:
            text = shortened(note) if short else str(note)
            if text:
                numbers = places[isinstance(note, Command)].setdefault(text, [])
                numbers += [number] if number not in numbers else []
    total = len(notes_of_tables)
    notes, commands = (
        [text if len(numbers) == total else f"[{_ranges(numbers)}] {text}" for text, numbers in kind.items()]
        for kind in places
    )
    return notes, commands


def _ranges(numbers: Sequence[int]) -> str:
    """Write ascending numbers, three and more in a row as a range: 1, 3-6."""
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    texts = (f"{run[0]}-{run[-1]}" if len(run) > 2 else ", ".join(map(str, run)) for run in runs)
    return ", ".join(texts)
