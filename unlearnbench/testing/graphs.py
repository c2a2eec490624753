"""Small made-up graphs and tasks for tests."""

from __future__ import annotations

import torch

from unlearnbench.graph import Graph
from unlearnbench.plugins import Catalogue, load_catalogue
from unlearnbench.resolve import resolve
from unlearnbench.task import Task, Training

# Ids this large cannot be mistaken for positions: used as an index they raise.
FIRST_ID = 10**9


def toy_graph(
    num_nodes: int = 60, num_classes: int = 3, num_features: int = 8, edges: int = 120, seed: int = 0, first_id: int = 0
) -> Graph:
    """Make a graph of random undirected edges, mostly within classes, whose features tell the class.

    Args:
        num_nodes: Nodes; labels go round, so that every class occurs if there are enough.
        num_classes: Classes.
        num_features: Features, at least `num_classes`.
        edges: Undirected edges drawn; loops and doubles are dropped.
        seed: Of the generator.
        first_id: Ids are `first_id`, `first_id + 1`, ...
    """
    chance = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % num_classes
    x = torch.randn(num_nodes, num_features, generator=chance)
    x[torch.arange(num_nodes), y] += 2
    source = torch.randint(num_nodes, (edges,), generator=chance)
    hop = num_classes * torch.randint(1, max(2, num_nodes // num_classes), (edges,), generator=chance)
    stray = (torch.rand(edges, generator=chance) < 0.2).long()
    target = (source + hop + stray) % num_nodes
    keep = source != target
    pairs = torch.stack([torch.minimum(source, target), torch.maximum(source, target)])[:, keep].unique(dim=1)
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    return Graph(x, y, edge_index, torch.arange(num_nodes) + first_id, num_classes)


def toy_task(
    graph: Graph | None = None, model: str = "gcn", epochs: int = 5, seed: int = 0, catalogue: Catalogue | None = None
) -> Task:
    """Make a task of a few epochs on the CPU.

    Args:
        graph: Default: `toy_graph()`.
        model: A bracket.
        epochs: Of training.
        seed: The task's.
        catalogue: Where the model is found; default: all installed plugins.
    """
    spec = resolve(catalogue or load_catalogue(), "model", model)
    return Task(graph or toy_graph(), spec, Training(epochs=epochs), torch.device("cpu"), seed)
