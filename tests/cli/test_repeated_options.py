"""An option given twice adds to its list, or is an error: the last one never wins without a word."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import numpy as np
import pytest
from command_line import ONCE, SHARDS, command, install, records_of

from unlearnbench.cli import cli, run
from unlearnbench.cli.grid import given_values
from unlearnbench.errors import UsageError
from unlearnbench.running.forget_list import read_forget

__all__ = ["command", "install"]


def single_options(group: click.Group, names: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], str]]:
    """Yield the command and the first flag of every option that takes a value, and only one."""
    context = click.Context(group)
    for name in group.list_commands(context):
        each = group.get_command(context, name)
        assert each is not None
        if isinstance(each, click.Group):
            yield from single_options(each, (*names, name))
            continue
        for option in each.params:
            if isinstance(option, click.Option) and not (option.is_flag or option.multiple):
                yield (*names, name), option.opts[0]


@pytest.mark.parametrize(("names", "flag"), list(single_options(cli)), ids=str)
def test_an_option_with_one_value_is_given_once(command: Any, names: tuple[str, ...], flag: str) -> None:
    told = command(*names, flag, "1", f"{flag}=2")
    assert told.code == 2
    assert told.err.splitlines()[0].startswith(f"error: {flag}")
    assert "is given 2 times." in told.err
    assert told.out == ""


def given(*arguments: str) -> dict[str, Any]:
    context = run.command.make_context("run", list(arguments))
    for name in ("dry_run", "tolerate_failures", "as_json", "experiment"):
        context.params.pop(name)
    return given_values(context.params)


@pytest.mark.parametrize(
    ("arguments", "key", "value"),
    [
        (("--seeds", "3,4", "--seeds", "7"), "seeds", [3, 4, 7]),
        (("--forget", "3,8", "--forget", "11"), "forget", ["3,8", "11"]),
        (("--forget", "3-8", "--forget=11-4,5-6"), "forget", ["3-8", "11-4,5-6"]),
        (("-m", "sisa,graphrevoker", "--methods", "retrain"), "methods", ["sisa", "graphrevoker", "retrain"]),
        (("-d", "cora", "--datasets", "digits"), "datasets", ["cora", "digits"]),
        (("--models", "gcn", "--models", "gat"), "models", ["gcn", "gat"]),
        (("--disable-plugin", "a", "--disable-plugin", "b"), "disable_plugins", ["a", "b"]),
        (("--set", "training.lr=1", "--set", "seed=2"), "set", {"training.lr": "1", "seed": "2"}),
        (("--isolate", "--isolate"), "isolate", True),
    ],
)
def test_lists_add_up(arguments: tuple[str, ...], key: str, value: Any) -> None:
    assert given(*arguments) == {key: value}


@pytest.mark.parametrize(
    ("texts", "message"), [(["3-8", "11"], "names both nodes and pairs"), (["3", "x"], "'x' is not a whole number")]
)
def test_each_part_of_a_list_is_checked(texts: list[str], message: str) -> None:
    assert read_forget(["3,8", "11"]) == [3, 8, 11]
    assert read_forget(["3-8", "11-4,5-6"]) == [(3, 8), (11, 4), (5, 6)]
    with pytest.raises(UsageError, match=message):
        read_forget(texts)


def test_nodes_of_two_options_are_one_request(command: Any, tmp_path: Path) -> None:
    arguments = ("run", "-m", "sisa", *ONCE, *SHARDS, "--no-reference")
    assert command(*arguments, "--forget-count", "3", "--out", "drawn").code == 0
    (drawn,) = tmp_path.glob("drawn/records/**/*.npz")
    with np.load(drawn) as arrays:
        a, b, c = map(str, arrays["forgotten"])
    for out, flags in (("one", ("--forget", f"{a},{b},{c}")), ("two", ("--forget", f"{c},{a}", "--forget", b))):
        assert command(*arguments, *flags, "--out", out).code == 0
    (one,), (two,) = (records_of(tmp_path / out).values() for out in ("one", "two"))
    assert one.key == two.key
    assert [request["count"] for request in two.requests] == [3]


def test_an_item_in_both_options_is_named(command: Any) -> None:
    told = command("run", "-m", "sisa", *ONCE, *SHARDS, "--forget", "5000", "--forget", "5000,5003")
    assert told.code == 2
    assert "--forget names 5000 twice" in told.err
    told = command("run", "-m", "sisa", "--seeds", "1", "--seeds", "2,1")
    assert told.code == 2
    assert "1 is named twice" in told.err
