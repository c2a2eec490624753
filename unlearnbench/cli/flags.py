"""Turns the settings that errors name into flags: errors are for Python users as well, who know no flags."""

from __future__ import annotations

import re
from collections.abc import Iterator

import click

_SETTING = re.compile(r"`([a-z_]+)`")


def with_flags(text: str, command: click.Command) -> str:
    """Replace settings in backquotes by flags of a command or its subcommands: `forget_ratio` by --forget-ratio."""
    if not _SETTING.search(text):
        return text
    flags = dict(_flags(command))
    return _SETTING.sub(lambda quoted: flags.get(quoted[1], quoted[0]), text)


def _flags(command: click.Command) -> Iterator[tuple[str, str]]:
    """Yield settings and flags of a command and its subcommands."""
    if isinstance(command, click.Group):
        context = click.Context(command)
        for name in command.list_commands(context):
            subcommand = command.get_command(context, name)
            if subcommand is not None:
                yield from _flags(subcommand)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name:
            yield parameter.name.rstrip("_"), next(flag for flag in parameter.opts if flag.startswith("--"))
