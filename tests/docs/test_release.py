"""What is beside the package for those who ship it: workflows, forms for issues, a recipe, an image."""

from __future__ import annotations

import re
import tomllib
from typing import Any

import pytest
from repository import ROOT

yaml = pytest.importorskip("yaml", reason="needs PyYAML, of the extra dev")
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
FORMS = sorted((ROOT / ".github" / "ISSUE_TEMPLATE").glob("*.yml"))
# Names on conda-forge that differ from those of the package index.
CONDA = {"pytorch": "torch", "pytorch_geometric": "torch-geometric"}


def read(path: str) -> Any:
    return yaml.safe_load((ROOT / path).read_text("utf-8"))


def test_the_workflow_runs_what_is_there() -> None:
    jobs = read(".github/workflows/checks.yml")["jobs"]
    assert {job["runs-on"] for job in jobs.values()} == {"ubuntu-latest", "${{ matrix.os }}"}
    commands = [step["run"] for job in jobs.values() for step in job["steps"] if "run" in step]
    assert ".ci/run" in commands
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o100
    extras = {extra for command in commands for extra in re.findall(r"\.\[(\w+)\]", command)}
    assert extras <= set(PROJECT["optional-dependencies"])
    assert any("constraints.txt" in command for command in commands)


def test_ci_and_make_name_targets_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text("utf-8")
    targets = set(re.findall(r"^([a-z-]+):", makefile, re.M))
    calls = re.findall(r"^make (.+)", (ROOT / ".ci" / "run").read_text("utf-8"), re.M)
    named = {word for call in calls for word in call.split() if not word.startswith("-")}
    assert {"check", "dist", "test", "test-slow"} <= named <= targets
    (parts,) = (set(line.split()) for line in re.findall(r"^check: (.+)", makefile, re.M))
    assert parts <= targets
    assert set(re.findall(r'echo "make ([a-z-]+)', makefile)) == targets - {"help"} - parts


@pytest.mark.parametrize("path", FORMS, ids=lambda path: path.stem)
def test_forms_for_issues_can_be_read(path: Any) -> None:
    form = yaml.safe_load(path.read_text("utf-8"))
    if path.stem == "config":
        assert form == {"blank_issues_enabled": True}
        return
    assert {"name", "description", "body"} == set(form)
    ids = [field["id"] for field in form["body"]]
    assert len(ids) == len(set(ids)) >= 2
    assert {field["type"] for field in form["body"]} <= {"input", "textarea"}
    assert all(field["attributes"]["label"] for field in form["body"])
    for page in re.findall(r"docs/\w+\.md", form["description"]):
        assert (ROOT / page).is_file()


def test_the_recipe_needs_what_the_package_needs() -> None:
    recipe = read("packaging/conda/meta.yaml")
    assert recipe["package"] == {"name": PROJECT["name"], "version": PROJECT["version"]}
    run = {
        CONDA.get(name, name): limit
        for name, _, limit in (line.partition(" ") for line in recipe["requirements"]["run"])
    }
    assert run.pop("python") == PROJECT["requires-python"]
    assert {f"{name}{limit}" for name, limit in run.items()} == set(PROJECT["dependencies"])
    assert recipe["build"]["entry_points"] == [f"{k} = {v}" for k, v in PROJECT["scripts"].items()]


def test_the_image_copies_what_is_there_and_installs_extras_that_exist() -> None:
    lines = (ROOT / "Dockerfile").read_text("utf-8")
    copied = {name for line in re.findall(r"^COPY (.*)$", lines, re.M) for name in line.split()[:-1]}
    assert all((ROOT / name).exists() for name in copied)
    kept = {line[1:] for line in (ROOT / ".dockerignore").read_text("utf-8").splitlines() if line.startswith("!")}
    assert copied == kept
    (extras,) = re.findall(r"\.\[([\w,]+)\]", lines)
    assert set(extras.split(",")) <= set(PROJECT["optional-dependencies"])
    assert re.search(r"^torch==", (ROOT / "constraints.txt").read_text("utf-8"), re.M)


def test_one_folder_of_plugins_a_name_beside_the_package() -> None:
    modules = {value.partition(".")[0] for value in PROJECT["entry-points"]["unlearnbench"].values()}
    folders = {path.name for path in (ROOT / "plugins").iterdir() if (path / "__init__.py").is_file()}
    assert modules == folders
    assert all(name.startswith("unlearnbench_") for name in folders)
