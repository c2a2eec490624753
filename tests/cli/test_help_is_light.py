"""E5: help, version, listings and usage errors load neither torch nor anything else that is heavy."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest
from command_line import command, install
from repository import ROOT

__all__ = ["command", "install"]


PLUGINS = sorted(path.name for path in (ROOT / "plugins").iterdir() if (path / "__init__.py").exists())
HEAVY = {"torch", "torch_geometric", "pandas", "pydantic", "numpy", "scipy", "sklearn", "statsmodels"}
WHAT_IS_LOADED = "import json; print(json.dumps(sorted(sys.modules)), file=sys.__stdout__)"
LIGHT = [
    *(["--help"], ["--version"], ["run", "--help"], ["report", "--help"], ["plugins"]),
    *(["ls", "method"], ["ls", "table"], ["ls", "experiment"]),
]
COMMAND = f"""
import sys
from unlearnbench.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, file=sys.__stdout__)
{WHAT_IS_LOADED}
"""


@pytest.mark.parametrize("arguments", LIGHT)
def test_importtime_names_no_torch(arguments: list[str]) -> None:
    done = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "unlearnbench", *arguments],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    imported = {line.rpartition("|")[2].strip().partition(".")[0] for line in done.stderr.splitlines()}
    assert {"unlearnbench", "click"} <= imported
    assert imported & HEAVY == set()


@pytest.mark.parametrize("arguments", LIGHT)
def test_without_torch_there_is_help_all_the_same(arguments: list[str]) -> None:
    absent = (
        f"import sys\nfor name in {sorted(HEAVY)}: sys.modules[name] = None\n"
        "from unlearnbench.cli import main\nmain(sys.argv[1:])\n"
    )
    done = subprocess.run([sys.executable, "-c", absent, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout
    assert "Traceback" not in done.stderr


def loaded(code: str, *arguments: str) -> tuple[list[str], set[str]]:
    """Run code in a fresh interpreter; give what it printed, and the names of what it had loaded at the end."""
    process = subprocess.run(
        [sys.executable, "-c", code, *arguments], capture_output=True, text=True, check=True, env=dict(os.environ)
    )
    *lines, modules = process.stdout.splitlines()
    return lines, {name.partition(".")[0] for name in json.loads(modules)}


@pytest.mark.parametrize(
    ("arguments", "exit_code"),
    [
        (["--help"], 0),
        (["--version"], 0),
        (["run", "--help"], 0),
        (["report", "--help"], 0),
        (["rum"], 2),
        (["--no-such-option"], 2),
        (["run", "--no-such-option"], 2),
        (["run", "--repetitions", "many"], 2),
        (["run", "--set", "nothing"], 2),
        (["run", "--seeds", "one"], 2),
        (["ls", "nothing"], 2),
        (["report", "--format", "nothing"], 2),
    ],
)
def test_help_and_usage_errors_load_nothing_heavy(arguments: list[str], exit_code: int) -> None:
    lines, modules = loaded(COMMAND, *arguments)
    assert lines[-1] == str(exit_code)
    assert "unlearnbench" in modules
    assert modules & {*HEAVY, *PLUGINS} == set()


def test_the_probe_sees_what_a_command_loads() -> None:
    lines, modules = loaded(COMMAND, "ls", "unlearner", "--json")
    assert lines[-1] == "0"
    assert modules >= set(PLUGINS)


def test_the_package_itself_loads_nothing_heavy() -> None:
    _, modules = loaded(f"import sys, unlearnbench; dir(unlearnbench); {WHAT_IS_LOADED}")
    assert modules & {*HEAVY, *PLUGINS, "click", "pluggy"} == set()


def test_statistics_are_loaded_where_they_are_computed() -> None:
    _, modules = loaded(f"import sys, json, unlearnbench.statistics; {WHAT_IS_LOADED}")
    assert modules & {"scipy", "statsmodels", "pandas", "torch"} == set()
