"""E2: a hook that does not fit the host is named, with what is wrong; of its plugin nothing is left."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType
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

from unlearnbench import hookspecs
from unlearnbench.hookspecs import hookimpl

__all__ = ["command", "install"]


def test_of_a_plugin_with_one_good_and_one_wrong_hook_nothing_is_left(
    command: Any, install: Write, tmp_path: Path
) -> None:
    called = tmp_path / "called"
    install(
        "ub-p",
        "from ub_toys import Steady\nfrom unlearnbench import hookimpl\n"
        "class First(Steady):\n    name = 'first'\n"
        f"@hookimpl\ndef register_unlearners(register):\n    open({str(called)!r}, 'w').close()\n    register(First)\n"
        "@hookimpl\ndef register_metrics(register, extra):\n    pass\n",
    )
    install("ub-q", ANNOUNCES.format(name="later", module="ub_q", cls="Cut"))
    told = command("plugins")
    assert told.code == 0
    (line,) = (line for line in told.out.splitlines() if line.startswith("p "))
    assert line.startswith("p  (ub-p 1.0)  failed  ")
    assert all(part in line for part in ("register_metrics", "extra", "`register`"))
    assert "  partitioner later" in told.out.splitlines()
    assert not called.exists()
    assert "first" not in command("ls", "method").out.split()
    told = command("run", "-m", "first", *ONCE, "--out", str(tmp_path / "out"))
    assert (told.code, "extra" in told.err) == (2, True)


def test_hook_with_an_extra_argument_names_it_and_no_hook_is_called() -> None:
    called = []
    plugin = ModuleType("extra")

    def register_partitioners(register: Any) -> None:
        called.append("first")

    def register_unlearners(register: Any, extra: Any) -> None:
        called.append("second")

    plugin.register_partitioners = hookimpl(register_partitioners)  # type: ignore[attr-defined]
    plugin.register_unlearners = hookimpl(register_unlearners)  # type: ignore[attr-defined]
    catalogue = load(FakePoint("extra", plugin), FakePoint("good", plugin_of(partitioners=[component("cut")]), "ub-z"))
    status, reason = status_of(catalogue, "extra")
    assert status == "failed"
    assert all(part in reason for part in ("register_unlearners", "'extra'", "`register`"))
    assert called == []
    assert catalogue.names("partitioner") == ["cut"]


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("register_partitoners", "register_partitioners"), ("register_unlearner", "register_unlearners")],
)
def test_misspelt_hook_is_told_with_the_nearest(wrong: str, right: str) -> None:
    plugin = plugin_of(aggregators=[component("vote")])
    setattr(plugin, wrong, hookimpl(lambda register: None))
    catalogue = load(FakePoint("misspelt", plugin))
    status, reason = status_of(catalogue, "misspelt")
    assert status == "failed"
    assert repr(wrong) in reason
    assert repr(right) in reason
    assert catalogue.names("aggregator") == []


def test_hook_like_none_of_ours_lists_all() -> None:
    plugin = ModuleType("odd")
    plugin.zzz = hookimpl(lambda register: None)  # type: ignore[attr-defined]
    assert all(hook in status_of(load(FakePoint("odd", plugin)), "odd")[1] for hook in hookspecs.HOOKS.values())


def test_hook_without_the_marker_is_told() -> None:
    plugin = ModuleType("bare")
    plugin.register_models = lambda register: None  # type: ignore[attr-defined]
    status, reason = status_of(load(FakePoint("bare", plugin)), "bare")
    assert status == "failed"
    assert "'register_models'" in reason
    assert "@hookimpl" in reason


def test_hook_without_its_argument_is_told() -> None:
    plugin = ModuleType("deaf")
    plugin.register_models = hookimpl(lambda: None)  # type: ignore[attr-defined]
    status, reason = status_of(load(FakePoint("deaf", plugin)), "deaf")
    assert status == "failed"
    assert "'register_models'" in reason
    assert "`register`" in reason


@pytest.mark.parametrize(
    "target", [object(), component, type("Nameless", (), {}), ("name", ""), ("name", "module without colon")]
)
def test_registering_what_is_no_component_fails_with_what_is_wanted(target: Any) -> None:
    status, reason = status_of(load(FakePoint("odd", plugin_of(models=[target]))), "odd")
    assert status == "failed"
    assert "register(" in reason
