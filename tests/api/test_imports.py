from __future__ import annotations

import ast
import importlib
import tomllib
from pathlib import Path

import pytest
from repository import ROOT

import unlearnbench

PLUGINS = sorted(path.name for path in (ROOT / "plugins").iterdir() if (path / "__init__.py").exists())


# What judges methods, or runs them.
HARNESS = ("run", "Record", "load_records", "Metric", "method", "Method", "State", "load_state")
# Packages in plugins that show records and are no part of a method.
TABLES_OF_A_PAPER = ("paper",)
# What a plugin may import from.
DOORS = ("unlearnbench", "unlearnbench.gnn", "unlearnbench.unlearning", "unlearnbench.report", "unlearnbench.testing")


@pytest.mark.parametrize("door", ["unlearnbench", "unlearnbench.testing"])
def test_lazy_names_are_those_of_the_stub_and_are_the_things_themselves(door: str) -> None:
    package = importlib.import_module(door)
    stub = ast.parse(Path(package.__file__ or "").with_suffix(".pyi").read_text(encoding="utf-8"))
    names = []
    for statement in stub.body:
        if isinstance(statement, ast.ImportFrom):
            for alias in statement.names:
                # `import X as X` is what tells a type checker that the name is meant to be used from here.
                assert alias.asname == alias.name
                home = f"{door}.{statement.module}" if statement.module else door
                thing = getattr(importlib.import_module(home), alias.name)
                assert getattr(package, alias.name) is thing
                names.append(alias.name)
    assert sorted(names) == sorted(package.__all__)
    assert set(names) <= set(dir(package))


def imports_of(path: Path) -> list[tuple[str, str]]:
    """List what a file imports: module and name."""
    found = []
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            found += [(alias.name, "") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            found += [(node.module or "", alias.name) for alias in node.names]
    return found


def package_of(module: str) -> str:
    return module.split(".")[0]


PLUGIN_FILES = pytest.mark.parametrize(
    "path", sorted((ROOT / "plugins").rglob("*.py")), ids=lambda path: f"{path.parent.name}.{path.stem}"
)


@PLUGIN_FILES
def test_plugins_use_the_doors_that_are_open_to_everybody(path: Path) -> None:
    for module, name in imports_of(path):
        if package_of(module) == "unlearnbench":
            assert module in DOORS, f"{path.name} imports {name} from {module}: use one of {', '.join(DOORS)}"
            assert name in importlib.import_module(module).__all__, f"{module} does not export {name}"


@PLUGIN_FILES
def test_no_plugin_imports_another(path: Path) -> None:
    own = path.relative_to(ROOT / "plugins").parts[0]
    assert {package_of(module) for module, _ in imports_of(path)} & set(PLUGINS) <= {own}


@PLUGIN_FILES
def test_a_method_sees_no_metric_record_or_run(path: Path) -> None:
    if path.parent.name in TABLES_OF_A_PAPER:
        return
    for module, name in imports_of(path):
        assert (module, name) not in {("unlearnbench", each) for each in HARNESS}
        assert module != "unlearnbench.report"


@pytest.mark.parametrize("path", sorted((ROOT / "unlearnbench").rglob("*.py")), ids=lambda path: path.stem)
def test_the_core_imports_no_plugin(path: Path) -> None:
    assert not [module for module, _ in imports_of(path) if package_of(module).startswith("unlearnbench_")]


def test_a_name_that_is_not_public_is_an_error() -> None:
    with pytest.raises(AttributeError, match="No unlearnbench attribute Partitoner"):
        unlearnbench.Partitoner  # noqa: B018


def test_every_plugin_enters_by_an_entry_point() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert sorted(settings["project"]["entry-points"]["unlearnbench"].values()) == PLUGINS


def test_nothing_else_in_the_settings_names_a_plugin() -> None:
    lines = (ROOT / "pyproject.toml").read_text(encoding="utf-8").splitlines()
    assert sorted(line.split('"')[1] for line in lines if "unlearnbench_" in line) == PLUGINS


def test_imports_between_folders_run_one_way() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    (layers,) = settings["tool"]["importlinter"]["contracts"]
    assert layers["exhaustive"] is True
    assert "ignore_imports" not in layers
    # A method reaches no record, metric or run through the doors it may use.
    order = [set(line.replace("|", " ").replace(":", " ").split()) for line in layers["layers"]]
    (methods,) = [number for number, names in enumerate(order) if "unlearning" in names]
    above = set().union(*order[:methods], {"records"})
    assert above >= {"cli", "report", "running", "metrics", "measure", "records"}
