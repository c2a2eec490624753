"""Training of a group of members, in a form that can be stored or run elsewhere."""

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
from unlearnbench.task.training import AfterEpoch, Answer, Listener


class TrainsMembers(Protocol):
    """The part of `Sharded` that trains members."""

    def train_members(self, task: Task, graphs: Sequence[Graph], shards: Sequence[int]) -> Networks:
        """Train the members of some shards."""
        ...

    def extra_state(self, shards: Sequence[int]) -> Mapping[str, Tensor]:
        """Return what is held apart from members."""
        ...


class CountingListener:
    """A listener that records counts and passes everything on to another listener.

    Args:
        other: The listener that everything is passed on to.
    """

    def __init__(self, other: Listener) -> None:
        self._other = other
        self.counts: dict[str, int] = {}

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return the other listener's context."""
        return self._other.phase(name)

    def count(self, **amounts: int) -> None:
        """Record the amounts and pass them on."""
        for name, amount in amounts.items():
            self.counts[name] = self.counts.get(name, 0) + int(amount)
        self._other.count(**amounts)

    def epoch(self, number: int, total: int) -> None:
        """Pass the epoch on."""
        self._other.epoch(number, total)

    def follow(self, role: str, step: int, networks: Sequence[int], answer: Answer) -> AfterEpoch | None:
        """Return what the other listener returns."""
        return self._other.follow(role, step, networks, answer)


def train_group(method: TrainsMembers, task: Task, graphs: Sequence[Graph], group: ShardGroup) -> TrainedGroup:
    """Train the members of a group."""
    listener = CountingListener(task.listener)
    networks = method.train_members(replace(task, listener=listener), graphs, group.shards)
    members = {
        f"{shard}/{name}": value
        for place, shard in enumerate(group.shards)
        for name, value in networks.state(place).items()
    }
    return TrainedGroup(members, method.extra_state(group.shards), listener.counts)


def describes_extra_state(method: TrainsMembers) -> bool:
    """Whether a method's `extra_state` fits its `train_members`: the same class or a subclass defines it."""
    depth = [
        next(place for place, cls in enumerate(type(method).__mro__) if name in vars(cls))
        for name in ("extra_state", "train_members")
    ]
    return depth[0] <= depth[1]


def of_shard(shard: int, values: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Return the parameters of one shard's member by name, from `TrainedGroup.members`."""
    prefix = f"{shard}/"
    return {name.removeprefix(prefix): value for name, value in values.items() if name.startswith(prefix)}
