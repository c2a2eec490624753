"""Nodes that a step of the aggregator compares: anchors, negatives, neighbours and non-neighbours."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unlearnbench import Graph
from unlearnbench_graphrevoker import sampling


@dataclass(frozen=True)
class PairRules:
    """How pairs and masks are drawn.

    Args:
        contrast: Whether negatives and masks are wanted.
        reconstruct: Whether neighbours and strangers are wanted.
        negatives: Any other node, or one of another label.
        mask: How masks are drawn.
        keep: Probability of keeping a member.
        alone: How to treat a node without neighbour in another shard.
        resample: Whether to draw again at every step, or once for every node.
    """

    contrast: bool = True
    reconstruct: bool = True
    negatives: Literal["random", "other-label"] = "random"
    mask: sampling.MaskDraw = "bernoulli"
    keep: float = 0.6
    alone: Literal["skip", "self"] = "skip"
    resample: bool = True


@dataclass(frozen=True, eq=False)
class Contrasted:
    """Partners of B anchors, as positions in U.

    Args:
        negatives: int64 [B], v of the contrastive loss.
        has_negative: bool [B].
        neighbours: int64 [B], v+ of the reconstruction loss.
        strangers: int64 [B], v- of the reconstruction loss.
        has_both: bool [B], whether v+ and v- exist.
    """

    negatives: Tensor
    has_negative: Tensor
    neighbours: Tensor
    strangers: Tensor
    has_both: Tensor

    def take(self, at: Tensor) -> Contrasted:
        """Select the partners of some anchors."""
        return Contrasted(
            self.negatives[at], self.has_negative[at], self.neighbours[at], self.strangers[at], self.has_both[at]
        )


@dataclass(frozen=True, eq=False)
class Batch:
    """The nodes of one step, each once, and which are compared.

    Args:
        nodes: int64 [R], positions in U.
        anchors: int64 [B], positions in `nodes`.
        partners: Positions in `nodes`.
        mask: bool [R, S], the members of each node's local view; [R, 0] without contrastive loss.
    """

    nodes: Tensor
    anchors: Tensor
    partners: Contrasted
    mask: Tensor


class PairSource:
    """Draws the pairs of each step from U.

    Args:
        rules: The sampling rules.
        graph: The subgraph induced by U, with labels.
        shard: int64 [M], the nodes' own shards.
        num_members: S, voting members only.
        generator: The random generator.
    """

    def __init__(
        self, rules: PairRules, graph: Graph, shard: Tensor, num_members: int, generator: torch.Generator
    ) -> None:
        self.rules = rules
        self.labels = graph.y
        self.num_members = num_members
        self.generator = generator
        if rules.reconstruct:
            self.neighbours = sampling.cross_shard_neighbours(graph.edge_index, shard)
            self.connected = sampling.connected(graph.edge_index, graph.num_nodes)
        self.fixed: tuple[Contrasted, Tensor] | None = None
        if not rules.resample:
            every = torch.arange(graph.num_nodes, device=shard.device)
            self.fixed = self._partners(every), self._mask(every)

    def draw(self, anchors: Tensor) -> Batch:
        """Draw the partners of these anchors (int64 [B], positions in U, all distinct)."""
        partners = self._partners(anchors) if self.fixed is None else self.fixed[0].take(anchors)
        wanted = [anchors]
        if self.rules.contrast:
            wanted.append(partners.negatives)
        if self.rules.reconstruct:
            # Partners of pairs that do not count are replaced by anchors, to save projections.
            both = partners.has_both
            wanted += [torch.where(both, partners.neighbours, anchors), torch.where(both, partners.strangers, anchors)]
        nodes, at = torch.unique(torch.stack(wanted), return_inverse=True)
        place = list(at)
        negatives = place[1] if self.rules.contrast else place[0]
        neighbours, strangers = place[-2:] if self.rules.reconstruct else (place[0], place[0])
        inside = Contrasted(negatives, partners.has_negative, neighbours, strangers, partners.has_both)
        mask = self._mask(nodes) if self.fixed is None else self.fixed[1][nodes]
        return Batch(nodes, place[0], inside, mask)

    def _partners(self, anchors: Tensor) -> Contrasted:
        negatives = neighbours = strangers = anchors
        has_negative = has_both = torch.zeros_like(anchors, dtype=torch.bool)
        if self.rules.contrast and self.rules.negatives == "random":
            negatives, has_negative = sampling.draw_other_node(len(self.labels), anchors, self.generator)
        elif self.rules.contrast:
            negatives, has_negative = sampling.draw_other_label(self.labels, anchors, self.generator)
        if self.rules.reconstruct:
            neighbours, has_neighbour = sampling.draw_members(self.neighbours, anchors, self.generator)
            strangers, has_stranger = sampling.draw_outside(self.connected, anchors, self.generator)
            has_both = has_stranger if self.rules.alone == "self" else has_neighbour & has_stranger
        return Contrasted(negatives, has_negative, neighbours, strangers, has_both)

    def _mask(self, nodes: Tensor) -> Tensor:
        if not self.rules.contrast:
            return torch.zeros(len(nodes), 0, dtype=torch.bool, device=nodes.device)
        mask = sampling.draw_mask(len(nodes), self.num_members, self.rules.mask, self.rules.keep, self.generator)
        return mask.to(nodes.device)
