from __future__ import annotations

import ast
import importlib
import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import unlearnbench

ROOT = Path(__file__).parents[1]
HEAVY = {"torch", "torch_geometric", "pandas", "pydantic", "numpy", "scipy", "sklearn", "statsmodels"}
PLUGINS = sorted(path.name for path in (ROOT / "plugins").iterdir() if (path / "__init__.py").exists())
WHAT_IS_LOADED = "import json; print(json.dumps(sorted(sys.modules)), file=sys.__stdout__)"
COMMAND = f"""
import sys
from unlearnbench.cli import main
try:
    main(sys.argv[1:])
except SystemExit as end:
    print(end.code, file=sys.__stdout__)
{WHAT_IS_LOADED}
"""


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


def names_imported_for_type_checkers() -> dict[str, str]:
    tree = ast.parse(Path(unlearnbench.__file__).read_text(encoding="utf-8"))
    (block,) = [node for node in tree.body if isinstance(node, ast.If) and ast.unparse(node.test) == "TYPE_CHECKING"]
    found = {}
    for statement in block.body:
        assert isinstance(statement, ast.ImportFrom)
        for alias in statement.names:
            # `import X as X` is what tells a type checker that the name is meant to be used from here.
            assert alias.asname == alias.name
            found[alias.name] = (statement.module or "").removeprefix("unlearnbench.")
    return found


def test_lazy_names_are_those_that_type_checkers_see() -> None:
    assert names_imported_for_type_checkers() == unlearnbench._HOMES
    assert sorted(unlearnbench._HOMES) == unlearnbench.__all__


@pytest.mark.parametrize("name", sorted(unlearnbench._HOMES))
def test_public_names_resolve_to_the_thing_itself(name: str) -> None:
    home = importlib.import_module(f"unlearnbench.{unlearnbench._HOMES[name]}")
    assert getattr(unlearnbench, name) is getattr(home, name)
    assert name in dir(unlearnbench)


def test_a_name_that_is_not_public_is_an_error() -> None:
    with pytest.raises(AttributeError, match="no attribute 'Partitoner'"):
        unlearnbench.Partitoner  # noqa: B018


def test_every_plugin_enters_by_an_entry_point_and_is_under_every_import_rule() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert sorted(settings["project"]["entry-points"]["unlearnbench"].values()) == PLUGINS
    linter = settings["tool"]["importlinter"]
    assert sorted(linter["root_packages"]) == ["unlearnbench", *PLUGINS]
    contracts = {contract["id"]: contract for contract in linter["contracts"]}
    assert sorted(contracts["core"]["forbidden_modules"]) == PLUGINS
    assert sorted(contracts["plugins"]["modules"]) == PLUGINS
    assert sorted(contracts["methods"]["source_modules"]) == PLUGINS
    assert contracts["layers"]["exhaustive"] is True
