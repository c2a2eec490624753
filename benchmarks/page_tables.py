"""Tables of a page that a program writes between `<!-- table NAME -->` and `<!-- end -->`; people write the rest."""

from __future__ import annotations

import argparse
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]
BLOCK = re.compile(r"(<!-- table (?P<name>[a-z-]+) -->\n\n).*?(\n\n<!-- end -->)", re.S)

Tables = Mapping[str, Callable[[Any], list[str]]]
"""The lines of each table by its name, made of the evidence."""


def written(text: str, tables: Tables, evidence: Any) -> str:
    """Return a page with its tables made anew.

    Raises:
        KeyError: The page has a table of another name.
    """
    return BLOCK.sub(lambda found: found[1] + "\n".join(tables[found["name"]](evidence)) + found[3], text)


def table(head: Iterable[str], rows: Iterable[Iterable[str]]) -> list[str]:
    """Return the lines of a table in Markdown."""
    columns = list(head)
    lines = [f"| {' | '.join(cells)} |" for cells in (columns, *rows)]
    return [lines[0], "|" + "---|" * len(columns), *lines[1:]]


def main(doc: str | None, page: Path, tables: Tables, read: Callable[[Path], Any]) -> None:
    """Write the tables of a page, or compare them with those that it has.

    Args:
        doc: What `--help` says.
        page: The page, unless another is named.
        tables: What may stand in it.
        read: Returns the evidence of a results folder.
    """
    parser = argparse.ArgumentParser(description=doc, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--results", type=Path, default=ROOT / "results")
    parser.add_argument("--page", type=Path, default=page)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    text = given.page.read_text("utf-8")
    anew = written(text, tables, read(given.results))
    if not given.check:
        given.page.write_text(anew, "utf-8")
    elif stale := [
        found["name"]
        for found, other in zip(BLOCK.finditer(text), BLOCK.finditer(anew), strict=True)
        if found[0] != other[0]
    ]:
        sys.exit(f"{given.page}: not what the records say: {', '.join(stale)}. Run: python {sys.argv[0]}")
