"""The notebook in examples/: it runs, it is committed with its outputs, and they tell nothing of a machine."""

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

NOTEBOOK = ROOT / "examples" / "own_graph.ipynb"


def cells(path: Path) -> list[dict[str, Any]]:
    return [cell for cell in json.loads(path.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]


def shapes(cell: dict[str, Any]) -> list[tuple[str, ...]]:
    return [(one["output_type"], *sorted(one.get("data", ()))) for one in cell["outputs"]]


def test_the_notebook_runs_and_gives_outputs_of_the_kind_that_are_committed(tmp_path: Path) -> None:
    for module in ("nbclient", "ipykernel"):
        pytest.importorskip(module, reason="notebooks are run with the extra `dev`")
    target = tmp_path / "own_graph.ipynb"
    script = [sys.executable, str(SAMPLES / "notebooks.py"), str(NOTEBOOK), str(target)]
    path = os.pathsep.join([str(ROOT), str(ROOT / "plugins"), os.environ.get("PYTHONPATH", "")])
    done = subprocess.run(
        script, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr
    again, committed = cells(target), cells(NOTEBOOK)
    assert [cell["source"] for cell in again] == [cell["source"] for cell in committed]
    assert [shapes(cell) for cell in again] == [shapes(cell) for cell in committed]
    assert (tmp_path / "state.pt").is_file()


def test_the_notebook_is_committed_with_outputs_that_name_no_place() -> None:
    found = cells(NOTEBOOK)
    assert [cell["execution_count"] for cell in found] == list(range(1, len(found) + 1))
    outputs = [one for cell in found for one in cell["outputs"]]
    assert len(outputs) >= 6
    assert not [one for one in outputs if one["output_type"] == "error" or one.get("name") == "stderr"]
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert not re.search(r"(/home|/root|/tmp|/Users|/work|/opt|/usr)/|[A-Z]:\\\\", text)
    assert len(text) < 50_000
