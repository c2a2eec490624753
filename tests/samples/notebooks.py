"""Runs a notebook in a process of its own: `python notebooks.py IN OUT`; what it writes is what is committed."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

# What a front end or a kernel adds and nobody reads.
KEPT = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
WAIT_SECONDS = 600


def execute(source: Path, target: Path) -> None:
    """Run every cell in the folder of `target` and write the notebook with its outputs, without times and versions."""
    import nbformat
    from nbclient import NotebookClient

    notebook = nbformat.read(source, as_version=4)
    NotebookClient(
        notebook,
        timeout=WAIT_SECONDS,
        kernel_name="python3",
        coalesce_streams=True,
        resources={"metadata": {"path": str(target.parent)}},
    ).execute()
    plain: dict[str, Any] = json.loads(nbformat.writes(notebook))
    plain["metadata"] = {**KEPT, "language_info": {"name": "python"}}
    for cell in plain["cells"]:
        cell["metadata"] = {}
        # Warnings and progress are of this run and this machine.
        cell["outputs"] = [one for one in cell.get("outputs", []) if one.get("name") != "stderr"]
        if cell["cell_type"] != "code":
            del cell["outputs"]
    target.write_text(json.dumps(plain, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    execute(Path(sys.argv[1]), Path(sys.argv[2]))
