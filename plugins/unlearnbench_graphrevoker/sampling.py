"""Sampling of negatives, cross-shard neighbours and masks for the aggregator's auxiliary losses.

Everything works on positions in U, of M nodes, without an M x M matrix. Random numbers are drawn on
the CPU from the given generator.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

MaskDraw = Literal["bernoulli", "released"]


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """A set of nodes of U for each node of U, compressed by rows.

    Args:
        starts: int64 [M + 1]; the set of node u is `members[starts[u]:starts[u + 1]]`.
        members: int64 [k], ascending within each set, each node once.
    """

    starts: Tensor
    members: Tensor

    @property
    def sizes(self) -> Tensor:
        """Number of nodes in each set: int64 [M]."""
        return self.starts.diff()


def neighbourhoods(pairs: Tensor, num_nodes: int) -> Neighbourhoods:
    """Return sets from (node, member) pairs; duplicate pairs count once.

    Args:
        pairs: int64 [2, k].
        num_nodes: M.
    """
    key = torch.unique(pairs[0] * num_nodes + pairs[1])
    node = torch.div(key, num_nodes, rounding_mode="floor")
    starts = torch.zeros(num_nodes + 1, dtype=torch.int64, device=pairs.device)
    starts[1:] = torch.bincount(node, minlength=num_nodes).cumsum(dim=0)
    return Neighbourhoods(starts, key - node * num_nodes)


def cross_shard_neighbours(edge_index: Tensor, shard: Tensor) -> Neighbourhoods:
    """Return each node's neighbours in other shards, over edges of either direction.

    Args:
        edge_index: int64 [2, E], the subgraph induced by U.
        shard: int64 [M].
    """
    source, target = edge_index[:, shard[edge_index[0]] != shard[edge_index[1]]]
    return neighbourhoods(torch.stack([torch.cat([source, target]), torch.cat([target, source])]), len(shard))


def connected(edge_index: Tensor, num_nodes: int) -> Neighbourhoods:
    """Return for each node itself and its neighbours, over edges of either direction.

    Args:
        edge_index: int64 [2, E], the subgraph induced by U.
        num_nodes: M.
    """
    own = torch.arange(num_nodes, device=edge_index.device)
    source, target = edge_index
    return neighbourhoods(torch.stack([torch.cat([source, target, own]), torch.cat([target, source, own])]), num_nodes)


def _ranks(counts: Tensor, generator: torch.Generator) -> Tensor:
    """Draw for each count an integer in [0, count), uniformly; 0 where the count is 0."""
    uniform = torch.rand(len(counts), generator=generator, dtype=torch.float64).to(counts.device)
    return torch.minimum((uniform * counts).to(torch.int64), (counts - 1).clamp(min=0))


def draw_members(sets: Neighbourhoods, anchors: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw for each anchor a node of its set, uniformly.

    Args:
        sets: The sets.
        anchors: int64 [B].
        generator: The random generator.

    Returns:
        int64 [B], the nodes, the anchor itself where its set is empty; bool [B], whether it is not.
    """
    counts = sets.sizes[anchors]
    exists = counts > 0
    drawn = anchors.clone()
    at = sets.starts[anchors] + _ranks(counts, generator)
    drawn[exists] = sets.members[at[exists]]
    return drawn, exists


def draw_outside(sets: Neighbourhoods, anchors: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw for each anchor a node of U outside its set, uniformly and without rejection.

    The node of rank r outside a sorted set e_0 < e_1 < ... is r plus the number of i with
    e_i - i <= r.

    Args:
        sets: The sets.
        anchors: int64 [B].
        generator: The random generator.

    Returns:
        int64 [B], the nodes, the anchor itself where its set is all of U; bool [B], whether it is not.
    """
    num_nodes = len(sets.starts) - 1
    counts = num_nodes - sets.sizes[anchors]
    exists = counts > 0
    rank = _ranks(counts, generator)
    node = torch.repeat_interleave(torch.arange(num_nodes, device=anchors.device), sets.sizes)
    gaps = sets.members - (torch.arange(len(sets.members), device=anchors.device) - sets.starts[node])
    # Gaps lie in [0, M) and do not decrease within a set, so that the keys are sorted.
    passed = torch.searchsorted(node * num_nodes + gaps, anchors * num_nodes + rank, right=True)
    return torch.where(exists, rank + passed - sets.starts[anchors], anchors), exists


def draw_other_node(num_nodes: int, anchors: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw for each anchor another node of U, uniformly.

    Returns:
        int64 [B], the nodes, the anchor itself if U has one node; bool [B], whether it has more.
    """
    counts = torch.full_like(anchors, num_nodes - 1)
    rank = _ranks(counts, generator)
    exists = counts > 0
    return torch.where(exists, rank + (rank >= anchors).to(torch.int64), anchors), exists


def draw_other_label(labels: Tensor, anchors: Tensor, generator: torch.Generator) -> tuple[Tensor, Tensor]:
    """Draw for each anchor a node of U of another label, uniformly.

    Args:
        labels: int64 [M], not negative.
        anchors: int64 [B].
        generator: The random generator.

    Returns:
        int64 [B], the nodes, the anchor itself if U has one label; bool [B], whether it has more.
    """
    order = torch.sort(labels, stable=True).indices
    sizes = torch.bincount(labels)
    starts = sizes.cumsum(dim=0) - sizes
    own = labels[anchors]
    counts = len(labels) - sizes[own]
    exists = counts > 0
    rank = _ranks(counts, generator)
    # Nodes of one label are one block of `order`; the draw skips the anchor's.
    at = rank + torch.where(rank >= starts[own], sizes[own], 0)
    drawn = anchors.clone()
    drawn[exists] = order[at[exists]]
    return drawn, exists


def draw_mask(num_rows: int, num_members: int, draw: MaskDraw, keep: float, generator: torch.Generator) -> Tensor:
    """Draw which members each local view keeps: bool [num_rows, num_members], at least one in each row.

    Args:
        num_rows: Number of views.
        num_members: S, voting members only.
        draw: `bernoulli`: each with probability `keep`, and the one with the smallest random
            number if none. `released`: the results of S - 1 draws with replacement.
        keep: Probability.
        generator: The random generator.
    """
    if draw == "bernoulli":
        uniform = torch.rand(num_rows, num_members, generator=generator)
        return (uniform < keep) | (uniform == uniform.min(dim=1, keepdim=True).values)
    drawn = torch.randint(num_members, (num_rows, max(num_members - 1, 1)), generator=generator)
    return torch.zeros(num_rows, num_members, dtype=torch.bool).scatter_(1, drawn, True)
