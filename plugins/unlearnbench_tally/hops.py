"""Rows averaged over neighbours, in whole numbers, for any set of nodes from their neighbourhood alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, Protocol

import torch
from torch import Tensor

from unlearnbench import Graph
from unlearnbench.gnn import sparse
from unlearnbench.unlearning import neighbours, row_entries
from unlearnbench_tally.features import Features
from unlearnbench_tally.whole import unit_rows

Mode = Literal["last", "all"]
Normalisation = Literal["random-walk", "sym"]


class Neighbourhood(Protocol):
    """A source of nodes' own rows and neighbours, named by ids or by positions."""

    def rows(self, nodes: Tensor) -> Tensor:
        """Return the rows of nodes, whole numbers [m, w]."""
        ...

    def lists(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return how many neighbours each node has, int64 [m], and these one list after the other, int64 [k]."""
        ...


@dataclass(frozen=True)
class Hops:
    """How rows are averaged.

    Args:
        count: Number of hops; 0: a node's own row.
        mode: The rows after the last hop, or those of all hops side by side.
        normalisation: `random-walk`: the mean over a node and its neighbours. `sym`: each weighted by
            1 / sqrt(degree + 1), which is D^-1/2 (A + I) D^-1/2 up to the length of the row.
        bits: Entries of rows are at most 2^bits; rows are scaled to length 2^bits after every hop.
    """

    count: int
    mode: Mode
    normalisation: Normalisation
    bits: int

    @property
    def radius(self) -> int:
        """How far from a node whose neighbours change a row can change."""
        return self.count - 1 + (self.normalisation == "sym")

    def rows(self, source: Neighbourhood, nodes: Tensor) -> Tensor:
        """Return the averaged rows of nodes: float64 [m, w] or [m, (count + 1) w], whole numbers.

        Every sum has at most degree + 1 terms of at most 4^bits.
        """
        if not self.count:
            return source.rows(nodes).to(torch.float64)
        near = ball(source, nodes, self.count)
        counts, adjacent = source.lists(near)
        at = torch.searchsorted(near, adjacent).clamp(max=len(near) - 1)
        inside = near[at] == adjacent
        row = torch.repeat_interleave(torch.arange(len(near), device=near.device), counts)
        ones = torch.ones(int(inside.sum()), dtype=torch.float64, device=near.device)
        matrix = sparse.from_entries(row[inside], at[inside], ones, (len(near), len(near)))
        values = source.rows(near).to(torch.float64)
        weight = values.new_ones(len(values), 1)
        if self.normalisation == "sym":
            weight = (2**self.bits / (counts + 1).to(torch.float64).sqrt()).round_()[:, None]
        each = [values]
        for _ in range(self.count):
            weighted = weight * each[-1]
            each.append(unit_rows(weighted + matrix @ weighted, self.bits))
        asked = torch.searchsorted(near, nodes)
        return torch.cat([rows[asked] for rows in (each if self.mode == "all" else each[-1:])], dim=1)


def ball(source: Neighbourhood, nodes: Tensor, radius: int) -> Tensor:
    """Return the nodes within some hops, ascending."""
    near: Tensor = nodes.unique()
    for _ in range(radius):
        near = torch.cat([near, source.lists(near)[1]]).unique()
    return near


class GraphNeighbourhood:
    """The nodes of a graph by their positions."""

    def __init__(self, graph: Graph, features: Features, hops: int) -> None:
        self._graph, self._features = graph, features
        # Without hops nobody asks for neighbours, whose lists take a sort of all edges.
        self._starts, self._adjacent = neighbours(graph) if hops else (torch.empty(0), torch.empty(0))

    def rows(self, nodes: Tensor) -> Tensor:
        """Return the rows of nodes."""
        return self._features.dense(self._graph, nodes)

    def lists(self, nodes: Tensor) -> tuple[Tensor, Tensor]:
        """Return numbers of neighbours, and neighbours."""
        entries, starts = row_entries(self._starts, nodes)
        return starts.diff(), self._adjacent[entries]
