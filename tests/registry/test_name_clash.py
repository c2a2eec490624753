"""E3: a name belongs to one distribution, or it is said whose is meant; built-in names cannot be taken."""

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
    write_distribution,
)

from unlearnbench.errors import UsageError
from unlearnbench.registry.loading import load_catalogue

__all__ = ["command", "install"]


def test_a_name_of_ours_is_refused_to_others(command: Any, install: Write, tmp_path: Path) -> None:
    # `gif` is a built-in method here: neither of two strangers may have it.
    for letter, name in (("a", "gif"), ("b", "gif"), ("c", "retrain")):
        install(
            f"ub-{letter}",
            "from ub_toys import Steady\nfrom unlearnbench import hookimpl\n"
            f"class Mine(Steady):\n    name = {name!r}\n"
            "@hookimpl\ndef register_unlearners(register):\n    register(Mine)\n",
        )
    told = command("run", "-m", "gif", *ONCE, "--dry-run", "--out", str(tmp_path / "out"))
    assert told.code == 0
    for letter, name in (("a", "gif"), ("b", "gif"), ("c", "retrain")):
        assert (
            f"of ub-{letter} was not loaded: the unlearner name {name!r} of ub-{letter} is taken by unlearnb"
            in told.err
        )
    for name in ("ub-a:gif", "ub-c:retrain"):
        told = command("run", "-m", name, *ONCE, "--dry-run", "--out", str(tmp_path / "out"))
        assert told.code == 2
        assert "is taken by unlearnbench" in told.err.splitlines()[-1]


@pytest.mark.parametrize("name", ["", "a b", "a[b]", "a,b", "x:y", "a=b", "../up", "\u00e9", "a\nb"])
def test_a_name_that_nobody_could_ask_for_is_refused(name: str) -> None:
    for target in (component(name), (name, "module:Class")):
        status, reason = status_of(load(FakePoint("odd", plugin_of(unlearners=[target]))), "odd")
        assert status == "failed"
        assert repr(name) in reason


def test_two_distributions_with_one_name_are_both_named_and_one_can_be_picked() -> None:
    versions = {"ub-a": 1, "ub-b": 2}
    plugins = {name: plugin_of(unlearners=[component("gif", version=version)]) for name, version in versions.items()}
    catalogue = load(*(FakePoint("gif", plugin, distribution) for distribution, plugin in plugins.items()))
    with pytest.raises(UsageError) as caught:
        catalogue.find("unlearner", "gif")
    assert "ub-a:gif or ub-b:gif" in str(caught.value)
    assert catalogue.find("unlearner", "ub-b:gif").distribution == "ub-b"
    assert catalogue.load(catalogue.find("unlearner", "UB_A:gif")).version == 1
    with pytest.raises(UsageError, match="Unknown method 'ub-c:gif'"):
        catalogue.find("unlearner", "ub-c:gif")


def test_one_name_in_two_kinds_is_no_clash() -> None:
    plugin = plugin_of(partitioners=[component("metis")], aggregators=[component("metis")])
    assert status_of(load(FakePoint("metis", plugin)), "metis") == ("ok", "")


@pytest.mark.parametrize("name", ["sharded", "retrain"])
def test_first_party_names_cannot_be_taken(name: str) -> None:
    ours = FakePoint("retrain", plugin_of(unlearners=[component("retrain")]), "unlearnbench")
    theirs = FakePoint("aaa", plugin_of(unlearners=[component("other"), component(name)]), "aaa")
    catalogue = load(theirs, ours)
    status, reason = status_of(catalogue, "aaa")
    assert status == "failed"
    assert all(part in reason for part in (repr(name), "aaa", "unlearnbench"))
    assert catalogue.find("unlearner", name).distribution == "unlearnbench"
    assert "other" not in catalogue.names("unlearner")


def test_a_name_twice_in_one_plugin_is_an_error() -> None:
    plugin = plugin_of(unlearners=[component("gif"), component("gif")])
    status, reason = status_of(load(FakePoint("gif", plugin)), "gif")
    assert status == "failed"
    assert "'gif'" in reason


def test_one_distribution_found_twice_counts_once_with_a_notice() -> None:
    first = FakePoint("gif", plugin_of(unlearners=[component("gif")]), "ub-gif", "1.0")
    second = FakePoint("gif", ImportError("must not be loaded"), "UB_gif", "2.0")
    catalogue = load(first, second)
    assert [(p.version, p.status) for p in catalogue.plugins if p.name == "gif"] == [("1.0", "ok")]
    (notice,) = catalogue.notices
    assert all(part in notice for part in ("ub-gif", "twice", "1.0", "2.0"))


def test_installed_twice_is_found_twice(install: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install("ub-twice", ANNOUNCES.format(name="twice", module="ub_twice", cls="Cut"), version="1.0")
    write_distribution(tmp_path / "other", "ub-twice", "", version="2.0")
    monkeypatch.syspath_prepend(tmp_path / "other")
    monkeypatch.syspath_prepend(tmp_path / "site")
    catalogue = load_catalogue()
    assert [p.version for p in catalogue.plugins if p.distribution == "ub-twice"] == ["1.0"]
    assert sum("ub-twice was found twice" in notice for notice in catalogue.notices) == 1


def test_two_plugins_with_one_method_are_told_apart(command: Any, install: Write, tmp_path: Path) -> None:
    for letter in "ab":
        install(
            f"ub-{letter}",
            "from ub_toys import Steady\nfrom unlearnbench import hookimpl\n"
            "class Wipe(Steady):\n    name = 'wipe'\n"
            "@hookimpl\ndef register_unlearners(register):\n    register(Wipe)\n",
        )
    out = tmp_path / "out"
    told = command("run", "-m", "wipe", *ONCE, "--out", str(out))
    assert told.code == 2
    assert "ub-a:wipe or ub-b:wipe" in told.err
    told = command("run", "-m", "ub-a:wipe,ub-b:wipe", *ONCE, "--no-reference", "--out", str(out))
    assert told.code == 0
    assert "2 cells: 2 ok, 0 failed" in told.err
    assert len(list(out.glob("records/*/toy/wipe/*.json"))) == 2
