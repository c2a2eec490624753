"""A stranger's package: a few lines, installed by pip into a fresh environment beside a broken one, and used there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest
from fresh_environments import OFFLINE, environment, fresh_environment, needs_pip, run

MODULE = '''
import torch
from pydantic import Field

from unlearnbench import ComponentParams, Partitioner, Task, hookimpl


class Cards(Partitioner):
    """Sort nodes by label and deal them out one by one: every shard has every class."""

    name = "cards"
    summary = "Nodes sorted by label, dealt out like cards."
    reference = "ours"
    uses_data = True

    class Params(ComponentParams):
        first: int = Field(default=0, ge=0, description="Shard of the first node.")

    def partition(self, task: Task, num_shards: int) -> torch.Tensor:
        order = torch.argsort(task.graph.y, stable=True)
        shard = torch.empty_like(order)
        shard[order] = (torch.arange(len(order), device=order.device) + self.params.first) % num_shards
        return shard


@hookimpl
def register_partitioners(register):
    register(Cards)
'''

PROJECT = """
[project]
name = "{name}"
version = "{version}"
[project.entry-points.unlearnbench]
{plugin} = "{module}"
[tool.setuptools]
py-modules = ["{module}"]
"""


def lines_of(text: str) -> int:
    return len(text.strip().splitlines())


def write_project(folder: Path, name: str, plugin: str, source: str, version: str = "1.0") -> Path:
    folder.mkdir()
    module = name.replace("-", "_")
    (folder / f"{module}.py").write_text(source, encoding="utf-8")
    project = PROJECT.format(name=name, version=version, plugin=plugin, module=module)
    (folder / "pyproject.toml").write_text(project, encoding="utf-8")
    return folder


def test_a_minimal_plugin_is_small() -> None:
    assert lines_of(MODULE) <= 30
    assert lines_of(PROJECT) <= 8


@pytest.mark.long
@pytest.mark.slow
@needs_pip
def test_a_plugin_is_installed_by_pip_and_used_from_the_command_line(tmp_path: Path) -> None:
    good = write_project(tmp_path / "good", "ub-cards", "cards", MODULE, version="1.2")
    bad = write_project(tmp_path / "bad", "ub-bad", "bad", "import not_there\n")
    python = fresh_environment(tmp_path / "fresh")
    installed = subprocess.run(
        [sys.executable, "-m", "pip", "--python", str(python), "install", *OFFLINE, str(good), str(bad)],
        capture_output=True, text=True, cwd=tmp_path, env=environment(), timeout=200,
    )  # fmt: skip
    assert installed.returncode == 0, installed.stdout + installed.stderr
    work = tmp_path / "work"
    work.mkdir()

    listed = run(python, "-m", "unlearnbench", "plugins", "--json", cwd=work)
    assert listed.returncode == 0
    plugins = {plugin["name"]: plugin for plugin in json.loads(listed.stdout)}
    assert (plugins["cards"]["status"], plugins["cards"]["version"]) == ("ok", "1.2")
    assert plugins["cards"]["components"] == ["partitioner cards"]
    assert plugins["bad"]["status"] == "failed"
    assert plugins["bad"]["reason"] == "ModuleNotFoundError: No module named 'not_there'"
    assert plugins["sisa"]["status"] == "ok"

    method = "sharded[partitioner=cards,aggregator=mean]"
    ran = run(
        python, "-m", "unlearnbench", "run", "--methods", method, "--epochs", "3", "--num-shards", "4",
        "--repetitions", "1", "--out", "out", cwd=work,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "warning: plugin bad of ub-bad was not loaded: ModuleNotFoundError" in ran.stderr
    assert "sharded[partitioner=cards,aggregator=mean,num_shards=4]" in ran.stdout
    (path,) = work.glob("out/records/*/digits/sharded/*.json")
    record = json.loads(path.read_text())
    assert record["status"] == "ok"
    partitioner = record["cell"]["method"]["params"]["partitioner"]
    assert partitioner == {"name": "cards", "version": 1, "params": {"first": 0}, "distribution": "ub-cards"}
    assert record["provenance"]["plugins"]["ub-cards"] == "1.2"
    sizes = record["partition"]["sizes"]
    # Dealt out like cards: sizes differ by one at most, and every shard has nearly the classes of the whole.
    assert len(sizes) == 4
    assert max(sizes) - min(sizes) <= 1
    assert record["partition"]["label_entropy"] == pytest.approx(record["partition"]["graph_entropy"], abs=1e-3)

    refused = run(python, "-m", "unlearnbench", "run", "--methods", "bad", "--out", "out", cwd=work)
    assert refused.returncode == 2
    assert "not_there" in refused.stderr.splitlines()[-1]
