"""What a method sees: the task it is trained on and the queries it answers.

Only the harness creates tasks and queries. A task holds training nodes and nothing else; a
query holds the retained training nodes and the nodes to predict, without labels. In the transductive
setting both also hold all other nodes, without labels.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterator, Mapping, MutableMapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from enum import Enum
from functools import cached_property
from itertools import repeat
from typing import Any, Protocol

import torch
from torch import Tensor

import unlearnbench
from unlearnbench import seeds
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task.surroundings import Surroundings
from unlearnbench.task.training import Listener, Silent, Training

ModelSpec = Spec


class View(Enum):
    """Which graph a member passes messages over when it predicts.

    `TARGETS`: the subgraph of the nodes to predict. `SHARD`: the member's own training nodes
    and the nodes to predict. `FULL`: all retained training nodes and the nodes to predict.
    In the transductive setting `SHARD` and `FULL` have all nodes that are no training nodes too.
    """

    TARGETS = "targets"
    SHARD = "shard"
    FULL = "full"


@dataclass(frozen=True, eq=False)
class ShardGroup:
    """Shards whose members are trained together, and all that these depend on apart from the task.

    Args:
        shards: Their numbers.
        ids: int64, the ids of each shard's nodes, in the order of its subgraph.
        extra_state: What else the method holds for these shards before training: see
            `Sharded.extra_state`.
    """

    shards: tuple[int, ...]
    ids: tuple[Tensor, ...]
    extra_state: Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class TrainedGroup:
    """The result of training a group.

    Args:
        members: Parameters by shard and name, `3/conv1.weight`.
        extra_state: What else the method holds for these shards afterwards.
        counts: Counts reported during training.
    """

    members: Mapping[str, Tensor]
    extra_state: Mapping[str, Tensor]
    counts: Mapping[str, int]


class CheckpointStore(Protocol):
    """Where trained groups come from and go to; a method never learns where members are kept or trained."""

    @property
    def most(self) -> int | None:
        """Largest number of members in a group; None: as many as fit into memory."""
        ...

    def begin(self, task: Task, groups: Sequence[ShardGroup]) -> bool:
        """Announce what is to be trained; return whether to call `find` and `keep` for each group."""
        ...

    def find(self, task: Task, group: ShardGroup) -> TrainedGroup | None:
        """Return the group's members if they are there already, bit for bit those that training would give."""
        ...

    def keep(self, task: Task, group: ShardGroup, trained: TrainedGroup) -> None:
        """Store a trained group."""
        ...


class NoCheckpoints:
    """A store that declines every group."""

    most: int | None = None

    def begin(self, task: Task, groups: Sequence[ShardGroup]) -> bool:
        """Return False."""
        return False

    def find(self, task: Task, group: ShardGroup) -> TrainedGroup | None:
        """Return None."""
        return None

    def keep(self, task: Task, group: ShardGroup, trained: TrainedGroup) -> None:
        """Do nothing."""


@dataclass(frozen=True, eq=False)
class Task:
    """What a method is trained on.

    Args:
        graph: The training nodes and the edges among them, on `device`.
        model: The base model.
        training: How networks are trained.
        device: Where to compute.
        seed: The base of every generator; the same for every method of a repetition.
        given: Usually empty. An audit passes a partition as
            `{"partition": int64 [[node id, shard], ...]}`.
        listener: The harness's clock and counts.
        checkpoints: Where members trained in groups are kept, or trained: see `CheckpointStore`.
        surroundings: All other nodes, without labels; None: the setting is inductive.
        trained: The parameters of networks that were trained before, by all that a training depends on: an audit
            makes equal trainings of several runs once. None: every network is trained.
    """

    graph: Graph
    model: ModelSpec
    training: Training
    device: torch.device
    seed: int
    given: Mapping[str, Tensor] = field(default_factory=dict)
    listener: Listener = field(default_factory=Silent, repr=False)
    checkpoints: CheckpointStore = field(default_factory=NoCheckpoints, repr=False)
    surroundings: Surroundings | None = field(default=None, repr=False)
    trained: MutableMapping[str, Mapping[str, Tensor]] | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        # However a task was made: nothing of a node that is gone is left, no edge to its neighbours either.
        if self.surroundings is not None:
            object.__setattr__(self, "surroundings", self.surroundings.joining(self.graph))

    @cached_property
    def seen(self) -> Graph:
        """The graph to pass messages over in training: `graph`, and after its nodes those of `surroundings`.

        Their labels are -1, and `train_networks` leaves nodes with such a label out of the loss.
        """
        if self.surroundings is None:
            return self.graph
        around = self.surroundings
        return self.graph.extended(around.graph, around.links, around.link_weight)

    def parts(self, ids: Tensor, shard: Tensor, wanted: Sequence[int]) -> Iterator[Graph]:
        """Yield the graphs to train on for some shards: their nodes and, after them, those of `surroundings`.

        Args:
            ids: int64 [m], training nodes.
            shard: int64 [m], the shard of each, counted from 0.
            wanted: The shards to yield.
        """
        others = None if self.surroundings is None else self.surroundings.graph.ids
        return self.seen.parts(ids, shard, wanted, others)

    @classmethod
    def from_data(cls, data: Any, **settings: Any) -> Task:
        """Create a task from one's own graph: the former name of `unlearnbench.task_from_data`."""
        warnings.warn("Task.from_data is now unlearnbench.task_from_data.", DeprecationWarning, stacklevel=2)
        task: Task = unlearnbench.task_from_data(data, **settings)
        return task

    def without(self, request: Request) -> Task:
        """Return the retained task.

        It lacks the nodes of the request with their features, labels and edges, or its edges; or the features of
        the request are zero.
        """
        if request.kind != "node":
            return replace(self, graph=request.apply(self.graph))
        given = {name: rows[~torch.isin(rows[:, 0], request.ids.to(rows.device))] for name, rows in self.given.items()}
        return replace(self, graph=request.apply(self.graph), given=given)

    def generator(self, *role: str | int) -> torch.Generator:
        """Return a new CPU generator that depends on the task's seed and the role alone."""
        return seeds.generator(self.seed, *role)

    def key(self, *role: str | int) -> int:
        """Return the integer that `generator` would be seeded with: a key for `seeds.keyed_hash`."""
        return seeds.seed(self.seed, *role)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Return a context that the harness measures under this name."""
        return self.listener.phase(name)

    def count(self, **amounts: int) -> None:
        """Add to the harness's counts: `shards_hit`, `shards_retired`, `node_epochs`, `steps`."""
        self.listener.count(**amounts)

    def epochs(self, total: int) -> Iterator[int]:
        """Yield 0 to `total - 1`, and report each epoch to the harness."""
        for epoch in range(total):
            self.listener.epoch(epoch + 1, total)
            yield epoch

    def query(self, targets: Tensor, view: View) -> Query:
        """Return a query about training nodes of this task (an aggregator learns from its answers)."""
        return Query(targets, view, self.seen.without_labels(), self.graph.ids)


@dataclass(frozen=True, eq=False)
class Query:
    """A question about nodes, answered over one view of the graph.

    Args:
        targets: int64 [n], ids of the nodes to predict.
        view: Which graph messages pass over.
        graph: The subgraph of the retained training nodes and the targets, in the transductive setting of all
            nodes but forgotten ones; y is -1 throughout.
        retained: int64 [m], ids of the retained training nodes.
    """

    targets: Tensor
    view: View
    graph: Graph = field(repr=False)
    retained: Tensor = field(repr=False)

    def context(self, train_ids: Tensor) -> Graph:
        """Return the graph to pass messages over for a network trained on `train_ids`.

        Returns:
            `SHARD`: the subgraph of `train_ids`, then the targets that are not among them, then the
            surroundings. `FULL`: of all retained nodes, the targets and the surroundings. `TARGETS`: of the targets.

        Raises:
            RefusedError: One of `train_ids` is not a retained training node: the method asks for
                data that it had to forget.
        """
        self._check(train_ids)
        if self.view is View.TARGETS:
            return self.graph.induced(self.targets)
        if self.view is View.FULL:
            return self.graph
        others = self._shared[~torch.isin(self._shared, train_ids)]
        return self.graph.induced(torch.cat([train_ids, others]))

    @cached_property
    def _shared(self) -> Tensor:
        """The nodes that every network passes messages over: the targets, then those that nobody was trained on."""
        ids = self.graph.ids
        return torch.cat([self.targets, ids[~torch.isin(ids, torch.cat([self.retained, self.targets]))]])

    def contexts(self, train_ids: Tensor, group: Tensor, wanted: Sequence[int]) -> Iterator[Graph]:
        """Return what `context` returns for each of several networks, in one pass over the edges.

        Args:
            train_ids: int64 [m], all distinct.
            group: int64 [m], the network that was trained on each.
            wanted: The networks, by their numbers.

        Raises:
            RefusedError: As `context`.
        """
        if self.view is not View.SHARD:
            return repeat(self.context(train_ids), len(wanted))
        self._check(train_ids)
        return self.graph.parts(train_ids, group, wanted, self._shared)

    def _check(self, train_ids: Tensor) -> None:
        foreign = ~torch.isin(train_ids, self.retained)
        if bool(foreign.any()):
            raise RefusedError(
                f"A query was asked for the graph of {int(foreign.sum())} nodes that are not retained training nodes,"
                f" the first is {int(train_ids[foreign][0])}.",
                "A method may pass messages only over nodes it still holds.",
            )


def make_query(
    graph: Graph,
    retained: Tensor,
    targets: Tensor,
    view: View,
    device: torch.device,
    unlabelled: Tensor | None = None,
) -> Query:
    """Create a query from the whole graph.

    Args:
        graph: The dataset.
        retained: int64 [m], ids of the retained training nodes.
        targets: int64 [n], ids of the nodes to predict.
        view: Which graph messages pass over.
        device: Where the method computes.
        unlabelled: int64 [u], ids of all nodes but the training nodes; None: the setting is inductive.
    """
    others = targets[~torch.isin(targets, retained)]
    if unlabelled is not None:
        others = torch.cat([others, unlabelled[~torch.isin(unlabelled, targets)]])
    cut = graph.induced(torch.cat([retained, others])).without_labels().to(device)
    # Copies, so that a method that writes into its query does not change the split of other methods.
    return Query(targets.clone().to(device), view, cut, retained.clone().to(device))
