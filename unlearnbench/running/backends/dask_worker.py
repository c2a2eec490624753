"""What runs on a worker of a cluster: reports its versions, computes cells, and trains members.

A cell runs in a process of its own on the worker, as in `processes`, with a temporary results folder.
Inputs are JSON and arrays, results are JSON and the bytes of files, which the sender of the order
writes into its store. Members are trained in the worker itself, from and to plain arrays.
"""

from __future__ import annotations

import json
import os
import tempfile
import threading
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, TypedDict

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

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
    """The answer of a worker to a `CellOrder`; if its versions differ, nothing was computed and the rest is empty."""

    differences: list[str]
    machine: str
    # The fields of `processes.Ended`.
    ended: dict[str, Any]
    # By path in the results folder; deployed states are below `state/`.
    files: dict[str, bytes]


class MemberAnswer(TypedDict):
    """The answer of a worker to a `MemberOrder`: a `TrainedGroup`, which is empty if its versions differ."""

    differences: list[str]
    members: dict[str, NDArray[Any]]
    extra_state: dict[str, NDArray[Any]]
    counts: dict[str, int]


def versions(disable_plugins: Sequence[str]) -> str:
    """Return the versions on this worker as JSON: those of `measure.provenance`, and its plugins."""
    return json.dumps({"plugins": load_catalogue(disable=disable_plugins).versions(), **provenance()})


def version_differences(here: Mapping[str, Any], there: Mapping[str, Any]) -> list[str]:
    """List how the provenance of a run differs from a worker's; empty if cells may go from one to the other."""
    pairs = [("python", here.get("python"), there.get("python"))]
    for kind in ("packages", "plugins"):
        ours, theirs = here.get(kind) or {}, there.get(kind) or {}
        pairs += [(name, ours.get(name), theirs.get(name)) for name in sorted({*ours, *theirs})]
    # An installed package has no commit, only a version.
    if here.get("git") and there.get("git"):
        pairs.append(("the commit of unlearnbench", here["git"], there["git"]))
    lines = (
        f"{name} {there or 'is not there'}, not {here or 'absent'}" for name, here, there in pairs if here != there
    )
    return list(dict.fromkeys(lines))


def compute(order: str, seconds: float | None) -> CellAnswer:
    """Carry out a `CellOrder` in a process of its own, with temporary folders as `out` and `save_state`."""
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
            python_path=os.environ.get("PYTHONPATH"),
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
    """Carry out a `MemberOrder` in this process, one call at a time."""
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
            outside = task.graph.ids[task.graph.y < 0]
            nodes = tuple(torch.tensor(part).to(device) for part in ids)
            group = ShardGroup(tuple(todo.shards), nodes, to_tensors(extra_state))
            method = cell.method.innermost().build()
            method.set_extra_state(group.shards, group.extra_state, device)
            graphs = [task.graph.induced(torch.cat([part, outside])) for part in nodes]
            trained = train_group(method, task, graphs, group)
            return {
                "differences": [],
                "members": to_arrays(trained.members),
                "extra_state": to_arrays(trained.extra_state),
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
    of = to_tensors(arrays)
    number = int(of["num_classes"])
    return Graph(of["x"], of["y"], of["edge_index"], of["ids"], number, edge_weight=of.get("edge_weight"))


def to_arrays(values: Mapping[str, Tensor]) -> dict[str, NDArray[Any]]:
    """Convert tensors to arrays on the CPU."""
    return {name: value.detach().cpu().numpy() for name, value in values.items()}


def to_tensors(values: Mapping[str, NDArray[Any]]) -> dict[str, Tensor]:
    """Copy arrays to tensors: arrays from the network are read-only, which torch warns of."""
    return {name: torch.tensor(value) for name, value in values.items()}
