"""Checkpoints of a cell that is being computed: members on disk, from which a killed run continues.

A group is reused only if everything its members depend on is bit for bit unchanged: see `PhaseCheckpoints`.
"""

from __future__ import annotations

import hashlib
import io
import os
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import unlearnbench
from unlearnbench import messages
from unlearnbench.component import canonical_json
from unlearnbench.errors import UnlearnbenchError
from unlearnbench.graph import Graph
from unlearnbench.graph.digest import update
from unlearnbench.records.files import make_folder, remove, write_whole, wrong_checksum
from unlearnbench.task import Task
from unlearnbench.task.task import CheckpointStore, NoCheckpoints, ShardGroup, TrainedGroup

FORMAT = 1
_MARK = "unlearnbench_group"


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Hash the source of the package and its plugins, since source under development keeps its version.

    Third-party plugins count by the version of their distribution.
    """
    package = Path(unlearnbench.__file__).resolve().parent
    folders = [package, *package.parent.glob("unlearnbench_*"), *(package.parent / "plugins").glob("*")]
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


@dataclass
class CellCheckpoints:
    """The checkpoints of one cell, one store for each phase.

    Args:
        folder: Folder of its groups, made at the first write; None: nothing is stored.
        facts: Plain JSON values that members depend on: the cell's key, versions, machine, device.
        elsewhere: Makes, for a phase, the store that has groups trained elsewhere; None: they are trained here.
        taken: Number of groups reused from an earlier run.
        asked: Whether a method trained members that could be stored, or trained elsewhere.
    """

    folder: Path | None = None
    facts: Mapping[str, Any] = field(default_factory=dict)
    elsewhere: Callable[[], CheckpointStore] | None = None
    taken: int = 0
    asked: bool = False

    @property
    def notes(self) -> list[str]:
        """Notes for the record."""
        if self.elsewhere is not None and not self.asked:
            return ["No member was sent to the cluster: all was trained here."]
        if not self.taken:
            return []
        return [
            f"{self.taken} groups of members were trained by an earlier run that was ended in the middle, and taken"
            " from there: it gives no times."
        ]

    def of(self, phase: str) -> CheckpointStore:
        """Return the store of a phase, `fit` or `unlearn`: the two share no group."""
        elsewhere = NoCheckpoints() if self.elsewhere is None else self.elsewhere()
        if self.folder is None:
            return elsewhere
        return PhaseCheckpoints(self, self.folder, {**self.facts, "phase": phase}, phase, elsewhere)


class PhaseCheckpoints:
    """Stores the groups of one phase on disk if there are several: small cells are not written.

    The name of a file is a digest of everything its members depend on: the training graph of the phase with
    every feature, label and edge, so that what was trained before a request is never reused after it;
    source, seed, settings, phase and facts; the group's shards with the ids of their nodes; and the extra
    state of the method. The file holds the digest as well, and each part has a checksum.

    What is not on disk is asked of `elsewhere`; `cell` counts the groups reused.
    """

    def __init__(
        self, cell: CellCheckpoints, folder: Path, facts: Mapping[str, Any], phase: str, elsewhere: CheckpointStore
    ) -> None:
        self._cell, self._folder, self._facts, self._phase, self._elsewhere = cell, folder, facts, phase, elsewhere
        self._several = False
        # A weak reference: after a request nothing may keep the former graph alive.
        self._graph: tuple[weakref.ref[Graph], str] | None = None

    @property
    def most(self) -> int | None:
        """The largest size of a group, set by what trains it."""
        return self._elsewhere.most

    def begin(self, task: Task, groups: Sequence[ShardGroup]) -> bool:
        """Whether groups are looked up: if there are several, or if they are trained elsewhere."""
        self._cell.asked, self._several = True, len(groups) > 1
        there = self._several and os.path.isdir(self._folder)
        missing = [group for group in groups if not (there and os.path.isfile(self._path(self._digest(task, group))))]
        return self._elsewhere.begin(task, missing) or self._several

    def find(self, task: Task, group: ShardGroup) -> TrainedGroup | None:
        """Read a group, or get it from elsewhere; a damaged one is reported and removed."""
        stored = self._read(task, group) if self._several else None
        if stored is not None:
            return stored
        trained = self._elsewhere.find(task, group)
        if trained is not None:
            self.keep(task, group, trained)
        return trained

    def _read(self, task: Task, group: ShardGroup) -> TrainedGroup | None:
        digest = self._digest(task, group)
        path = self._path(digest)
        if not os.path.isfile(path) or os.path.islink(path):
            return None
        trained = _read(path, digest)
        if trained is None:
            messages.note(f"{path} is damaged: its members are trained again.")
            remove(path)
            return None
        self._cell.taken += 1
        return trained

    def keep(self, task: Task, group: ShardGroup, trained: TrainedGroup) -> None:
        """Write a group atomically; a failure to write is reported and does not end the run."""
        if not self._several:
            return
        digest = self._digest(task, group)
        plain = {
            _MARK: FORMAT,
            "digest": digest,
            "members": _plain(trained.members),
            "extra_state": _plain(trained.extra_state),
            "counts": {name: int(amount) for name, amount in trained.counts.items()},
        }
        content = io.BytesIO()
        torch.save(plain, content)
        try:
            make_folder(self._folder)
            write_whole(self._path(digest), content.getvalue())
        except UnlearnbenchError as error:
            messages.note(f"{error.message} A run that is killed now starts this cell anew.")

    def _path(self, digest: str) -> Path:
        return self._folder / f"{self._phase}-{digest[:32]}.pt"

    def _digest(self, task: Task, group: ShardGroup) -> str:
        if self._graph is None or self._graph[0]() is not task.seen:
            self._graph = weakref.ref(task.seen), _checksum(task.seen)
        plain = {
            **self._facts,
            "source": source_digest(),
            "seed": task.seed,
            "training": asdict(task.training),
            "model": task.model.canonical(),
            "graph": self._graph[1],
            "shards": list(group.shards),
        }
        digest = hashlib.sha256(canonical_json(plain).encode())
        for number, ids in enumerate(group.ids):
            update(digest, ids, f"ids/{number}")
        for name, value in sorted(group.extra_state.items()):
            update(digest, value, f"extra_state/{name}")
        return digest.hexdigest()


def _checksum(graph: Graph) -> str:
    rows = graph.sparse_rows
    if rows is None:
        return graph.checksum()
    # Sparse features stay sparse: dense ones would take too much memory.
    digest = hashlib.sha256(f"{graph.num_classes}/{rows.num_columns}".encode())
    weights = [] if graph.edge_weight is None else [graph.edge_weight]
    for tensor in (rows.starts, rows.columns, rows.values, graph.y, graph.edge_index, graph.ids, *weights):
        update(digest, tensor)
    return digest.hexdigest()


def _plain(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # Copies: saving a view would save the whole tensor behind it.
    return {name: value.detach().cpu().contiguous().clone() for name, value in values.items()}


def _read(path: Path, digest: str) -> TrainedGroup | None:
    """Read a file written by `keep`; None if it is damaged or another group's."""
    try:
        if wrong_checksum(path) is not None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # torch warns of unusual pickles; here they are damage
            plain = torch.load(path, map_location="cpu", weights_only=True)
        if plain[_MARK] != FORMAT or plain["digest"] != digest:
            return None
        members, extra_state, counts = plain["members"], plain["extra_state"], plain["counts"]
        tensors = [*members.values(), *extra_state.values()]
        if not members or not all(isinstance(value, Tensor) for value in tensors):
            return None
        return TrainedGroup(members, extra_state, {str(name): int(amount) for name, amount in counts.items()})
    except Exception:  # a damaged pickle can raise anything
        return None
