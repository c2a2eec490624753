"""What training sees of a graph apart from its training nodes, in the transductive setting."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unlearnbench.graph import Graph


@dataclass(frozen=True, eq=False)
class Surroundings:
    """The nodes without a label for training, and their edges to the training nodes.

    Args:
        graph: These nodes and the edges among them; y is -1 throughout.
        links: int64 [2, L], the ids of source and target of the edges between them and training nodes.
        link_weight: float32 [L], their weights, if edges have weights.
    """

    graph: Graph
    links: Tensor
    link_weight: Tensor | None = None

    def joining(self, training: Graph) -> Surroundings:
        """Return the same with those edges alone that lead to nodes of a training graph."""
        kept = (training.contains(self.links) | self.graph.contains(self.links)).all(dim=0)
        if bool(kept.all()):
            return self
        weight = None if self.link_weight is None else self.link_weight[kept]
        return replace(self, links=self.links[:, kept], link_weight=weight)


def surroundings(graph: Graph, unlabelled: Tensor | None, device: torch.device) -> Surroundings | None:
    """Cut the surroundings of the training nodes out of a dataset.

    Args:
        graph: The dataset.
        unlabelled: int64 [u], ids of all nodes but the training nodes; None: the setting is inductive.
        device: Where to.
    """
    if unlabelled is None:
        return None
    outside = torch.isin(graph.ids, unlabelled)[graph.edge_index]
    between = outside[0] ^ outside[1]
    links, weight = graph.ids[graph.edge_index[:, between]], graph.weights_of(between)
    around = graph.induced(unlabelled).without_labels().to(device)
    return Surroundings(around, links.to(device), None if weight is None else weight.to(device))
