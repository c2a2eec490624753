"""Contrastive unlearning on the neighbourhood of the request (Kolipaka et al., 2025, CoGN)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench import Graph, rounded_half_up
from unlearnbench.gnn import Networks
from unlearnbench.unlearning import hop_distance, neighbours


def affected(network: Networks, graph: Graph, forget: Tensor, hops: int, share: float) -> Tensor:
    """Return the nodes near the request whose logits change most when its features are inverted.

    Args:
        network: A stack of one network.
        graph: With the request.
        forget: bool [n], the nodes of the request.
        hops: How far from them to look.
        share: Share of the nodes found there that is returned, at least one of them.

    Returns:
        int64, positions, by falling change; no node of the request.
    """
    # 1 - x where features are 0 and 1, and of the same magnitude where they are not.
    inverted = torch.where(forget[:, None], graph.x.min() + graph.x.max() - graph.x, graph.x)
    before, after = (network.predict([one])[0][1] for one in (graph, graph.with_features(inverted)))
    distance = hop_distance(graph.edge_index, forget, hops)
    near = ((distance > 0) & (distance <= hops)).nonzero()[:, 0]
    order = (after - before).norm(dim=1)[near].argsort(descending=True, stable=True)
    return near[order[: max(1, rounded_half_up(share, len(near)))]]


class Pairs:
    """Draws a neighbour and a node of the request for each affected node.

    Args:
        graph: With the request.
        forget: bool [n], the nodes of the request.
        nodes: int64 [m], positions of the affected nodes.
    """

    def __init__(self, graph: Graph, forget: Tensor, nodes: Tensor) -> None:
        self._nodes = nodes
        self._forget = forget.nonzero()[:, 0]
        others = graph.only_edges(~forget[graph.edge_index].any(dim=0))
        self._starts, self._adjacent = neighbours(others)

    def draw(self, rng: torch.Generator) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return affected nodes with a neighbour of each beyond the request, and all with a node of the request each.

        Args:
            rng: The random generator, on the CPU.
        """
        at = torch.rand((2, len(self._nodes)), generator=rng).to(self._nodes.device)
        first = self._starts[self._nodes]
        count = self._starts[self._nodes + 1] - first
        has = count > 0
        near = self._adjacent[(first + (at[0] * count).long())[has]]
        return self._nodes[has], near, self._nodes, self._forget[(at[1] * len(self._forget)).long()]


def contrast(embeddings: Tensor, pairs: tuple[Tensor, Tensor, Tensor, Tensor]) -> Tensor:
    """Return the loss -log s(z_v . z_p) - log s(-z_v . z_n), s the logistic function, as a mean over affected nodes v.

    Args:
        embeddings: float [n, d].
        pairs: As `Pairs.draw` returns them: v and neighbours p, v and nodes n of the request.
    """
    drawn_to, near, pushed, away = (embeddings[at] for at in pairs)
    attraction = functional.logsigmoid((drawn_to * near).sum(dim=1)).sum()
    repulsion = functional.logsigmoid(-(pushed * away).sum(dim=1)).sum()
    return -(attraction + repulsion) / len(pushed)
