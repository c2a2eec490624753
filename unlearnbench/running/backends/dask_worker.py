"""What runs on a worker of a cluster: reports its versions, computes cells, and trains members.

A cell runs in a process of its own on the worker, as in `processes`, with a temporary results folder.
Inputs are JSON and arrays, results are JSON and the bytes of files, which the sender of the order
writes into its store. Members are trained in the worker itself, from and to plain arrays.
"""

from __future__ import annotations

import json
import tempfile
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, replace
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
from unlearnbench.running.backends.order import CellOrder, MemberOrder
from unlearnbench.running.backends.processes import Processes
from unlearnbench.running.cell_codec import cell_from_plain
from unlearnbench.running.process_guard import seeded_process_state
from unlearnbench.task import Task, Training
from unlearnbench.task.task import ShardGroup
from unlearnbench.unlearning.group_training import train_group

_ALONE = threading.Lock()


class CellAnswer(TypedDict):
    """The answer of a worker to a `CellOrder`.

    Args:
        differences: How its versions differ; if they do, nothing was computed and the rest is empty.
        machine: Id of the worker's machine.
        ended: How the cell's process ended: the fields of `processes.Ended`.
        files: The files it wrote, by path in its results folder; deployed states are below `state/`.
    """

    differences: list[str]
    machine: str
    ended: dict[str, Any]
    files: dict[str, bytes]


class MemberAnswer(TypedDict):
    """The answer of a worker to a `MemberOrder`.

    Args:
        differences: How its versions differ; if they do, nothing was trained and the rest is empty.
        members: Parameters by shard and name, as in `TrainedGroup`.
        extra_state: The method's extra state of these shards.
        counts: The counts of the training.
    """

    differences: list[str]
    members: dict[str, NDArray[Any]]
    extra_state: dict[str, NDArray[Any]]
    counts: dict[str, int]


def versions(disable_plugins: Sequence[str]) -> str:
    """Return the versions on this worker as JSON: those of `measure.provenance`, and its plugins.

    Args:
        disable_plugins: Plugins that are not loaded.
    """
    return json.dumps({"plugins": load_catalogue(disable=list(disable_plugins)).versions(), **provenance()})


def version_differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """List how the versions of two processes differ; empty if cells may go from one to the other.

    Args:
        here: The provenance of a run: `python`, `packages`, `plugins`, `git`.
        there: The same from a worker.
    """
    differences = list(_differing("python", here.get("python"), there.get("python")))
    for kind in ("packages", "plugins"):
        ours, theirs = here.get(kind) or {}, there.get(kind) or {}
        for name in sorted({*ours, *theirs}):
            differences += _differing(name, ours.get(name), theirs.get(name))
    # An installed package has no commit, only a version.
    if here.get("git") and there.get("git"):
        differences += _differing("the commit of unlearnbench", here["git"], there["git"])
    return list(dict.fromkeys(differences))


def compute(order: str, seconds: float | None) -> CellAnswer:
    """Compute one cell in a process of its own.

    Args:
        order: A `CellOrder` as JSON; `out` and `save_state` are replaced by temporary folders.
        seconds: How long the process may take; None: without limit.
    """
    sender, disable_plugins = _origin(order)
    differences = version_differences(sender, json.loads(versions(disable_plugins)))
    if differences:
        return {"differences": differences, "machine": "", "ended": {}, "files": {}}
    received = CellOrder.from_json(order)
    machine = describe_machine()["id"]
    with tempfile.TemporaryDirectory(prefix="unlearnbench-") as name:
        folder = Path(name)
        own_order = replace(
            received,
            out=str(folder / "out"),
            save_state=None if received.save_state is None else str(folder / "out" / "state"),
            provenance={**received.provenance, "worker": {"machine": machine}},
        )
        ended = Processes().run(own_order, seconds)
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
) -> MemberAnswer:
    """Train the members of some shards in this process, one call at a time.

    Args:
        order: A `MemberOrder` as JSON.
        graph: The training graph: `x`, `y`, `edge_index`, `ids`, `num_classes`.
        ids: The ids of each shard's nodes.
        extra_state: The method's extra state of these shards.
    """
    sender, disable_plugins = _origin(order)
    # torch's random state and modes belong to the process: two trainings at once would change them.
    with _ALONE:
        differences = version_differences(sender, _own_versions(tuple(disable_plugins)))
        if differences:
            return {"differences": differences, "members": {}, "extra_state": {}, "counts": {}}
        todo = MemberOrder.from_json(order)
        cell = cell_from_plain(todo.cell, load_catalogue(disable=disable_plugins))
        device = torch.device(todo.device)
        with seeded_process_state(todo.seed, device, todo.deterministic):
            torch.set_num_threads(todo.threads)
            task = Task(_graph_of(graph).to(device), cell.model, Training.of(todo.training), device, todo.seed)
            nodes = tuple(torch.tensor(part).to(device) for part in ids)
            group = ShardGroup(
                tuple(todo.shards), nodes, {name: torch.tensor(part) for name, part in extra_state.items()}
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


def _origin(order: str) -> tuple[Mapping[str, Any], list[str]]:
    """Read the provenance and the disabled plugins of an order, whose other fields may be another version's."""
    plain = json.loads(order)
    return plain["provenance"], plain["disable_plugins"]


@lru_cache(maxsize=1)
def _own_versions(disable_plugins: tuple[str, ...]) -> dict[str, Any]:
    own: dict[str, Any] = json.loads(versions(disable_plugins))
    return own


def _graph_of(arrays: Mapping[str, NDArray[Any]]) -> Graph:
    # Copies: arrays from the network are read-only, which torch warns of.
    x, y, edge_index, ids = (torch.tensor(arrays[name]) for name in ("x", "y", "edge_index", "ids"))
    return Graph(x, y, edge_index, ids, int(arrays["num_classes"]))


def _differing(name: str, here: str | None, there: str | None) -> Iterator[str]:
    if here != there:
        yield f"{name} {there or 'is not there'}, not {here or 'absent'}"
