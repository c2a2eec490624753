"""Trains the members of a group, here or wherever a keeper has it done, in a form that can be sent and stored."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol

from torch import Tensor

from unlearnbench.gnn import Networks
from unlearnbench.graph import Graph
from unlearnbench.task import Task
from unlearnbench.task.task import ShardGroup, TrainedGroup
from unlearnbench.task.training import Listener


class TrainsMembers(Protocol):
    """What of `Sharded` trains members."""

    def train_members(self, task: Task, graphs: Sequence[Graph], shards: Sequence[int]) -> Networks:
        """Train the members of some shards."""
        ...

    def extra_state(self, shards: Sequence[int]) -> Mapping[str, Tensor]:
        """Give what is held beside members."""
        ...


class CountingListener:
    """A listener that notes what is counted on its way to another.

    Args:
        other: Hears everything.
    """

    def __init__(self, other: Listener) -> None:
        self._other = other
        self.counts: dict[str, int] = {}

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Let the other measure."""
        return self._other.phase(name)

    def count(self, **amounts: int) -> None:
        """Note the amounts, and let the other count."""
        for name, amount in amounts.items():
            self.counts[name] = self.counts.get(name, 0) + int(amount)
        self._other.count(**amounts)

    def epoch(self, number: int, total: int) -> None:
        """Let the other take note."""
        self._other.epoch(number, total)


def train_group(method: TrainsMembers, task: Task, graphs: Sequence[Graph], group: ShardGroup) -> TrainedGroup:
    """Train the members of a group.

    Args:
        method: Whose members; it holds `group.beside` already.
        task: The task, or the retained one.
        graphs: The subgraph of each shard.
        group: Which.
    """
    listener = CountingListener(task.listener)
    networks = method.train_members(replace(task, listener=listener), graphs, group.shards)
    members = {
        f"{shard}/{name}": value
        for place, shard in enumerate(group.shards)
        for name, value in networks.state(place).items()
    }
    return TrainedGroup(members, method.extra_state(group.shards), listener.counts)


def describes_extra_state(method: TrainsMembers) -> bool:
    """Tell whether a method's `beside` was written for its `train_members`: by the same class, or a later one."""
    written = [
        next(place for place, cls in enumerate(type(method).__mro__) if name in vars(cls))
        for name in ("extra_state", "train_members")
    ]
    return written[0] <= written[1]


def of_shard(shard: int, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Give the parameters of one shard's member by name, of `Trained.members`."""
    head = f"{shard}/"
    return {name.removeprefix(head): value for name, value in values.items() if name.startswith(head)}
