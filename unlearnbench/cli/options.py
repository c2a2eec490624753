"""Options that several commands share."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
from typing_extensions import override

from unlearnbench.errors import UsageError
from unlearnbench.messages import columns, painted

if TYPE_CHECKING:
    from unlearnbench.report.tables.table import Table

N = TypeVar("N", int, float)


class Command(click.Command):
    """A command that refuses an option given twice where the last one would win without a word."""

    @override
    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        """Parse arguments.

        Raises:
            UsageError: An option that takes one value is given twice.
        """
        _, _, order = self.make_parser(ctx).parse_args(list(args))
        for parameter, times in Counter(order).items():
            if isinstance(parameter, click.Option) and times > 1 and not (parameter.is_flag or parameter.multiple):
                raise UsageError(f"{'/'.join(parameter.opts)} is given {times} times.", "Leave all but one out.")
        return super().parse_args(ctx, args)


class Group(click.Group):
    """A group of such commands."""

    command_class = Command


# Where `run` and `audit` write unless told otherwise; published records in `results` are only read, and only if named.
FOLDER_OF_RUNS = Path("runs")
PATH = click.Path(path_type=Path)
FOLDER = click.Path(file_okay=False, path_type=Path)
disable_plugin = click.option(
    "--disable-plugin",
    "disable_plugins",
    multiple=True,
    metavar="NAME",
    help="Do not even import this plugin or distribution. Can be repeated.",
)
as_json = click.option("--json", "as_json", is_flag=True, help="JSON, for machines.")
# `cli.main` looks for it among the arguments.
style = click.option(
    "--format",
    "style",
    type=click.Choice(["text", "md", "latex", "csv"]),
    default="text",
    show_default=True,
    help="How to write it.",
)
debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")


def printed(tables: Sequence[Table], style: str = "text", all_notes: bool = False) -> str:
    """Write tables as they are printed: those for people fit the terminal, in colour where it takes colours.

    Args:
        tables: What `build_tables` returned.
        style: See `render`.
        all_notes: Show every note in full.
    """
    from unlearnbench.cli import COMMANDS
    from unlearnbench.cli.program import as_typed
    from unlearnbench.report.tables.notes import Command as MadeBy
    from unlearnbench.report.tables.render import render

    if style == "text":
        typed = [tuple(MadeBy(as_typed(n, COMMANDS)) if isinstance(n, MadeBy) else n for n in t.notes) for t in tables]
        tables = [replace(table, notes=notes) for table, notes in zip(tables, typed, strict=True)]
    return render(tables, style, columns(), not all_notes, lambda text, colour: painted(text, colour, sys.stdout))


def integers(context: Any, parameter: click.Parameter, texts: tuple[str, ...]) -> list[int] | None:
    """Read whole numbers separated by commas; an option that is repeated adds to them."""
    return _numbers(parameter, texts, int, "a whole number", "3,4") if texts else None


def shares(context: Any, parameter: click.Parameter, texts: tuple[str, ...]) -> list[float] | None:
    """Read numbers separated by commas; an option that is repeated adds to them."""
    return _numbers(parameter, texts, float, "a number", "0.005,0.05") if texts else None


def _numbers(
    parameter: click.Parameter, texts: tuple[str, ...], kind: Callable[[str], N], what: str, example: str
) -> list[N]:
    numbers = []
    for text, item in _items(texts):
        try:
            numbers.append(kind(item))
        except ValueError:
            raise UsageError(
                f"{parameter.opts[0]} {text}: {item.strip()!r} is not {what}.", f"Example: {example}"
            ) from None
    return numbers


def _items(texts: tuple[str, ...]) -> Iterator[tuple[str, str]]:
    """Yield each text with each of its items."""
    return ((text, item) for text in texts for item in text.split(","))


def text(context: Any, parameter: Any, text: str | None) -> str | None:
    """Take a text as it is."""
    return text


def texts(context: Any, parameter: Any, given: tuple[str, ...]) -> list[str] | None:
    """Take texts as they are; an option that is repeated adds to them."""
    return list(given) or None


def split_choice(context: Any, parameter: Any, text: str | None) -> int | str | None:
    """Read the number of a split, or `folds`."""
    if text is None or text == "folds":
        return text
    if not text.isdecimal():
        raise UsageError(f"--split {text}: neither a number nor folds.", "Example: --split 0")
    return int(text)


def assignments(context: Any, parameter: Any, texts: tuple[str, ...]) -> dict[str, str]:
    """Read KEY=VALUE pairs."""
    values: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not (key and equals and value):
            raise UsageError(f"--set {text}: expected KEY=VALUE.", "Example: --set training.lr=0.005")
        if key in values:
            raise UsageError(f"--set {key} is given twice.", "Leave one out.")
        values[key] = value
    return values
