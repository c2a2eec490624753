"""The package in `examples/`: built as a wheel, installed into a fresh environment, tested and run there."""

from __future__ import annotations

import json
import shutil
import sys
from pathlib import Path

import pytest
from fresh_environments import OFFLINE, fresh_environment, needs_pip, run
from repository import ROOT

pytestmark = pytest.mark.slow

EXAMPLES = sorted((ROOT / "examples").glob("unlearnbench-example-*"))


def test_there_is_one_example_package() -> None:
    assert [path.name for path in EXAMPLES] == ["unlearnbench-example-bfs"]
    lines = (EXAMPLES[0] / "unlearnbench_example_bfs.py").read_text(encoding="utf-8").splitlines()
    assert len(lines) <= 60


@needs_pip
def test_a_wheel_is_built_installed_and_run(tmp_path: Path) -> None:
    # A copy: building leaves folders beside the sources.
    source = shutil.copytree(EXAMPLES[0], tmp_path / "source", ignore=shutil.ignore_patterns("*.egg-info", "build"))
    wheels = tmp_path / "wheels"
    built = run(sys.executable, "-m", "pip", "wheel", *OFFLINE, "-w", wheels, source, cwd=tmp_path)
    assert built.returncode == 0, built.stdout + built.stderr
    (wheel,) = wheels.iterdir()
    assert wheel.name == "unlearnbench_example_bfs-0.1.0-py3-none-any.whl"

    python = fresh_environment(tmp_path / "fresh")
    installed = run(sys.executable, "-m", "pip", "--python", python, "install", *OFFLINE, wheel, cwd=tmp_path)
    assert installed.returncode == 0, installed.stdout + installed.stderr
    work = shutil.copytree(source / "tests", tmp_path / "work")

    tested = run(python, "-m", "pytest", "-q", "-p", "no:cacheprovider", ".", cwd=work)
    assert tested.returncode == 0, tested.stdout + tested.stderr
    assert " passed" in tested.stdout

    method = "sharded[partitioner=bfs,aggregator=mean]"
    ran = run(
        python, "-m", "unlearnbench", "run", "--methods", method, "--epochs", "3", "--num-shards", "4",
        "--repetitions", "1", "--out", "out", cwd=work,
    )  # fmt: skip
    assert ran.returncode == 0, ran.stderr
    assert "sharded[partitioner=bfs,aggregator=mean,num_shards=4]" in ran.stdout
    (path,) = work.glob("out/records/*/digits/sharded/*.json")
    record = json.loads(path.read_text(encoding="utf-8"))
    assert record["status"] == "ok"
    assert record["cell"]["method"]["params"]["partitioner"]["distribution"] == "unlearnbench-example-bfs"
    # A walk along edges keeps more of them in shards than chance, a quarter, would.
    assert record["partition"]["edges_kept"] > 0.5
