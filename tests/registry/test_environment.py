"""Switches in the environment have one meaning; what is neither on nor off ends with 2."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from command_line import command, install
from repository import ROOT

from unlearnbench.datasets import raw
from unlearnbench.errors import EXIT_USAGE, UsageError
from unlearnbench.registry.environment import OFFLINE, STRICT_PLUGINS, switch
from unlearnbench.registry.loading import PluginError, load_catalogue

__all__ = ["command", "install"]

SWITCHES = (OFFLINE, STRICT_PLUGINS)
ON = ("1", "true", "yes", "on", "True", "YES", " on ")
OFF = (None, "", "0", "false", "no", "off", "False", "NO", " ")
NEITHER = ("2", "y", "t", "enabled", "-1", "1,0", "None")


def put(monkeypatch: pytest.MonkeyPatch, name: str, value: str | None) -> None:
    if value is None:
        monkeypatch.delenv(name, raising=False)
    else:
        monkeypatch.setenv(name, value)


@pytest.mark.parametrize("name", SWITCHES)
def test_every_spelling_is_on_off_or_an_error_that_names_the_variable(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for values, expected in ((ON, True), (OFF, False)):
        for value in values:
            put(monkeypatch, name, value)
            assert switch(name) is expected, value
    for value in NEITHER:
        put(monkeypatch, name, value)
        with pytest.raises(UsageError, match=rf"{name} is '{value}'.*use 1 or 0") as caught:
            switch(name)
        assert caught.value.exit_code == EXIT_USAGE


@pytest.mark.parametrize(("value", "strict"), [("true", True), ("yes", True), ("false", False), ("", False)])
def test_plugins_are_strict_as_it_says(install: Any, value: str, strict: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    install("ub-broken", "raise RuntimeError('no')\n")
    monkeypatch.setenv(STRICT_PLUGINS, value)
    if strict:
        with pytest.raises(PluginError, match="ub-broken"):
            load_catalogue()
    else:
        assert [plugin.distribution for plugin in load_catalogue().plugins if plugin.status == "failed"] == [
            "ub-broken"
        ]


@pytest.mark.parametrize(("value", "forbidden"), [("true", True), ("false", False), ("no", False), ("on", True)])
def test_downloads_are_forbidden_as_it_says(value: str, forbidden: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(OFFLINE, value)
    assert raw.is_offline() is forbidden
    with raw.offline():
        assert raw.is_offline()
    assert raw.is_offline() is forbidden


@pytest.mark.parametrize("name", SWITCHES)
def test_a_run_with_a_wrong_switch_ends_with_2_before_any_work(
    name: str, command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, "maybe")
    told = command("run", "-m", "retrain", "-d", "digits", "--out", str(tmp_path / "out"))
    assert told.code == EXIT_USAGE
    assert told.err == f"error: The variable {name} is 'maybe', neither on nor off: use 1 or 0, or unset it.\n"
    assert not (tmp_path / "out").exists()


def test_the_page_lists_every_variable() -> None:
    page = (ROOT / "docs" / "cli.md").read_text("utf-8")
    sources = [*(ROOT / "unlearnbench").rglob("*.py"), *(ROOT / "plugins").rglob("*.py")]
    names = {name for path in sources for name in re.findall(r'"(UNLEARNBENCH_[A-Z_]+)"', path.read_text("utf-8"))}
    assert names >= set(SWITCHES)
    assert [name for name in sorted(names) if f"| `{name}` |" not in page] == []
