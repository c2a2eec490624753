"""What runs on a worker of a cluster: it says which versions it has, and computes cells.

A cell gets a process of its own on the worker, as `isolation` gives one here, and a results folder
of its own that is gone afterwards. In come JSON and numbers, out go JSON and the bytes of files;
what is to be kept is written by the side that sent the cell.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypedDict

from unlearnbench.isolation import Processes
from unlearnbench.measure.machine import describe_machine
from unlearnbench.measure.provenance import provenance
from unlearnbench.plugins import load_catalogue


class Answer(TypedDict):
    """What a worker gives back for a cell.

    Args:
        differences: How its versions differ; then nothing was computed, and the rest is empty.
        machine: Id of the worker's machine.
        ended: How the cell's process ended: the fields of `isolation.Ended`.
        files: What it wrote, by path in its results folder or, below `state/`, where states go.
    """

    differences: list[str]
    machine: str
    ended: dict[str, Any]
    files: dict[str, bytes]


def versions(disable_plugins: Sequence[str]) -> str:
    """Give what this worker would compute with, as JSON: see `measure.provenance`, and its plugins.

    Args:
        disable_plugins: Plugins that are not loaded.
    """
    return json.dumps({"plugins": load_catalogue(disable=list(disable_plugins)).versions(), **provenance()})


def differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """Say how the versions of two places differ; empty if cells may go from one to the other.

    Args:
        here: As the provenance of a run: `python`, `packages`, `plugins`, `git`.
        there: The same of a worker.
    """
    found = list(_differing("python", here.get("python"), there.get("python")))
    for kind in ("packages", "plugins"):
        ours, theirs = here.get(kind) or {}, there.get(kind) or {}
        for name in sorted({*ours, *theirs}):
            found += _differing(name, ours.get(name), theirs.get(name))
    # An installed package knows no commit: then its version says all there is.
    if here.get("git") and there.get("git"):
        found += _differing("the commit of unlearnbench", here["git"], there["git"])
    return list(dict.fromkeys(found))


def compute(order: str, seconds: float | None) -> Answer:
    """Compute one cell in a process of its own.

    Args:
        order: JSON, as `isolation.order_of` gives it; `out` and `save_state` are chosen here.
        seconds: How long the process may take; None: as long as it takes.
    """
    todo = json.loads(order)
    found = differences(todo["provenance"], json.loads(versions(todo["disable_plugins"])))
    if found:
        return {"differences": found, "machine": "", "ended": {}, "files": {}}
    machine = describe_machine()["id"]
    with tempfile.TemporaryDirectory(prefix="unlearnbench-") as name:
        folder = Path(name)
        todo["out"] = str(folder / "out")
        todo["save_state"] = None if todo["save_state"] is None else str(folder / "out" / "state")
        todo["provenance"]["worker"] = {"machine": machine}
        ended = Processes().run(todo, seconds)
        files = {
            path.relative_to(folder / "out").as_posix(): path.read_bytes()
            for part in ("records", "state")
            for path in sorted((folder / "out" / part).rglob("*"))
            if path.is_file() and not path.name.startswith(".")
        }
    return {"differences": [], "machine": machine, "ended": asdict(ended), "files": files}


def _differing(name: str, here: str | None, there: str | None) -> Iterator[str]:
    if here != there:
        yield f"{name} {there or 'is not there'}, not {here or 'absent'}"
