"""Options that several commands share."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path
from typing import Any

import click

from unlearnbench.errors import UsageError, unknown_name

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


def integers(context: Any, parameter: click.Parameter, text: str | None) -> list[int] | None:
    """Read whole numbers separated by commas."""
    if text is None:
        return None
    numbers = []
    for item in text.split(","):
        try:
            numbers.append(int(item))
        except ValueError:
            raise UsageError(
                f"{parameter.opts[0]} {text}: {item.strip()!r} is not a whole number.", "Example: 3,4"
            ) from None
    return numbers


def text(context: Any, parameter: Any, text: str | None) -> str | None:
    """Take a text as it is."""
    return text


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
