"""A small cell to try audits on."""

from __future__ import annotations

import torch

from unlearnbench.audits.subject import Subject
from unlearnbench.component import Spec
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, Protocol
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.task import Training
from unlearnbench.testing.graphs import toy_graph


def toy_subject(
    method: str | Spec,
    graph: Graph | None = None,
    forget: float = 0.05,
    epochs: int = 5,
    model: str = "gcn",
    catalogue: Catalogue | None = None,
) -> Subject:
    """Make what an audit examines, on a small graph.

    Args:
        method: A bracket, or a method looked up already.
        graph: Default: `toy_graph()`.
        forget: Share of all nodes to forget.
        epochs: Of training.
        model: A bracket.
        catalogue: Where components are found; default: all installed plugins.
    """
    found = catalogue or load_catalogue()
    graph = toy_graph() if graph is None else graph
    spec = resolve(found, "unlearner", method) if isinstance(method, str) else method
    cell = Cell(
        Protocol(forget=Forget(forget)),
        resolve(found, "dataset", "digits"),
        graph.checksum(),
        resolve(found, "model", model),
        spec,
        Training(epochs=epochs),
        repetition=0,
        seed=0,
        device="cpu",
    )
    return Subject(cell, graph, torch.device("cpu"), lambda name: resolve(found, "unlearner", name))
