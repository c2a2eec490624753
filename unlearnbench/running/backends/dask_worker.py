"""What runs on a worker of a cluster: it says which versions it has, computes cells, and trains members.

A cell gets a process of its own on the worker, as `isolation` gives one here, and a results folder
of its own that is gone afterwards. In come JSON and numbers, out go JSON and the bytes of files;
what is to be kept is written by the side that sent the cell. Members are trained in the worker
itself, from plain arrays and into plain arrays.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray

from unlearnbench.graph import Graph
from unlearnbench.measure.machine import describe_machine
from unlearnbench.measure.provenance import provenance
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.backends.processes import Processes
from unlearnbench.running.cell_codec import cell_from_plain
from unlearnbench.running.process_guard import seeded_process_state
from unlearnbench.task import Task, Training
from unlearnbench.task.task import ShardGroup
from unlearnbench.unlearning.group_training import train_group

_ALONE = threading.Lock()


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


class MemberOrder(TypedDict):
    """What a worker gives back for a group of members.

    Args:
        differences: How its versions differ; then nothing was trained, and the rest is empty.
        members: Parameters by shard and name, as `groups.TrainedGroup` has them, and so the rest.
        extra_state: What the method holds beside them.
        counts: What was counted.
    """

    differences: list[str]
    members: dict[str, NDArray[Any]]
    extra_state: dict[str, NDArray[Any]]
    counts: dict[str, int]


def versions(disable_plugins: Sequence[str]) -> str:
    """Give what this worker would compute with, as JSON: see `measure.provenance`, and its plugins.

    Args:
        disable_plugins: Plugins that are not loaded.
    """
    return json.dumps({"plugins": load_catalogue(disable=list(disable_plugins)).versions(), **provenance()})


def version_differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
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
    found = version_differences(todo["provenance"], json.loads(versions(todo["disable_plugins"])))
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


def train_members(
    order: str,
    graph: Mapping[str, NDArray[Any]],
    ids: Sequence[NDArray[np.int64]],
    extra_state: Mapping[str, NDArray[Any]],
) -> MemberOrder:
    """Train the members of some shards in this process, one call at a time.

    Args:
        order: JSON: the cell, the task's seed and training, the shards, where and how to compute.
        graph: The training graph: `x`, `y`, `edge_index`, `ids`, `num_classes`.
        ids: The ids of each shard's nodes.
        extra_state: What the method holds beside members for these shards.
    """
    todo = json.loads(order)
    # Chance and modes of torch are the process's: a second training beside this one would change them.
    with _ALONE:
        found = version_differences(todo["provenance"], _own_versions(tuple(todo["disable_plugins"])))
        if found:
            return {"differences": found, "members": {}, "extra_state": {}, "counts": {}}
        cell = cell_from_plain(todo["cell"], load_catalogue(disable=todo["disable_plugins"]))
        device = torch.device(todo["device"])
        with seeded_process_state(todo["seed"], device, todo["deterministic"]):
            torch.set_num_threads(todo["threads"])
            task = Task(_graph_of(graph).to(device), cell.model, Training.of(todo["training"]), device, todo["seed"])
            nodes = tuple(torch.tensor(part).to(device) for part in ids)
            group = ShardGroup(
                tuple(todo["shards"]), nodes, {name: torch.tensor(part) for name, part in extra_state.items()}
            )
            method = cell.method.build()
            method.set_extra_state(group.shards, group.extra_state, device)
            trained = train_group(method, task, [task.graph.induced(part) for part in nodes], group)
            return {
                "differences": [],
                "members": {name: value.cpu().numpy() for name, value in trained.members.items()},
                "extra_state": {name: value.cpu().numpy() for name, value in trained.extra_state.items()},
                "counts": dict(trained.counts),
            }


@lru_cache(maxsize=1)
def _own_versions(disable_plugins: tuple[str, ...]) -> dict[str, Any]:
    said: dict[str, Any] = json.loads(versions(disable_plugins))
    return said


def _graph_of(arrays: Mapping[str, NDArray[Any]]) -> Graph:
    # Copies: what came over the network cannot be written to, which torch warns of.
    x, y, edge_index, ids = (torch.tensor(arrays[name]) for name in ("x", "y", "edge_index", "ids"))
    return Graph(x, y, edge_index, ids, int(arrays["num_classes"]))


def _differing(name: str, here: str | None, there: str | None) -> Iterator[str]:
    if here != there:
        yield f"{name} {there or 'is not there'}, not {here or 'absent'}"
