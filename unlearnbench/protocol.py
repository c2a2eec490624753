"""The protocol: all that must be equal for every method: splits, request, queries."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph, Split
from unlearnbench.requests import Forget, Request, draw

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
    """

    name: str = "www24"
    version: int = 1
    forget: Forget = field(default_factory=Forget)
    own_split: bool = False

    def canonical(self) -> dict[str, Any]:
        """Give the plain values a cell's key is made of."""
        folds = [(FOLDS - VALIDATION_FOLDS - TEST_FOLDS) / FOLDS, VALIDATION_FOLDS / FOLDS, TEST_FOLDS / FOLDS]
        return {
            "name": self.name,
            "version": self.version,
            "forget": self.forget.canonical(),
            "split": "own" if self.own_split else folds,
        }


def split(graph: Graph, base: int, dataset: str, repetition: int) -> Split:
    """Give the split the dataset comes with, else folds: repetition r tests on fold r of ten.

    Ten repetitions test every labelled node once; the next ten use new folds. With a split of
    the dataset's own, repetitions differ in their seeds and requests alone.

    Args:
        graph: The dataset.
        base: The seed a user chose.
        dataset: Its name.
        repetition: 0, 1, ...

    Raises:
        UsageError: Fewer labelled nodes than folds.
    """
    if graph.split is not None:
        return graph.split
    labelled = graph.ids[graph.y >= 0].sort().values
    if len(labelled) < FOLDS:
        raise UsageError(
            f"Dataset {dataset} has {len(labelled)} labelled nodes; {FOLDS} folds need at least {FOLDS}.",
            "Use a larger graph.",
        )
    chance = seeds.generator(base, "folds", dataset, repetition // FOLDS)
    shuffled = labelled[torch.randperm(len(labelled), generator=chance)]
    folds = torch.tensor_split(shuffled, FOLDS)
    first = repetition % FOLDS
    order = [folds[(first + step) % FOLDS] for step in range(FOLDS)]
    val_end = TEST_FOLDS + VALIDATION_FOLDS
    parts = (order[val_end:], order[TEST_FOLDS:val_end], order[:TEST_FOLDS])
    return Split(*(torch.cat(part).sort().values for part in parts))


def request(protocol: Protocol, graph: Graph, train: Tensor, base: int, dataset: str, repetition: int) -> Request:
    """Draw the request of a repetition, the same for every method and model."""
    chance = seeds.generator(base, "request", dataset, repetition)
    return draw(protocol.forget, train, graph.num_nodes, chance)


def task_seed(base: int, dataset: str, repetition: int) -> int:
    """Give the seed of a repetition's tasks, the same for every method and model."""
    return seeds.seed(base, "task", dataset, repetition)
