"""Cells of a toy graph, what surrounds a run of them, and made-up methods that hold one number."""

from dataclasses import replace

import torch

from unlearnbench.component import Spec
from unlearnbench.protocol import Forget, Protocol
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.running.outcome import RunContext
from unlearnbench.task import Training
from unlearnbench.testing.graphs import FIRST_ID, toy_graph
from unlearnbench.unlearning import Unlearner

CATALOGUE = load_catalogue()
FORGET = Forget(0.02)
GRAPH = toy_graph(num_nodes=200, edges=900, first_id=FIRST_ID)


def surroundings():
    metrics = [resolve(CATALOGUE, "metric", name) for name in CATALOGUE.names("metric")]
    return RunContext(torch.device("cpu"), 1, "m-test", metrics, {"packages": {}, "plugins": {}})


def cell(method, graph=GRAPH, forget=FORGET, **changes):
    spec = method if isinstance(method, Spec) else resolve(CATALOGUE, "unlearner", method)
    made = Cell(
        Protocol(forget=forget),
        resolve(CATALOGUE, "dataset", "digits"),
        graph.checksum(),
        resolve(CATALOGUE, "model", "gcn"),
        spec,
        Training(epochs=8),
        0,
        0,
        "cpu",
    )
    return replace(made, **changes)


def fake(cls, **params):
    return Spec("unlearner", cls.name, 1, cls, cls.Params(**params), label=cls.name)


class Constant(Unlearner):
    """Says that every node is of class 0; holds one number."""

    name = "constant"

    def fit(self, task):
        self.value = torch.zeros(1)

    def unlearn(self, request, retained):
        pass

    def predict(self, query):
        return torch.log_softmax(torch.tensor([2.0, 0.0, 0.0]).repeat(len(query.targets), 1) + self.value, dim=1)

    def state(self):
        return {"members/000/value": self.value}


class Spy(Constant):
    """Remembers, outside of itself, what it was shown."""

    name = "spy"
    seen: list = []

    def fit(self, task):
        super().fit(task)
        self.seen.append(("fit", task.graph))

    def unlearn(self, request, retained):
        self.seen.append(("unlearn", retained.graph))
        self.value = self.value + 1

    def predict(self, query):
        self.seen.append((query.view, query))
        return super().predict(query)
