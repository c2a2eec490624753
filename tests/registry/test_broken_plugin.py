"""E1: one broken plugin neither ends the program nor stops the others; what it would have brought is named."""

from __future__ import annotations

import json
import sys
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
    raising,
    status_of,
)

from unlearnbench.errors import UsageError
from unlearnbench.registry.loading import PluginError, load_catalogue, report_problems

__all__ = ["command", "install"]


GOOD = """
from ub_toys import Steady

from unlearnbench import hookimpl


class Good(Steady):
    name = "good"


@hookimpl
def register_unlearners(register):
    register(Good)
"""
# Ways to fail that are no `Exception`.
ODD = {
    "bad": "import not_there",
    "exit": "import sys; sys.exit(3)",
    "typo": "def broken(:",
    "base": "class Own(BaseException): pass\nraise Own('not even an exception')",
    "generator": "raise GeneratorExit()",
    "recursion": "def f(): f()\nf()",
    "bytes": "\0",
}


def test_good_runs_beside_every_kind_of_broken_one(command: Any, install: Write, tmp_path: Path) -> None:
    for name, source in ODD.items():
        install(f"ub-{name}", source)
    install("ub-good", GOOD)
    told = command("plugins")
    assert told.code == 0
    listed = {line.split()[0]: line for line in told.out.splitlines() if "(ub-" in line}
    assert "  ok" in listed["good"]
    assert "  unlearner good" in told.out.splitlines()
    for name in ODD:
        assert f"{name}  (ub-{name} 1.0)  failed  " in listed[name]
    assert "not_there" in listed["bad"]
    assert "SystemExit: 3" in listed["exit"]
    assert "Own: not even an exception" in listed["base"]
    told = command("run", "-m", "good", *ONCE, "--out", str(tmp_path / "out"))
    assert told.code == 0
    for name in ODD:
        (warning,) = (line for line in told.err.splitlines() if f"plugin {name} of ub-{name} was not loaded" in line)
        assert f"--disable-plugin {name}" in warning
    told = command("run", "-m", "bad", *ONCE, "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert "not_there" in told.err


def test_what_a_plugin_prints_stays_out_of_tables_and_json(command: Any, install: Write, tmp_path: Path) -> None:
    install("ub-good", GOOD.replace("class Good", "print('a plugin says hello')\n\n\nclass Good"))
    install(
        "ub-lazy",
        "from unlearnbench import hookimpl\n@hookimpl\ndef register_unlearners(register):\n"
        "    print('a hook says hello')\n    register('lazy', 'ub_later:Lazy')\n",
    )
    later = "from ub_toys import Steady\nprint('a class says hello')\nclass Lazy(Steady):\n    name = 'lazy'\n"
    (tmp_path / "site" / "ub_later.py").write_text(later)
    for arguments in (("ls", "method", "--json"), ("plugins", "--json")):
        told = command(*arguments)
        assert {"good", "lazy"} <= {row["name"] for row in json.loads(told.out)}
    told = command("run", "-m", "good,lazy", *ONCE, "--out", str(tmp_path / "out"))
    assert told.code == 0
    assert "a class says hello" in told.err
    assert "hello" not in told.out


def failing_points() -> dict[str, FakePoint]:
    return {
        "ImportError: No module named 'not_there'": FakePoint("bad", ImportError("No module named 'not_there'")),
        "SyntaxError: invalid syntax": FakePoint("bad", SyntaxError("invalid syntax")),
        "SystemExit: 3": FakePoint("bad", SystemExit(3)),
        "ZeroDivisionError: in a hook": FakePoint("bad", raising(ZeroDivisionError("in a hook"))),
        "SystemExit: from a hook": FakePoint("bad", raising(SystemExit("from a hook"))),
    }


@pytest.mark.parametrize("reason", failing_points())
def test_broken_plugin_is_told_and_the_others_load(reason: str, capsys: pytest.CaptureFixture[str]) -> None:
    good = [FakePoint(f"good-{d}", plugin_of(partitioners=[component(f"cut-{d}")]), f"ub-{d}") for d in "az"]
    bad = FakePoint("bad", failing_points()[reason].plugin, "ub-m")
    catalogue = load(good[0], bad, good[1])
    assert status_of(catalogue, "bad") == ("failed", reason)
    assert {"cut-a", "cut-z"} <= set(catalogue.names("partitioner"))
    report_problems(catalogue)
    said = capsys.readouterr().err
    assert all(part in said for part in ("bad", "ub-m", reason, "--disable-plugin bad"))


def test_interruption_while_a_plugin_loads_is_no_failure_of_the_plugin() -> None:
    with pytest.raises(KeyboardInterrupt):
        load(FakePoint("slow", KeyboardInterrupt()))


def test_asking_for_a_component_of_a_broken_plugin_gives_the_reason() -> None:
    catalogue = load(FakePoint("bad", ImportError("No module named 'not_there'"), "ub-bad"))
    with pytest.raises(UsageError) as caught:
        catalogue.find("unlearner", "bad")
    assert caught.value.exit_code == 2
    assert all(part in str(caught.value) for part in ("'bad'", "ub-bad", "not_there"))


def test_what_was_half_registered_is_rolled_back() -> None:
    plugin = plugin_of(partitioners=[component("early")])
    later = raising(RuntimeError("late")).register_partitioners
    plugin.register_unlearners = later  # type: ignore[attr-defined]
    catalogue = load(FakePoint("half", plugin))
    assert status_of(catalogue, "half") == ("failed", "RuntimeError: late")
    assert catalogue.names("partitioner") == []
    assert "ub-a" not in catalogue.versions()


def test_distribution_without_metadata_harms_nobody(install: Write, tmp_path: Path) -> None:
    install("ub-fine", ANNOUNCES.format(name="fine", module="ub_fine", cls="Cut"))
    info = tmp_path / "site" / "broken-1.0.dist-info"
    info.mkdir()
    (info / "entry_points.txt").write_text("[unlearnbench]\nbroken = not_there_at_all\n")
    catalogue = load_catalogue()
    assert status_of(catalogue, "fine") == ("ok", "")
    assert status_of(catalogue, "broken")[0] == "failed"


def test_entry_points_that_cannot_be_read_harm_nobody(install: Write, tmp_path: Path) -> None:
    install("ub-fine", ANNOUNCES.format(name="fine", module="ub_fine", cls="Cut"))
    info = tmp_path / "site" / "ub_garbled-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: ub-garbled\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text("[unlearnbench]\nno equals sign here\n")
    catalogue = load_catalogue()
    assert status_of(catalogue, "fine") == ("ok", "")
    (garbled,) = (plugin for plugin in catalogue.plugins if plugin.distribution == "ub-garbled")
    assert garbled.status == "failed"
    assert garbled.reason.startswith("its entry_points.txt, lines of NAME = MODULE, cannot be read")


@pytest.mark.parametrize("value", ["", "two words", ":Class", "1 < 2"])
def test_an_entry_point_that_names_no_module_is_named(install: Write, tmp_path: Path, value: str) -> None:
    install("ub-fine", ANNOUNCES.format(name="fine", module="ub_fine", cls="Cut"))
    (tmp_path / "site" / "ub_fine-1.0.dist-info" / "entry_points.txt").write_text(f"[unlearnbench]\nodd = {value}\n")
    assert status_of(load_catalogue(), "odd") == (
        "failed", f"its entry point is {value!r}, which names no module (NAME = MODULE)"
    )  # fmt: skip


@pytest.mark.slow
def test_a_search_path_may_hold_what_is_no_text(
    command: Any, install: Write, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    install("ub-good", GOOD)
    monkeypatch.setattr(sys, "path", [tmp_path / "nowhere", *sys.path, tmp_path])
    assert status_of(load_catalogue(), "good")[0] == "ok"
    for more in ((), ("--isolate",)):
        told = command("run", "-m", "good", *ONCE, "--out", f"out{len(more)}", *more)
        assert told.code == 0, told.err


@pytest.mark.parametrize("reason", failing_points())
def test_strict_raises_at_the_first_failure(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("UNLEARNBENCH_STRICT_PLUGINS", "1")
    with pytest.raises(PluginError) as caught:
        load(failing_points()[reason])
    assert all(part in str(caught.value) for part in ("bad", "ub-a", reason))
    assert caught.value.exit_code == 2
    monkeypatch.setenv("UNLEARNBENCH_STRICT_PLUGINS", "0")
    assert status_of(load(failing_points()[reason]), "bad") == ("failed", reason)


def test_plugins_command_lists_what_became_of_each(command: Any, install: Write) -> None:
    install("ub-bad", "import not_there")
    install("ub-exit", "import sys; sys.exit(3)")
    install("ub-typo", "def broken(:")
    install("ub-good", ANNOUNCES.format(name="good", module="ub_good", cls="Cut"))
    told = command("plugins", "--json", "--disable-plugin", "sisa")
    assert told.code == 0
    listed = {row["name"]: row for row in json.loads(told.out)}
    assert listed["good"]["components"] == ["partitioner good"]
    assert {name: listed[name]["status"] for name in ("good", "bad", "exit", "typo", "sisa")} == {
        "good": "ok", "bad": "failed", "exit": "failed", "typo": "failed", "sisa": "disabled",
    }  # fmt: skip
    assert "not_there" in listed["bad"]["reason"]
    told = command("plugins")
    assert told.code == 0
    assert "bad  (ub-bad 1.0)  failed  ModuleNotFoundError: No module named 'not_there'" in told.out


@pytest.mark.parametrize("name", ["bad", "ub-bad:bad"])
def test_a_method_of_a_broken_plugin_is_refused_with_the_reason(
    command: Any, install: Write, tmp_path: Path, name: str
) -> None:
    install("ub-bad", "import not_there")
    out = tmp_path / "out"
    told = command("run", "-m", f"steady,{name}", *ONCE, "--out", str(out))
    assert told.code == 2
    assert "No module named 'not_there'" in told.err.splitlines()[-1]
    assert not out.exists()
    told = command("run", "-m", "steady", *ONCE, "--out", str(out))
    assert told.code == 0
    assert "warning: plugin bad of ub-bad was not loaded" in told.err
    disabled = ("--disable-plugin", "bad", "--disable-plugin", "dab")
    told = command("run", "-m", "steady", *ONCE, "--out", str(out), *disabled)
    assert told.code == 0
    assert "not loaded" not in told.err
    assert "--disable-plugin dab: there is no such plugin" in told.err


def test_strict_mode_stops_at_a_broken_plugin(command: Any, install: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    install("ub-bad", "import not_there")
    monkeypatch.setenv("UNLEARNBENCH_STRICT_PLUGINS", "1")
    told = command("plugins")
    assert told.code == 2
    assert "Plugin bad of ub-bad: ModuleNotFoundError" in told.err
