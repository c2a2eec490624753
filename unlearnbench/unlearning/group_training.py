"""Which members are trained together, and their training in a form that can be stored or run elsewhere."""

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

# What lockstep holds of the graphs of a group (see `numbers_a_row`) stays below this many numbers (256 MiB of
# float32), however many shards there are; a layer then has fewer rows than members that are evaluated at once. A graph
# of some 60,000 training nodes, with 500 features and 20 edges each, is still one group.
MOST_TRAINED = 2**26
# Per edge in training: its two ends, and index and value in the matrices of the forward and backward pass.
_NUMBERS_AN_EDGE = 10


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


def in_groups(shards: Sequence[int], sizes: Sequence[int], most_rows: int, most_shards: int | None) -> list[list[int]]:
    """Split shards, in their order, into groups whose members are trained together.

    Args:
        shards: Shards that have nodes.
        sizes: Rows of every shard, by its number.
        most_rows: Rows of a group; a shard with more is a group of its own.
        most_shards: Shards of a group; None: any number.
    """
    groups: list[list[int]] = []
    rows = 0
    for shard in shards:
        if not groups or rows + sizes[shard] > most_rows or len(groups[-1]) == most_shards:
            groups.append([])
            rows = 0
        groups[-1].append(shard)
        rows += sizes[shard]
    return groups


def numbers_a_row(graph: Graph, parameters: Mapping[str, Tensor]) -> int:
    """Return how many numbers training holds per node: features, outputs of layers with gradients, and edges.

    A layer's outputs have as many columns as its weight and bias: one set for values, one for gradients.

    Args:
        graph: What is trained on.
        parameters: Those of one network.
    """
    layers = sum(value.shape[-1] if value.dim() else 1 for value in parameters.values())
    edges = -(-graph.num_edges // graph.num_nodes)
    rows = graph.sparse_rows
    # A sparse entry is a column and a value.
    features = graph.num_features if rows is None else -(-2 * len(rows.values) // graph.num_nodes)
    return features + layers + _NUMBERS_AN_EDGE * edges
