"""`unlearnbench plugin new` writes packages that work, and refuses names that cannot."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest
from command_line import command, install
from repository import ROOT

from unlearnbench.hookspecs import KINDS
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.testing.skeleton import checked_name, write_package

__all__ = ["command", "install"]

CATALOGUE = load_catalogue()
METADATA = "Metadata-Version: 2.1\nName: {name}\nVersion: 0.1.0\n"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Write one package a kind, all beside each other."""
    out = tmp_path_factory.mktemp("written")
    return {kind: write_package(f"first-{kind}", kind, out, CATALOGUE) for kind in [*KINDS, "posthoc", "table"]}


@pytest.mark.parametrize("kind", [*KINDS, "posthoc"])
def test_a_package_is_whole_and_short(kind: str, written: dict[str, Path]) -> None:
    folder = written[kind]
    module = f"unlearnbench_first_{kind}"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "README.md",
        "pyproject.toml",
        f"tests/test_{module}.py",
        f"{module}.py",
    ]
    project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["name"] == f"unlearnbench-first-{kind}"
    assert project["entry-points"]["unlearnbench"] == {f"first-{kind}": module}
    # An update rule is longer than what the other kinds have to write.
    most = 48 if kind == "posthoc" else 45
    assert len((folder / f"{module}.py").read_text(encoding="utf-8").splitlines()) <= most
    test = (folder / "tests" / f"test_{module}.py").read_text(encoding="utf-8")
    base = "Unlearner" if kind == "posthoc" else kind.title()
    assert f"class TestFirst{kind.title()}({base}Conformance):" in test
    for path in folder.rglob("*.*"):
        assert "$" not in path.read_text(encoding="utf-8")


def test_a_package_of_published_numbers_is_whole_and_uses_two_doors(written: dict[str, Path]) -> None:
    folder, module = written["table"], "unlearnbench_first_table"
    assert sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()) == [
        "README.md",
        "pyproject.toml",
        f"tests/test_{module}.py",
        f"{module}/__init__.py",
        f"{module}/published.csv",
        f"{module}/tables.py",
    ]
    for path in folder.rglob("*.*"):
        assert "$" not in path.read_text(encoding="utf-8")
    for path in folder.rglob("*.py"):
        imported = re.findall(r"^from (unlearnbench[.\w]*) import", path.read_text(encoding="utf-8"), re.M)
        assert {name for name in imported if not name.startswith(module)} <= {"unlearnbench", "unlearnbench.report"}


@pytest.mark.slow
def test_every_package_passes_its_own_tests(written: dict[str, Path]) -> None:
    """Found by their entry points, as pip would write them; one run of pytest for all."""
    for folder in written.values():
        project = tomllib.loads((folder / "pyproject.toml").read_text(encoding="utf-8"))["project"]
        info = folder / f"{project['name'].replace('-', '_')}-0.1.0.dist-info"
        info.mkdir()
        (info / "METADATA").write_text(METADATA.format(name=project["name"]), encoding="utf-8")
        ((plugin, module),) = project["entry-points"]["unlearnbench"].items()
        (info / "entry_points.txt").write_text(f"[unlearnbench]\n{plugin} = {module}\n", encoding="utf-8")
    path = os.pathsep.join([*map(str, written.values()), os.environ.get("PYTHONPATH", "")])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-v", "-p", "no:cacheprovider", *map(str, written.values())],
        capture_output=True, text=True, cwd=written["metric"].parent, timeout=500,
        env={**os.environ, "PYTHONPATH": path},
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr
    for kind in [*KINDS, "posthoc"]:
        assert re.search(rf"TestFirst{kind.title()}::test_conforms.declares. PASSED", run.stdout)
    assert "test_ours_stand_beside_them PASSED" in run.stdout
    assert "FAILED" not in run.stdout


def test_every_package_is_clean_for_ruff(written: dict[str, Path]) -> None:
    if importlib.util.find_spec("ruff") is None:
        pytest.skip("ruff is not installed")
    for config in ([], ["--config", str(ROOT / "pyproject.toml")]):
        for verb in (["check"], ["format", "--check"]):
            run = subprocess.run(
                [sys.executable, "-m", "ruff", *verb, "--no-cache", *config, *map(str, written.values())],
                capture_output=True, text=True, timeout=200,
            )  # fmt: skip
            assert run.returncode == 0, run.stdout + run.stderr


@pytest.mark.slow
def test_every_package_is_clean_for_mypy(written: dict[str, Path], tmp_path: Path) -> None:
    """With the settings of `make check`, whose cache is there when that has run."""
    cache = ROOT / ".mypy_cache"
    if importlib.util.find_spec("mypy") is None or not cache.is_dir():
        pytest.skip("mypy is not installed, or has no cache: `make check` makes one; without it this takes minutes")
    copies = shutil.copytree(cache, tmp_path / "cache")
    files = [str(path) for folder in written.values() for path in folder.rglob("*.py") if path.parent.name != "tests"]
    files += [str(path) for folder in written.values() for path in folder.glob("tests/*.py")]
    run = subprocess.run(
        [sys.executable, "-m", "mypy", "--cache-dir", str(copies), *files],
        capture_output=True, text=True, cwd=ROOT, timeout=500,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout + run.stderr


# Names


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("degree", "degree"),
        ("unlearnbench-degree", "degree"),
        ("Degree_Cards", "degree-cards"),
        ("a.b--c", "a-b-c"),
        ("k2", "k2"),
    ],
)
def test_names_are_written_the_one_way(name: str, plain: str) -> None:
    assert checked_name(name, CATALOGUE) == plain


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("../evil", "cannot be the name"),
        ("a/b", "cannot be the name"),
        ("a\\b", "cannot be the name"),
        ("/tmp/x", "cannot be the name"),
        ("..", "cannot be the name"),
        ("", "cannot be the name"),
        (" ", "cannot be the name"),
        ("-degree", "cannot be the name"),
        ("degree-", "cannot be the name"),
        ("3d", "cannot be the name"),
        ("de gree", "cannot be the name"),
        ("degr\u00e9", "cannot be the name"),
        ("degree\n", "cannot be the name"),
        ("degree[slack=0]", "cannot be the name"),
        ("class", "'class' is a reserved word"),
        ("None", "'none' is a reserved word"),
        ("partitioner", "'partitioner' is a reserved word"),
        ("Graph", "'graph' is a reserved word"),
        ("all", "'all' is a reserved word"),
        ("unlearnbench", "'unlearnbench' is a reserved word"),
        ("hash", "There is a partitioner 'hash' already, of unlearnbench"),
        ("unlearnbench-GCN", "There is a model 'gcn' already"),
        ("partitioners", "There is a plugin 'partitioners' of unlearnbench already"),
    ],
)
def test_names_that_cannot_be_used_are_refused(command: Any, tmp_path: Path, name: str, said: str) -> None:
    told = command("plugin", "new", "--kind", "partitioner", "--out", str(tmp_path / "out"), "--", name)
    assert told.code == 2
    assert said in told.err
    assert not (tmp_path / "out").exists()


def test_a_folder_that_exists_is_never_overwritten(command: Any, tmp_path: Path) -> None:
    assert command("plugin", "new", "cards", "--kind", "partitioner").code == 0
    mine = Path("unlearnbench-cards") / "unlearnbench_cards.py"
    mine.write_text("# mine\n", encoding="utf-8")
    told = command("plugin", "new", "cards", "--kind", "metric")
    assert told.code == 2
    assert "unlearnbench-cards exists already; nothing was written" in told.err
    assert mine.read_text(encoding="utf-8") == "# mine\n"
    Path("unlearnbench-other").write_text("a file\n", encoding="utf-8")
    assert command("plugin", "new", "other", "--kind", "metric").code == 2
    assert Path("unlearnbench-other").read_text(encoding="utf-8") == "a file\n"
    told = command("plugin", "new", "third", "--kind", "metric", "--out", "unlearnbench-other/below")
    assert told.code == 2
    assert "cannot be written" in told.err


def test_it_says_what_was_written_and_what_comes_next(command: Any) -> None:
    told = command("plugin", "new", "Cards", "--kind", "method", "--out", "made/here")
    assert told.code == 0
    assert told.out.splitlines()[-2:] == [
        "  pip install --editable made/here/unlearnbench-cards",
        "  unlearnbench plugin check cards",
    ]
    assert sum(line.startswith("wrote ") for line in told.out.splitlines()) == 4
    assert "class Cards(Unlearner):" in Path("made/here/unlearnbench-cards/unlearnbench_cards.py").read_text()


def test_a_kind_that_there_is_not_is_a_usage_error(command: Any) -> None:
    assert command("plugin", "new", "cards", "--kind", "shuffler").code == 2
    assert command("plugin", "new", "cards").code == 2
