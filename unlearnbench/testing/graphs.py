"""Small synthetic graphs and tasks for tests."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task, Training

# Ids this large raise when they are mistaken for positions.
FIRST_ID = 10**9


def toy_graph(
    num_nodes: int = 60, num_classes: int = 3, num_features: int = 8, edges: int = 120, seed: int = 0, first_id: int = 0
) -> Graph:
    """Return a graph of random undirected edges, mostly within classes, whose features indicate the class.

    Args:
        num_nodes: Number of nodes; labels cycle through the classes.
        num_classes: Classes.
        num_features: Features, at least `num_classes`.
        edges: Undirected edges drawn; loops and duplicates are dropped.
        seed: Seed of the generator.
        first_id: Ids are `first_id`, `first_id + 1`, ...
    """
    rng = torch.Generator().manual_seed(seed)
    y = torch.arange(num_nodes) % num_classes
    x = torch.randn(num_nodes, num_features, generator=rng)
    x[torch.arange(num_nodes), y] += 2
    source = torch.randint(num_nodes, (edges,), generator=rng)
    hop = num_classes * torch.randint(1, max(2, num_nodes // num_classes), (edges,), generator=rng)
    stray = (torch.rand(edges, generator=rng) < 0.2).long()
    target = (source + hop + stray) % num_nodes
    keep = source != target
    pairs = torch.stack([torch.minimum(source, target), torch.maximum(source, target)])[:, keep].unique(dim=1)
    edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
    return Graph(x, y, edge_index, torch.arange(num_nodes) + first_id, num_classes)


def toy_task(
    graph: Graph | None = None, model: str = "gcn", epochs: int = 5, seed: int = 0, catalogue: Catalogue | None = None
) -> Task:
    """Return a task of a few epochs on the CPU.

    Args:
        graph: Default: `toy_graph()`.
        model: A bracket.
        epochs: Epochs of training.
        seed: Seed of the task.
        catalogue: Where the model is found; default: all installed plugins.
    """
    spec = resolve(catalogue or load_catalogue(), "model", model)
    return Task(graph or toy_graph(), spec, Training(epochs=epochs), torch.device("cpu"), seed)


PLAIN = "a plain graph"
ISOLATED = "isolated nodes"
NO_EDGES = "no edges"
ONE_CLASS = "one class"
EQUAL = "equal nodes"
LOOPS = "self-loops and doubled edges"
ONE_SHARD = "one shard"
ONE_NODE_SHARDS = "one-node shards"
ONE_NODE = "a single node"
MANY_SHARDS = "many shards"
TOYS = (PLAIN, ISOLATED, NO_EDGES, ONE_CLASS, EQUAL, LOOPS, ONE_SHARD, ONE_NODE_SHARDS, ONE_NODE)
_ASKED = 6


@dataclass(frozen=True, eq=False)
class Toy:
    """A small graph that components are tried on.

    Args:
        name: What is special about it.
        whole: The graph of all nodes, in 3 classes; ids are no positions.
        train: int64 [n], ids of the training nodes.
        asked: int64 [6], ids of the nodes to predict, which are not trained on.
        num_shards: S, for components with shards.
    """

    name: str
    whole: Graph
    train: Tensor
    asked: Tensor
    num_shards: int = 4

    @property
    def graph(self) -> Graph:
        """The subgraph of the training nodes, a new one at every call."""
        return self.whole.induced(self.train)


def toys() -> dict[str, Toy]:
    """Return the toy graphs by name."""
    return {name: _toy(name) for name in (*TOYS, MANY_SHARDS)}


def _toy(name: str) -> Toy:
    trained = {ONE_NODE: 1, ONE_NODE_SHARDS: 6, MANY_SHARDS: 160}.get(name, 24)
    plain = toy_graph(trained + _ASKED, first_id=FIRST_ID, edges=2 * (trained + _ASKED))
    x, y, edges = plain.x, plain.y, plain.edge_index
    if name == ISOLATED:
        edges = edges[:, (edges >= trained // 2).all(dim=0)]
    elif name == NO_EDGES:
        edges = edges[:, :0]
    elif name == ONE_CLASS:
        y = torch.ones_like(y)
    elif name == EQUAL:
        x = torch.ones_like(x)
    elif name == LOOPS:
        every = torch.arange(plain.num_nodes)
        edges = torch.cat([edges, edges, torch.stack([every, every])], dim=1)
    whole = Graph(x, y, edges, plain.ids, plain.num_classes)
    num_shards = {ONE_SHARD: 1, ONE_NODE: 1, ONE_NODE_SHARDS: trained, MANY_SHARDS: 32}.get(name, 4)
    return Toy(name, whole, plain.ids[:trained], plain.ids[trained:], num_shards)
