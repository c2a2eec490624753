"""Subjects of audits on a toy graph, and made-up methods whose forgetting is known."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib import metadata
from typing import Any
from unittest import mock

import torch
from plugin_samples import FakePoint, plugin_of
from torch import Tensor

from unlearnbench.audits.exactness import trials
from unlearnbench.audits.subject import Subject
from unlearnbench.protocol import Forget, Protocol, Request
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.task import Query, Task, Training
from unlearnbench.testing.graphs import FIRST_ID, toy_graph
from unlearnbench.unlearning import Unlearner


class Knowing(Unlearner):
    """Answers with chance of its own; of nodes it holds it is somewhat more certain."""

    name = "knowing"
    certainty = 1.0

    def fit(self, task: Task) -> None:
        self.held = task.graph.ids.clone()
        self.noise = torch.randn(3, generator=task.generator("noise"))

    def unlearn(self, request: Request, retained: Task) -> None:
        self.fit(retained)

    def predict(self, query: Query) -> Tensor:
        sure = torch.tensor([self.certainty, 0.0, 0.0])
        return torch.log_softmax(0.1 * self.noise + torch.isin(query.targets, self.held)[:, None] * sure, dim=1)

    def state(self) -> Mapping[str, Tensor]:
        return {"members/000/noise": self.noise}


class Stubborn(Knowing):
    """Forgets nothing."""

    name = "stubborn"

    def unlearn(self, request: Request, retained: Task) -> None:
        pass


class Blind(Knowing):
    """Does not know what it was trained on: nothing shows whether it forgot."""

    name = "blind"
    certainty = 0.0


@cache
def toy_catalogue() -> Catalogue:
    point: Any = FakePoint("made-up", plugin_of(unlearners=[Knowing, Stubborn, Blind]))
    return load_catalogue(entry_points=[*metadata.entry_points(group="unlearnbench"), point])


def toy_subject(method: str, epochs: int = 3, ratio: float = 0.1, model: str = "gcn[hidden=16]") -> Subject:
    """A cell on a toy graph of 90 nodes, with the made-up methods to be found."""
    catalogue = toy_catalogue()
    cell = Cell(
        protocol=Protocol(forget=Forget(ratio=ratio)),
        dataset=resolve(catalogue, "dataset", "digits"),
        checksum="",
        model=resolve(catalogue, "model", model),
        method=resolve(catalogue, "unlearner", method),
        training=Training(epochs=epochs),
        repetition=0,
        seed=0,
        device="cpu",
    )
    graph = toy_graph(90, edges=120, first_id=FIRST_ID)
    return Subject(cell, graph, torch.device("cpu"), lambda name: resolve(catalogue, "unlearner", name))


@contextlib.contextmanager
def runs_here() -> Iterator[None]:
    """Let `exactness` make all runs in this process: for faults that show there too."""
    with mock.patch.object(trials, "in_own_process", lambda seed, function, *args: function(*args)):
        yield
