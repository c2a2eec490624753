"""Keeps members of a large cell on disk while it is not finished, so that a run that was killed goes on from there.

A group is taken back only if every bit that its members depend on is what it was: see `PhaseCheckpoints`.
"""

from __future__ import annotations

import hashlib
import io
import sys
import warnings
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import unlearnbench
from unlearnbench.component import canonical_json
from unlearnbench.errors import UnlearnbenchError
from unlearnbench.graph import Graph
from unlearnbench.graph.digest import update
from unlearnbench.records.files import make_folder, write_whole, wrong_checksum
from unlearnbench.task import Task
from unlearnbench.task.task import CheckpointStore, NoCheckpoints, ShardGroup, TrainedGroup

FORMAT = 1
_MARK = "unlearnbench_group"


@lru_cache(maxsize=1)
def source_digest() -> str:
    """Hash the source of the package and its plugins: what is being written has no version yet.

    Plugins from elsewhere count by the version of their distribution.
    """
    package = Path(unlearnbench.__file__).resolve().parent
    folders = [package, *package.parent.glob("unlearnbench_*"), *(package.parent / "plugins").glob("*")]
    digest = hashlib.sha256()
    for path in sorted(path for folder in folders for path in folder.rglob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()


class CellCheckpoints:
    """The keepers of one cell, one for each phase.

    Args:
        folder: Where its groups go; made at the first write. None: nowhere.
        facts: Plain JSON values that members depend on: the cell's key, versions, machine, device.
        elsewhere: Makes, for a phase, what has groups trained elsewhere; None: the method trains them.

    Attributes:
        taken: How many groups were there already and were taken.
        asked: Whether a method trained members that could be kept, or trained elsewhere.
    """

    def __init__(
        self,
        folder: Path | None = None,
        facts: Mapping[str, Any] | None = None,
        elsewhere: Callable[[], CheckpointStore] | None = None,
    ) -> None:
        self.taken = 0
        self.asked = False
        self._elsewhere = elsewhere
        self._folder, self._facts = folder, dict(facts or {})

    @property
    def notes(self) -> list[str]:
        """Say what a reader of the record should know."""
        if self._elsewhere is not None and not self.asked:
            return ["No member was sent to the cluster: all was trained here."]
        if not self.taken:
            return []
        return [
            f"{self.taken} groups of members were trained by an earlier run that was ended in the middle, and taken"
            " from there: it gives no times."
        ]

    def of(self, phase: str) -> CheckpointStore:
        """Give the keeper of a phase, `fit` or `unlearn`: neither is given what the other kept."""
        elsewhere = NoCheckpoints() if self._elsewhere is None else self._elsewhere()
        if self._folder is None:
            return elsewhere
        return PhaseCheckpoints(self, self._folder, {**self._facts, "phase": phase}, phase, elsewhere)


class PhaseCheckpoints:
    """Keeps the groups of one phase on disk, if there are several: a small cell touches no disk.

    The name of a file is a digest of all that its members depend on: the training graph of the phase with
    every feature, label and edge, so that what was trained before a request is never taken after it;
    source, seed, settings, phase and facts; the group's shards with the ids of their nodes; and what the method
    held beside members. The file says the digest as well, and each part has a checksum.

    Args:
        cell: Whose keeper this is; it counts what was taken.
        folder: Where groups go.
        facts: Plain JSON values that members depend on.
        phase: Heads the names of files.
        elsewhere: Is asked for what is not on disk.
    """

    def __init__(
        self, cell: CellCheckpoints, folder: Path, facts: Mapping[str, Any], phase: str, elsewhere: CheckpointStore
    ) -> None:
        self._cell, self._folder, self._facts, self._phase = cell, folder, facts, phase
        self._elsewhere = elsewhere
        self._several = False
        # The graph is not held: after a request nothing may keep the former one.
        self._graph: tuple[weakref.ref[Graph], str] | None = None

    @property
    def most(self) -> int | None:
        """Leave the size of groups to what trains them."""
        return self._elsewhere.most

    def begin(self, task: Task, groups: Sequence[ShardGroup]) -> bool:
        """Ask about groups if there are several, or if they are trained elsewhere."""
        self._cell.asked, self._several = True, len(groups) > 1
        there = self._several and self._folder.is_dir()
        missing = [group for group in groups if not (there and self._path(self._digest(task, group)).is_file())]
        return self._elsewhere.begin(task, missing) or self._several

    def find(self, task: Task, group: ShardGroup) -> TrainedGroup | None:
        """Read a group, or ask elsewhere for it; one that is damaged is told and removed."""
        if self._several:
            found = self._read(task, group)
            if found is not None:
                return found
        trained = self._elsewhere.find(task, group)
        if trained is not None:
            self.keep(task, group, trained)
        return trained

    def _read(self, task: Task, group: ShardGroup) -> TrainedGroup | None:
        digest = self._digest(task, group)
        path = self._path(digest)
        if not path.is_file() or path.is_symlink():
            return None
        trained = _read(path, digest)
        if trained is None:
            print(f"note: {path} is damaged: its members are trained again.", file=sys.stderr)
            path.unlink(missing_ok=True)
            return None
        self._cell.taken += 1
        return trained

    def keep(self, task: Task, group: ShardGroup, trained: TrainedGroup) -> None:
        """Write a group, whole or not at all; that it cannot be written is told and costs no more than itself."""
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
            print(f"note: {error.message} A run that is killed now starts this cell anew.", file=sys.stderr)

    def _path(self, digest: str) -> Path:
        return self._folder / f"{self._phase}-{digest[:32]}.pt"

    def _digest(self, task: Task, group: ShardGroup) -> str:
        if self._graph is None or self._graph[0]() is not task.graph:
            self._graph = weakref.ref(task.graph), _checksum(task.graph)
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
    # What is held as sparse stays so: its zeros would take most of the memory.
    digest = hashlib.sha256(f"{graph.num_classes}/{rows.num_columns}".encode())
    for tensor in (rows.starts, rows.columns, rows.values, graph.y, graph.edge_index, graph.ids):
        update(digest, tensor)
    return digest.hexdigest()


def _plain(values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    # Copies: a view would bring along all of what it is a part of.
    return {name: value.detach().cpu().contiguous().clone() for name, value in values.items()}


def _read(path: Path, digest: str) -> TrainedGroup | None:
    """Read a file of `keep`; None if it is not whole, or not what it should be."""
    try:
        if wrong_checksum(path) is not None:
            return None
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # what torch says of unusual pickles comes to the same as an error
            plain = torch.load(path, map_location="cpu", weights_only=True)
        if plain[_MARK] != FORMAT or plain["digest"] != digest:
            return None
        members, extra_state, counts = plain["members"], plain["extra_state"], plain["counts"]
        tensors = [*members.values(), *extra_state.values()]
        if not members or not all(isinstance(value, Tensor) for value in tensors):
            return None
        return TrainedGroup(members, extra_state, {str(name): int(amount) for name, amount in counts.items()})
    except Exception:  # a file can fail in any way its instructions can
        return None
