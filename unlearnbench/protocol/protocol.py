"""The protocol: splits, request and queries, which must be the same for every method."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Literal

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph, Split
from unlearnbench.protocol.drawing import draw_edge_stream, draw_feature_stream, draw_stream
from unlearnbench.protocol.manipulation import Classes, add_edges, known_part, swap_labels
from unlearnbench.protocol.poison import Poison, inject, inject_features
from unlearnbench.protocol.requests import Forget, Request, joined

Setting = Literal["inductive", "transductive"]
FOLDS = 10
VALIDATION_FOLDS = 2
TEST_FOLDS = 1


@dataclass(frozen=True)
class Protocol:
    """Settings of the protocol.

    Args:
        name: Which protocol.
        version: Bumped when the same settings would give other splits, requests or views.
        forget: What is forgotten.
        own_split: Whether every repetition uses the split that the dataset comes with.
        poison: What is made wrong in the training graph, all or a part of which is then requested to be forgotten;
            None: nothing.
        setting: Whether training sees nodes that are no training nodes, without their labels: `transductive`.
    """

    name: str = "www24"
    version: int = 1
    forget: Forget = field(default_factory=Forget)
    own_split: bool = False
    poison: Poison | None = None
    setting: Setting = "inductive"

    def number_of(self, graph: Graph) -> int:
        """Return how many nodes or edges of a graph, or the features of how many nodes, are to be forgotten."""
        if self.poison is not None:
            return self.poison.number_known
        return self.forget.number_of(len(graph.pairs()) if self.forget.kind == "edge" else graph.num_nodes)

    def canonical(self) -> dict[str, Any]:
        """Return the plain values that enter a cell's key."""
        folds = [(FOLDS - VALIDATION_FOLDS - TEST_FOLDS) / FOLDS, VALIDATION_FOLDS / FOLDS, TEST_FOLDS / FOLDS]
        values = {
            "name": self.name,
            "version": self.version,
            "forget": self.forget.canonical(),
            "split": "own" if self.own_split else folds,
        }
        if self.setting != "inductive":
            values["setting"] = self.setting
        if self.poison is None:
            return values
        poison = self.poison.canonical()
        if self.forget.kind == "feature":
            del poison["edges"]
        how = "injected" if self.poison.manipulation is None else "manipulated"
        forget: dict[str, Any] = {"kind": self.forget.kind, how: self.poison.amount}
        if self.poison.known != 1:
            forget["known"] = self.poison.known
        return {**values, "forget": forget, "poison": poison}


@dataclass(frozen=True, eq=False)
class RepetitionData:
    """The data of one repetition.

    Args:
        graph: The dataset, with what was injected or manipulated if anything.
        split: Its parts; injected nodes are training nodes.
        requests: What must be forgotten, one request after the other.
        setting: That of the protocol.
        clean: The training nodes without the injected or mislabelled ones; None: nothing is wrong.
        wrong: All that is wrong, whether or not it is requested to be forgotten; None: nothing.
        affected: The two classes between which labels or edges were manipulated; None: none were.
    """

    graph: Graph
    split: Split
    requests: Sequence[Request]
    setting: Setting
    clean: Tensor | None = None
    wrong: Request | None = None
    affected: Classes | None = None

    @property
    def unlabelled(self) -> Tensor | None:
        """The nodes that training sees without their labels, int64 [u]; None if it sees no others than its own."""
        return unlabelled(self.graph, self.split.train, self.setting)

    @cached_property
    def request(self) -> Request:
        """All that must be forgotten."""
        return joined(self.requests)


def repetition_data(protocol: Protocol, graph: Graph, base: int, dataset: str, repetition: int) -> RepetitionData:
    """Return the data of a repetition, the same for every method and model.

    Raises:
        UsageError: The graph is too small, or the request does not fit it.
    """
    parts = split(graph, base, dataset, repetition)
    if protocol.poison is None:
        drawn = requests(protocol, graph, parts.train, base, dataset, repetition)
        return RepetitionData(graph, parts, drawn, protocol.setting)
    rng, poison = seeds.generator(base, "poison", dataset, repetition), protocol.poison
    clean, classes = parts.train, None
    if protocol.forget.kind == "feature":
        graph, ids = inject_features(graph, parts.train, poison, rng)
        wrong = Request.of_features(ids)
    elif poison.manipulation == "edge":
        graph, ids, classes = add_edges(graph, parts.train, poison.edges, rng)
        wrong = Request(ids, "edge")
    elif poison.manipulation == "label":
        graph, ids, classes = swap_labels(graph, parts.train, poison.nodes, rng)
        wrong, clean = Request(ids), clean[~torch.isin(clean, ids)]
    else:
        graph, ids = inject(graph, parts.train, poison, rng)
        wrong, parts = Request(ids), replace(parts, train=torch.cat([parts.train, ids]))
    known = known_part(wrong, poison.number_known, rng)
    return RepetitionData(graph, parts, [known], protocol.setting, clean, wrong, classes)


def unlabelled(graph: Graph, train: Tensor, setting: Setting) -> Tensor | None:
    """Return the ids of all nodes that are no training nodes; None if the setting hides them."""
    return None if setting == "inductive" else graph.ids[~torch.isin(graph.ids, train)]


def split(graph: Graph, base: int, dataset: str, repetition: int) -> Split:
    """Return the split that the dataset comes with, else folds: repetition r tests on fold r of ten.

    Ten repetitions test every labelled node once; the next ten use new folds. With the
    dataset's own split, repetitions differ only in their seeds and requests.

    Raises:
        UsageError: Fewer labelled nodes than folds.
    """
    if graph.split is not None:
        return graph.split
    labelled = graph.ids[graph.y >= 0].sort().values
    if len(labelled) < FOLDS:
        raise UsageError(
            f"there are {len(labelled)} labelled nodes; {FOLDS} folds need at least {FOLDS}.",
            "Use a larger graph.",
        )
    rng = seeds.generator(base, "folds", dataset, repetition // FOLDS)
    shuffled = labelled[torch.randperm(len(labelled), generator=rng)]
    folds = torch.tensor_split(shuffled, FOLDS)
    first = repetition % FOLDS
    order = [folds[(first + step) % FOLDS] for step in range(FOLDS)]
    val_end = TEST_FOLDS + VALIDATION_FOLDS
    parts = (order[val_end:], order[TEST_FOLDS:val_end], order[:TEST_FOLDS])
    return Split(*(torch.cat(part).sort().values for part in parts))


def request(protocol: Protocol, graph: Graph, train: Tensor, base: int, dataset: str, repetition: int) -> Request:
    """Draw all that a repetition forgets as one request."""
    return joined(requests(protocol, graph, train, base, dataset, repetition))


def requests(
    protocol: Protocol, graph: Graph, train: Tensor, base: int, dataset: str, repetition: int
) -> list[Request]:
    """Draw the requests of a repetition, the same for every method and model."""
    if protocol.forget.kind == "edge":
        rng = seeds.generator(base, "request-edges", dataset, repetition)
        return draw_edge_stream(protocol.forget, graph.induced(train), len(graph.pairs()), rng)
    if protocol.forget.kind == "feature":
        rng = seeds.generator(base, "request-features", dataset, repetition)
        return draw_feature_stream(protocol.forget, train, graph.num_nodes, graph.num_features, rng)
    rng = seeds.generator(base, "request", dataset, repetition)
    return draw_stream(protocol.forget, train, graph.num_nodes, rng)


def task_seed(base: int, dataset: str, repetition: int) -> int:
    """Return the seed of a repetition's tasks, the same for every method and model."""
    return seeds.seed(base, "task", dataset, repetition)
