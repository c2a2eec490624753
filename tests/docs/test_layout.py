"""Tests lie where what they test lies, and share nothing but samples."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

from repository import ROOT, SAMPLES

TESTS = ROOT / "tests"
FILES = sorted(TESTS.rglob("test_*.py"))
# What is tested and is no folder of the package.
BESIDE_THE_PACKAGE = {"benchmarks", "docs", "fuzz", "plugins"}


def test_folders_are_those_of_the_package() -> None:
    package = {path.name for path in (ROOT / "unlearnbench").iterdir() if (path / "__init__.py").exists()}
    assert {path.relative_to(TESTS).parts[0] for path in FILES} <= package | BESIDE_THE_PACKAGE
    assert all(path.parent != TESTS for path in FILES)


def test_names_of_modules_are_unique() -> None:
    names = Counter(path.name for path in (*FILES, *SAMPLES.glob("*.py")))
    assert [name for name, count in names.items() if count > 1] == []


def imported(path: Path) -> set[str]:
    """List the modules that a file imports, inside of functions too."""
    tree = ast.parse(path.read_text(encoding="utf-8"))
    modules = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    return modules | {alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names}


def test_no_test_module_imports_another() -> None:
    modules = {path.stem for path in FILES}
    assert {path.name: found for path in FILES if (found := imported(path) & modules)} == {}
