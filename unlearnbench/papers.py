"""The paper that a component is from, as one cites it."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True)
class Paper:
    """A published paper.

    Args:
        authors: As in BibTeX: `Chen, Min and Zhang, Zhikun`.
        title: Without a full stop.
        venue: Proceedings or journal.
        year: Of the publication.
        url: A DOI or an address of the text; empty where none is known.
    """

    authors: str
    title: str
    venue: str
    year: int
    url: str = ""

    @property
    def key(self) -> str:
        """The key of its entry: first author, year and first word of the title, as in `chen2022graph`."""
        surname, word = self.authors.partition(",")[0], re.split(r"[\s:]", self.title)[0]
        return re.sub(r"[^a-z0-9]", "", f"{surname}{self.year}{word}".lower())

    def bibtex(self) -> str:
        """Return its entry in BibTeX, several lines; braces keep the capitals of the title."""
        fields = {
            "author": self.authors,
            "title": f"{{{self.title}}}",
            "booktitle": self.venue.replace("&", r"\&"),
            "year": str(self.year),
            "url": self.url,
        }
        lines = [f"  {name:<9} = {{{value}}}," for name, value in fields.items() if value]
        return "\n".join([f"@inproceedings{{{self.key},", *lines, "}"])
