"""A sentence that stands below a table, and what a terminal shows of it."""

from __future__ import annotations

from typing import Self

from typing_extensions import override


class Note(str):
    """A sentence below a table.

    Args:
        text: The sentence.
        short: What a terminal shows of it; empty: nothing, unless all notes are asked for. A plain `str` among
            the notes of a table is shown as `shortened` says.
    """

    __slots__ = ("short",)
    short: str

    @override
    def __new__(cls, text: str, short: str = "") -> Self:
        self = super().__new__(cls, text)
        self.short = short
        return self
