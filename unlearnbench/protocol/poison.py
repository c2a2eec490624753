"""Poison: wrong nodes, features, labels or edges in the training graph, to measure what forgetting them repairs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor

from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol.requests import rounded_half_up

Manipulation = Literal["label", "edge"]


@dataclass(frozen=True)
class Poison:
    """How many mislabelled nodes, or the features of how many nodes, are injected, or what is manipulated instead.

    The GraphRevoker paper (appendix "Unlearning Power") injects 100 nodes with a wrong label and 10 random edges each.
    It does not say what features an injected node has, nor relative to what its label is
    wrong: here it copies the features of a random training node and has any other label than
    that node's. Where edges have weights, each injected edge has that of a random edge.

    Manipulated labels and edges are those of corrective unlearning: see `unlearnbench.protocol.manipulation`.

    Args:
        nodes: Nodes injected; or training nodes that get the features of others, or a wrong label.
        edges: Undirected edges of each injected node, to distinct training nodes; or spurious edges altogether.
        manipulation: What of the training graph itself is made wrong; None: nothing, something is injected.
        known: Share of all that is wrong which is requested to be forgotten, 0 < known <= 1, rounded half up.
    """

    nodes: int = 100
    edges: int = 10
    manipulation: Manipulation | None = None
    known: float = 1.0

    @property
    def amount(self) -> int:
        """How many nodes or edges are wrong, or the features of how many nodes."""
        return self.edges if self.manipulation == "edge" else self.nodes

    @property
    def number_known(self) -> int:
        """How many of them are requested to be forgotten, at least one."""
        return max(1, rounded_half_up(self.known, self.amount))

    def canonical(self) -> dict[str, Any]:
        """Return the plain values that enter a cell's key."""
        sizes = {"nodes": self.nodes, "edges": self.edges}
        if self.manipulation is not None:
            del sizes["nodes" if self.manipulation == "edge" else "edges"]
        chosen = {} if self.manipulation is None else {"manipulation": self.manipulation}
        return {**sizes, **chosen, **({} if self.known == 1 else {"known": self.known})}


def inject(graph: Graph, train: Tensor, poison: Poison, generator: torch.Generator) -> tuple[Graph, Tensor]:
    """Add mislabelled nodes to a graph.

    Args:
        graph: The graph; it is not changed.
        train: int64 [m], ids of the training nodes, which features are copied from and edges lead to.
        poison: How many nodes and edges.
        generator: The random generator.

    Returns:
        The graph with the injected nodes after its own, and their ids, int64 [poison.nodes],
        larger than every other id.

    Raises:
        UsageError: There are fewer training nodes than edges of one node, or only one class.
    """
    if len(train) < poison.edges:
        raise UsageError(
            f"An injected node has {poison.edges} edges to different training nodes, but there are {len(train)}.",
            "Use a larger graph.",
        )
    if graph.num_classes < 2:
        raise UsageError("A graph of one class has no wrong label.", "Use a graph of two classes or more.")
    copied = graph.positions(train[torch.randint(len(train), (poison.nodes,), generator=generator)])
    shift = torch.randint(1, graph.num_classes, (poison.nodes,), generator=generator)
    y = (graph.y[copied] + shift) % graph.num_classes
    chosen = [torch.randperm(len(train), generator=generator)[: poison.edges] for _ in range(poison.nodes)]
    target = graph.positions(train[torch.cat(chosen)])
    source = torch.repeat_interleave(torch.arange(poison.nodes), poison.edges) + graph.num_nodes
    ids = torch.arange(poison.nodes) + int(graph.ids.max()) + 1
    edges = torch.stack([torch.cat([source, target]), torch.cat([target, source])])
    weight = graph.edge_weight
    if weight is not None:
        known = weight if len(weight) else weight.new_ones(1)
        drawn = known[torch.randint(len(known), (len(source),), generator=generator)]
        weight = torch.cat([weight, drawn, drawn])
    poisoned = Graph(
        torch.cat([graph.x, graph.x[copied]]),
        torch.cat([graph.y, y]),
        torch.cat([graph.edge_index, edges], dim=1),
        torch.cat([graph.ids, ids]),
        graph.num_classes,
        edge_weight=weight,
    )
    return poisoned, ids


def inject_features(graph: Graph, train: Tensor, poison: Poison, generator: torch.Generator) -> tuple[Graph, Tensor]:
    """Give training nodes the features of training nodes of other classes; labels and edges stay.

    Args:
        graph: The graph; it is not changed.
        train: int64 [m], ids of the training nodes.
        poison: How many nodes.
        generator: The random generator.

    Returns:
        The graph with these features, and the ids of the nodes that have them, int64 [poison.nodes], ascending.

    Raises:
        UsageError: There are fewer training nodes, or these are of one class only.
    """
    if len(train) < poison.nodes:
        raise UsageError(
            f"Features of {poison.nodes} nodes are to be injected, but there are {len(train)} training nodes.",
            "Use a smaller poison.nodes.",
        )
    at = graph.positions(train)
    labels = graph.y[at]
    if bool((labels == labels[0]).all()):
        raise UsageError("Training nodes of one class have no features of another.", "Use a graph of two classes.")
    chosen = torch.randperm(len(at), generator=generator)[: poison.nodes].sort().values
    x = graph.x.clone()
    for place in chosen.tolist():
        others = at[labels != labels[place]]
        x[at[place]] = graph.x[others[torch.randint(len(others), (1,), generator=generator)[0]]]
    return graph.with_features(x), train[chosen]
