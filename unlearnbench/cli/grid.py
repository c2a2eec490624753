"""The options of a run on the command line, made from the table in `running.options`, and the way to the settings."""

from __future__ import annotations

import types
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, Union, get_args, get_origin

import click

from unlearnbench.cli import options
from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import split_names
from unlearnbench.running.options import ALTERNATIVES, OPTIONS, Flag, option_default, option_types, with_defaults

if TYPE_CHECKING:
    from unlearnbench.running.config import RunConfig

Command = Callable[..., Any]
NAMES = {"methods", "datasets", "models"}
# Readers of options that may be repeated.
LISTS = {"integers", "shares", "texts", "assignments"}


def grid(**defaults: Any) -> Callable[[Command], Command]:
    """Add the options that run and audit share to a command; `--help` shows these defaults instead of the table's."""
    shared = {name: _click_option(name, flag, defaults) for name, flag in OPTIONS.items() if "audit" in flag.commands}
    disable_plugin = shared.pop("disable_plugins")  # it stands with the options that every command has
    listed = list(shared.values())
    listed.insert(
        list(shared).index("protocol"),
        click.option(
            "--config",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="A run file (TOML); options given here win over it.",
        ),
    )
    listed += [
        click.option(
            "--dry-run", is_flag=True, help="List the cells and whether each is there already; compute nothing."
        ),
        click.option("--tolerate-failures", is_flag=True, help="End with exit code 0 although cells failed."),
        options.as_json,
        disable_plugin,
        options.debug,
    ]
    return _decorated(listed)


def options_of_run_alone() -> Callable[[Command], Command]:
    """Add the options of the table that audits do not have to a command."""
    return _decorated([_click_option(name, flag, {}) for name, flag in OPTIONS.items() if flag.commands == ("run",)])


def _decorated(listed: list[Callable[[Command], Command]]) -> Callable[[Command], Command]:
    def decorate(command: Command) -> Command:
        for option in reversed(listed):
            command = option(command)
        return command

    return decorate


def _click_option(name: str, flag: Flag, defaults: dict[str, Any]) -> Callable[[Command], Command]:
    kind, default = _plain(option_types()[name]), option_default(name)
    names = flag.names or (f"--{name.replace('_', '-')}",)
    keywords: dict[str, Any] = {"help": f"{flag.help}{_shown(name, flag, kind, defaults)}", "metavar": flag.metavar}
    if kind is bool and default is None:
        keywords["default"] = None
    elif kind is bool:
        keywords |= {"is_flag": True, "flag_value": not default, "default": None}
    elif flag.reads:
        keywords["callback"] = getattr(options, flag.reads)
        keywords["multiple"] = flag.reads in LISTS
    elif get_origin(kind) is Literal:
        keywords["type"] = click.Choice(get_args(kind))
    elif get_origin(kind) is list:
        keywords["multiple"] = True
    elif kind is Path:
        keywords["type"] = click.Path(file_okay=name in ("data_root", "tuned"), path_type=Path)
    else:
        keywords["type"] = kind
    return click.option(*names, name, **keywords)


def _plain(kind: Any) -> Any:
    """Strip limits and `None` from a type; of several types the first is meant."""
    is_wrapped = get_origin(kind) in (Annotated, Union, types.UnionType)
    return _plain(get_args(kind)[0]) if is_wrapped else kind


def _shown(name: str, flag: Flag, kind: Any, defaults: dict[str, Any]) -> str:
    value = defaults.get(name, option_default(name) if flag.shown is None else flag.shown)
    if kind is bool or not value:
        return ""
    text = ",".join(value) if isinstance(value, list) else f"{value:g}" if isinstance(value, float) else value
    return f"  [default: {text}]"


def settings(given: dict[str, Any], defaults: Mapping[str, Any] | None = None) -> RunConfig:
    """Make the settings of a grid from the options given, the run file they name, and a command's own defaults.

    Raises:
        UsageError: Something contradicts, is unknown or out of range.
    """
    from unlearnbench.running.config import make_config

    return make_config(with_defaults(given_values(given), defaults or {}), "The command line")


def given_values(given: dict[str, Any]) -> dict[str, Any]:
    """Gather the options given and those of the run file they name: keys of `RunConfig`.

    Absent or empty values of the command line count as not given.

    Raises:
        UsageError: Options contradict each other, or the run file is wrong.
    """
    from unlearnbench.running.config import make_configs, read_run_file

    options_given = {key: value for key, value in given.items() if value is not None and value not in ((), {})}
    file, assigned = options_given.pop("config", None), options_given.pop("set", {})
    for key, value in options_given.items():
        if key in NAMES:
            options_given[key] = split_names(value)
        elif isinstance(value, tuple):
            options_given[key] = list(value)
    if {"repetitions", "seeds"} <= options_given.keys():
        raise UsageError("--repetitions and --seeds exclude each other.", "--seeds names the repetitions themselves.")
    values: dict[str, Any] = {}
    if file is not None:
        values = read_run_file(file)
        make_configs(values, f"Run file {file}")
        # An option replaces what the run file says of the same thing in any way.
        replaced = {key for group in ALTERNATIVES if group & options_given.keys() for key in group}
        values = {key: value for key, value in values.items() if key not in replaced}
    values |= options_given
    if assigned:
        values["set"] = {**values.get("set", {}), **assigned}
    return values
