"""A small cell for trying audits."""

from __future__ import annotations

import torch

from unlearnbench.audits.subject import Subject
from unlearnbench.component import Spec
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, Protocol, Setting
from unlearnbench.protocol.requests import Kind
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
    kind: Kind = "node",
    setting: Setting = "inductive",
) -> Subject:
    """Return the subject of an audit, on a small graph.

    Args:
        method: A bracket, or a resolved method.
        graph: Default: `toy_graph()`.
        forget: Share of all nodes, or edges, to forget.
        epochs: Epochs of training.
        model: A bracket.
        catalogue: Where components are found; default: all installed plugins.
        kind: What is forgotten.
        setting: What training sees.
    """
    components = catalogue or load_catalogue()
    graph = toy_graph() if graph is None else graph
    spec = resolve(components, "unlearner", method) if isinstance(method, str) else method
    cell = Cell(
        Protocol(forget=Forget(forget, kind=kind), setting=setting),
        resolve(components, "dataset", "digits"),
        graph.checksum(),
        resolve(components, "model", model),
        spec,
        Training(epochs=epochs),
        repetition=0,
        seed=0,
        device="cpu",
    )
    return Subject(cell, graph, torch.device("cpu"), lambda name: resolve(components, "unlearner", name))
