"""Options that several commands share."""

from __future__ import annotations

import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import click
from typing_extensions import override

from unlearnbench.errors import UsageError, unknown_name

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
debug = click.option("--debug", is_flag=True, expose_value=False, help="Show the traceback of an error.")


def width_of_tables() -> int | None:
    """Return the columns of the terminal that tables go to; None: they go to a file or a pipe."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


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


class OneOf(click.Choice[str]):
    """One of some names; the error for another one lists the nearest."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        """Look a name up.

        Raises:
            UsageError: It is none of them.
        """
        if value in self.choices:
            return str(value)
        what = "name" if param is None else param.opts[0] if isinstance(param, click.Option) else str(param.name)
        raise unknown_name(what, str(value), self.choices)


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
