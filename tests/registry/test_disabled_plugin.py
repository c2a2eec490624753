"""E4: a plugin is turned off without being uninstalled, before any of it is imported."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, command, install
from plugin_samples import (
    ANNOUNCES,
    FakePoint,
    Write,
    component,
    load,
    plugin_of,
    status_of,
)

from unlearnbench.errors import UsageError
from unlearnbench.registry.loading import load_catalogue

__all__ = ["command", "install"]


@pytest.mark.parametrize("way", ["option", "run file", "limit"])
def test_a_disabled_plugin_is_listed_and_never_imported(
    way: str, command: Any, install: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = tmp_path / "imported"
    install("ub-loud", f"open({str(written)!r}, 'w').close()\n" + ANNOUNCES.format(name="loud", module="x", cls="Cut"))
    arguments = ["run", "-m", "steady", *ONCE, "--dry-run", "--out", str(tmp_path / "out")]
    listing = ["plugins"]
    if way == "option":
        arguments += ["--disable-plugin", "loud"]
        listing += ["--disable-plugin", "loud"]
    elif way == "run file":
        (tmp_path / "run.toml").write_text('disable_plugins = ["loud"]')
        arguments += ["--config", "run.toml"]
    else:
        monkeypatch.setenv("UNLEARNBENCH_PLUGINS", "toys,retrain")
    assert command(*arguments).code == 0
    assert not written.exists()
    if way == "run file":  # only a run reads a run file
        return
    (line,) = (line for line in command(*listing).out.splitlines() if line.startswith("loud "))
    assert line.startswith("loud  (ub-loud 1.0)  disabled")
    told = command("run", "-m", "sharded[partitioner=loud]", *arguments[3:])
    assert (told.code, "loud (ub-loud)" in told.err) == (2, True)
    assert not written.exists()
    assert command("plugins", *(["--disable-plugin", "toys"] if way == "option" else [])).code == 0
    assert written.exists() is (way == "option")


def test_an_unknown_name_is_a_warning(command: Any, tmp_path: Path) -> None:
    out = ("--dry-run", "--out", str(tmp_path / "out"))
    told = command("run", "-m", "steady", *ONCE, *out, "--disable-plugin", "gfi")
    assert told.code == 0
    assert "note: --disable-plugin gfi: there is no such plugin" in told.err


def test_disabled_plugin_is_not_even_imported(install: Write, tmp_path: Path) -> None:
    written = tmp_path / "imported"
    source = f"open({str(written)!r}, 'w').close()\n" + ANNOUNCES.format(name="loud", module="ub_loud", cls="Cut")
    install("ub-loud", source)
    for name in ("loud", "ub-loud", "UB_Loud"):
        catalogue = load_catalogue(disable=[name])
        assert status_of(catalogue, "loud") == ("disabled", "asked for")
        assert not written.exists()
        with pytest.raises(UsageError, match=r"loud \(ub-loud\): asked for"):
            catalogue.find("partitioner", "loud")
    assert status_of(load_catalogue(), "loud") == ("ok", "")
    assert written.exists()


def test_disabling_an_unknown_plugin_is_told() -> None:
    (notice,) = load(FakePoint("gif", plugin_of()), disable=["gfi", "gif"]).notices
    assert "--disable-plugin gfi" in notice


@pytest.mark.parametrize("value", ["one", "ub-a", " one , three "])
def test_environment_limits_loading(value: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLEARNBENCH_PLUGINS", value)
    catalogue = load(FakePoint("one", plugin_of(), "ub-a"), FakePoint("two", ImportError("unseen"), "ub-b"))
    assert status_of(catalogue, "one") == ("ok", "")
    assert status_of(catalogue, "two") == ("disabled", "not in UNLEARNBENCH_PLUGINS")
    assert ["UNLEARNBENCH_PLUGINS three" in notice for notice in catalogue.notices] == [True] * ("three" in value)


def test_empty_environment_variable_leaves_the_core_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLEARNBENCH_PLUGINS", "")
    catalogue = load(FakePoint("one", plugin_of(unlearners=[component("one")]), "ub-a"))
    assert catalogue.names("unlearner") == ["sharded"]
    assert "gcn" in catalogue.names("model")
