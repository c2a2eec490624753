"""What a method gets to see: the task it is trained on and the queries it answers.

Only the harness makes tasks and queries. A task holds training nodes and nothing else; a
query holds the retained training nodes and the nodes asked for, without labels.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, field, replace
from enum import Enum
from itertools import repeat
from typing import TYPE_CHECKING, Any, Literal, Protocol

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError
from unlearnbench.graph import Graph
from unlearnbench.groups import Keeper, KeepsNothing
from unlearnbench.requests import Request

if TYPE_CHECKING:
    from unlearnbench.own_graph import OwnTask

ModelSpec = Spec


class View(Enum):
    """Which graph a member passes messages over when it predicts.

    `TARGETS`: the subgraph of the nodes asked for. `SHARD`: the member's own training nodes
    and the nodes asked for. `FULL`: all retained training nodes and the nodes asked for.
    """

    TARGETS = "targets"
    SHARD = "shard"
    FULL = "full"


@dataclass(frozen=True)
class Training:
    """How every network is trained: Adam on the mean cross-entropy.

    Args:
        epochs: Passes over the whole shard: one step each, unless there are batches.
        lr: Learning rate.
        weight_decay: L2 penalty added to the gradient, as Adam (not AdamW) does.
        one_by_one: Train networks one after the other instead of in lockstep: slower, the same
            bits on a CPU, and each network's time is measured.
        batch_size: Nodes of a step, in an order drawn anew for each epoch; the subgraph of a step is induced by
            them and their sampled neighbours. 0: the whole shard in one step.
        fanouts: With batches: how many neighbours of a node are sampled at most, for each hop.
    """

    epochs: int = 100
    lr: float = 0.01
    weight_decay: float = 5e-4
    one_by_one: bool = False
    batch_size: int = 0
    fanouts: tuple[int, ...] = (5, 5)

    def canonical(self) -> dict[str, Any]:
        """Give plain JSON values; without batches their settings are none of a cell."""
        values = asdict(self)
        if not self.batch_size:
            del values["batch_size"], values["fanouts"]
        return values

    @classmethod
    def of(cls, plain: Mapping[str, Any]) -> Training:
        """Make it of what `canonical` gave.

        Raises:
            KeyError: Something is missing.
            TypeError: Something is not known, or is no list of numbers.
        """
        with_batches = {"fanouts": tuple(plain["fanouts"])} if plain.get("batch_size") else {}
        needed = {name: plain[name] for name in ("epochs", "lr", "weight_decay", "one_by_one")}
        return cls(**{**plain, **needed, **with_batches})


class Listener(Protocol):
    """The harness's side of a task: its clock, memory readings and counts."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Measure what happens inside."""
        ...

    def count(self, **amounts: int) -> None:
        """Add to named counts."""
        ...

    def epoch(self, number: int, total: int) -> None:
        """Take note that an epoch begins, counted from 1."""
        ...


class Silent:
    """A listener that measures nothing."""

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Do nothing."""
        return nullcontext()

    def count(self, **amounts: int) -> None:
        """Do nothing."""

    def epoch(self, number: int, total: int) -> None:
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
        given: Usually empty. An audit hands a partition in as
            `{"partition": int64 [[node id, shard], ...]}`.
        listener: The harness's clock and counts.
        keeper: Where members that were trained in groups are kept, or trained: see `groups.Keeper`.
    """

    graph: Graph
    model: ModelSpec
    training: Training
    device: torch.device
    seed: int
    given: Mapping[str, Tensor] = field(default_factory=dict)
    listener: Listener = field(default_factory=Silent, repr=False)
    keeper: Keeper = field(default_factory=KeepsNothing, repr=False)

    @classmethod
    def from_data(
        cls,
        data: Any,
        *,
        model: str = "gcn",
        epochs: int | None = None,
        lr: float | None = None,
        weight_decay: float | None = None,
        seed: int = 0,
        repetition: int = 0,
        split: int | Literal["folds"] | None = None,
        features: Literal["given", "degree", "constant"] = "given",
        undirected: bool = False,
        device: str = "cpu",
    ) -> OwnTask:
        """Make a task of one's own graph, outside any benchmark; `unlearnbench.method` is fitted to it.

        The graph passes the checks of `file:PATH` (docs/datasets.md), and what comes of it equals, bit
        for bit, what `run` makes of the same graph in a file.

        Args:
            data: A PyG `Data`, or a dictionary of tensors: `edge_index`, `y`, `x`, and where there
                are some `ids` (else 0..n-1), `train_mask`, `val_mask`, `test_mask`, `num_classes`. Copied.
            model: The base model: a bracket, `gcn[hidden=16]`.
            epochs: Epochs of training; None: 100.
            lr: Learning rate; None: 0.01.
            weight_decay: L2 penalty; None: 0.0005.
            seed: What every other seed is derived from.
            repetition: Without masks: which of the ten folds are tested; and other chance.
            split: Which of several splits in the masks; `folds`: ten folds instead of the masks.
            features: The data's, the number of edges that end in a node, or 1 for all.
            undirected: Add the reverse of every edge and drop duplicates.
            device: `auto`, `cpu`, `cuda` or `cuda:INDEX`.

        Raises:
            DataError: The data breaks a rule; names it and the first place that does.
            UsageError: An unknown model, a setting out of range, no such device or split.
        """
        from unlearnbench.own_graph import task_from_data

        return task_from_data(
            data, model, epochs, lr, weight_decay, seed, repetition, split, features, undirected, device
        )

    def without(self, request: Request) -> Task:
        """Make the retained task.

        The nodes of the request, their features, labels and edges are gone; or its edges.
        """
        if request.kind == "edge":
            return replace(self, graph=request.apply(self.graph))
        given = {name: rows[~torch.isin(rows[:, 0], request.ids.to(rows.device))] for name, rows in self.given.items()}
        return replace(self, graph=request.apply(self.graph), given=given)

    def generator(self, *role: str | int) -> torch.Generator:
        """Make a fresh CPU generator that depends on the task's seed and the role alone."""
        return seeds.generator(self.seed, *role)

    def key(self, *role: str | int) -> int:
        """Give the integer that `generator` would be seeded with: a key for `seeds.keyed_hash`."""
        return seeds.seed(self.seed, *role)

    def phase(self, name: str) -> AbstractContextManager[None]:
        """Let the harness measure what happens inside, under this name."""
        return self.listener.phase(name)

    def count(self, **amounts: int) -> None:
        """Add to the harness's counts: `shards_hit`, `node_epochs`, `steps`."""
        self.listener.count(**amounts)

    def epochs(self, total: int) -> Iterator[int]:
        """Count 0 to `total - 1`, and let the harness show in which epoch a method is."""
        for epoch in range(total):
            self.listener.epoch(epoch + 1, total)
            yield epoch

    def query(self, targets: Tensor, view: View) -> Query:
        """Ask about training nodes of this task (an aggregator learns from such answers)."""
        return Query(targets, view, self.graph.without_labels(), self.graph.ids)


@dataclass(frozen=True, eq=False)
class Query:
    """A question about nodes, answered over one view of the graph.

    Args:
        targets: int64 [n], ids of the nodes asked for.
        view: Which graph messages pass over.
        graph: The subgraph of the retained training nodes and the targets; y is -1 throughout.
        retained: int64 [m], ids of the retained training nodes.
    """

    targets: Tensor
    view: View
    graph: Graph = field(repr=False)
    retained: Tensor = field(repr=False)

    def context(self, train_ids: Tensor) -> Graph:
        """Cut the graph to pass messages over for a network trained on `train_ids`.

        Returns:
            `SHARD`: the subgraph of `train_ids`, then the targets that are not among them.
            `FULL`: of all retained nodes and the targets. `TARGETS`: of the targets.

        Raises:
            RefusedError: One of `train_ids` is not a retained training node: a method asked for
                data it was told to forget.
        """
        self._check(train_ids)
        if self.view is View.TARGETS:
            return self.graph.induced(self.targets)
        if self.view is View.FULL:
            return self.graph
        strangers = self.targets[~torch.isin(self.targets, train_ids)]
        return self.graph.induced(torch.cat([train_ids, strangers]))

    def contexts(self, train_ids: Tensor, group: Tensor, wanted: Sequence[int]) -> Iterator[Graph]:
        """Give what `context` gives for each of several networks, one after the other, in one pass over the edges.

        Args:
            train_ids: int64 [m], all different.
            group: int64 [m], which network was trained on each.
            wanted: The networks, by their numbers.

        Raises:
            RefusedError: As `context`.
        """
        if self.view is not View.SHARD:
            return repeat(self.context(train_ids), len(wanted))
        self._check(train_ids)
        return self.graph.parts(train_ids, group, wanted, self.targets)

    def _check(self, train_ids: Tensor) -> None:
        strange = ~torch.isin(train_ids, self.retained)
        if bool(strange.any()):
            raise RefusedError(
                f"A query was asked for the graph of {int(strange.sum())} nodes that are not retained training nodes,"
                f" the first is {int(train_ids[strange][0])}.",
                "A method may pass messages only over nodes it still holds.",
            )


def make_query(graph: Graph, retained: Tensor, targets: Tensor, view: View, device: torch.device) -> Query:
    """Cut a query from the whole graph.

    Args:
        graph: The dataset.
        retained: int64 [m], ids of the retained training nodes.
        targets: int64 [n], ids of the nodes asked for.
        view: Which graph messages pass over.
        device: Where the method computes.
    """
    strangers = targets[~torch.isin(targets, retained)]
    cut = graph.induced(torch.cat([retained, strangers])).without_labels().to(device)
    # Copies: what a method writes into its query must not reach the split that others are given.
    return Query(targets.clone().to(device), view, cut, retained.clone().to(device))
