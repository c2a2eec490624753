from __future__ import annotations

import ast
import importlib
import tomllib
from pathlib import Path

import pytest

import unlearnbench

ROOT = Path(__file__).parents[1]
PLUGINS = sorted(path.name for path in (ROOT / "plugins").iterdir() if (path / "__init__.py").exists())


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
