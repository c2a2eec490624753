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
    """

    graph: Graph
    links: Tensor

    def joining(self, training: Graph) -> Surroundings:
        """Return the same with those edges alone that lead to nodes of a training graph."""
        kept = (training.contains(self.links) | self.graph.contains(self.links)).all(dim=0)
        return self if bool(kept.all()) else replace(self, links=self.links[:, kept])


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
    links = graph.ids[graph.edge_index[:, outside[0] ^ outside[1]]]
    return Surroundings(graph.induced(unlabelled).without_labels().to(device), links.to(device))
