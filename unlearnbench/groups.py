"""What passes between a method and whoever keeps, or trains elsewhere, the members of some shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from torch import Tensor

if TYPE_CHECKING:
    from unlearnbench.task import Task


@dataclass(frozen=True, eq=False)
class Group:
    """Shards whose members are trained at once, and all that their members depend on beside the task.

    Args:
        shards: Their numbers.
        ids: int64, the ids of each shard's nodes, in the order of its subgraph.
        beside: What the method holds beside members for these shards before they are trained: see
            `Sharded.beside`.
    """

    shards: tuple[int, ...]
    ids: tuple[Tensor, ...]
    beside: Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Trained:
    """What came of training a group.

    Args:
        members: Parameters by shard and name, `3/conv1.weight`.
        beside: What the method holds beside members for these shards afterwards.
        counts: What the training counted.
    """

    members: Mapping[str, Tensor]
    beside: Mapping[str, Tensor]
    counts: Mapping[str, int]


class Keeper(Protocol):
    """The harness's side of training in groups; a method never learns where members are kept or trained."""

    @property
    def most(self) -> int | None:
        """Tell how many members a group may have; None: as many as fit into memory."""
        ...

    def begin(self, task: Task, groups: Sequence[Group]) -> bool:
        """Take note of what is to be trained; tell whether to ask for each group and to hand over what comes of it."""
        ...

    def find(self, task: Task, group: Group) -> Trained | None:
        """Give the group's members if they are here already, bit for bit what training would give."""
        ...

    def keep(self, task: Task, group: Group, trained: Trained) -> None:
        """Take what came of training."""
        ...


class KeepsNothing:
    """A keeper that is never asked."""

    most: int | None = None

    def begin(self, task: Task, groups: Sequence[Group]) -> bool:
        """Tell not to ask."""
        return False

    def find(self, task: Task, group: Group) -> Trained | None:
        """Have nothing."""
        return None

    def keep(self, task: Task, group: Group, trained: Trained) -> None:
        """Keep nothing."""
