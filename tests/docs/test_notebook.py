"""The notebooks in examples/: they run, are committed with their outputs, and these tell nothing of a machine."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from repository import ROOT, SAMPLES

pytestmark = pytest.mark.slow

# With the file that each saves.
NOTEBOOKS = {"own_graph.ipynb": "state.pt", "own_method.ipynb": "method.pt"}


def cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def shapes(cell: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(one["output_type"], *sorted(one.get("data", ()))) for one in cell["outputs"]]


def test_every_notebook_is_known() -> None:
    assert {path.name for path in (ROOT / "examples").glob("*.ipynb")} == set(NOTEBOOKS)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_runs_and_gives_outputs_of_the_kind_that_are_committed(tmp_path: Path, name: str) -> None:
    for module in ("nbclient", "ipykernel"):
        pytest.importorskip(module, reason="notebooks are run with the extra `dev`")
    notebook, target = ROOT / "examples" / name, tmp_path / name
    script = [sys.executable, str(SAMPLES / "notebooks.py"), str(notebook), str(target)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        script, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    again, committed = cells(target), cells(notebook)
    assert [cell["source"] for cell in again] == [cell["source"] for cell in committed]
    assert [shapes(cell) for cell in again] == [shapes(cell) for cell in committed]
    assert (tmp_path / NOTEBOOKS[name]).is_file()


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_the_notebook_is_committed_with_outputs_that_name_no_place(name: str) -> None:
    notebook = ROOT / "examples" / name
    found = cells(notebook)
    assert [cell["execution_count"] for cell in found] == list(range(1, len(found) + 1))
    outputs = [one for cell in found for one in cell["outputs"]]
    assert len(outputs) >= 5
    assert not [one for one in outputs if one["output_type"] == "error" or one.get("name") == "stderr"]
    text = notebook.read_text(encoding="utf-8")
    assert not re.search(r"(/home|/root|/tmp|/Users|/work|/opt|/usr)/|[A-Z]:\\\\", text)
    assert len(text) < 50_000
