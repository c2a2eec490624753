"""A node's own row: its features at length one, or fixed random functions of them, in whole numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal

import torch
from torch import Tensor

from unlearnbench import Graph, Task
from unlearnbench.gnn import SparseRows, sparse
from unlearnbench_tally.whole import unit_rows, unit_sparse_rows

Random = Literal["none", "projection", "relu", "fourier"]
# Weights of random functions are whole multiples of 2^-8, at most 8; cosines are read from a table of one turn.
_WEIGHT, _MOST, _TURN = 256, 2**11, 4096


@dataclass(frozen=True, eq=False)
class Features:
    """Makes rows from features; holds no data of any node.

    Args:
        bits: Entries of rows are at most 2^bits.
        random: `none`: the features. `projection`: sums of them with random signs. `relu`: the positive part of
            random combinations, `fourier`: cosines of them.
        weights: float64 [F, width], whole numbers; None for `none`.
        shift: float64 [width], whole numbers, the phases of cosines.
        scale: Steps of the table of cosines for each unit of a combination.
    """

    bits: int
    random: Random
    weights: Tensor | None = field(default=None, repr=False)
    shift: Tensor | None = field(default=None, repr=False)
    scale: float = 1.0

    def rows(self, graph: Graph, at: Tensor | None = None) -> Tensor | SparseRows:
        """Return the rows of nodes: float64 [n, w], whole numbers, sparse where the features are.

        Args:
            graph: The graph.
            at: int64 [n], their positions; default: all nodes in their order.
        """
        thin = graph.sparse_rows
        if thin is not None:
            whole = unit_sparse_rows(thin if at is None else thin.take(at), self.bits)
            return whole if self.weights is None else self._mapped(sparse.from_rows(whole) @ self.weights)
        rows = unit_rows(graph.x if at is None else graph.x[at], self.bits)
        return rows if self.weights is None else self._mapped(rows @ self.weights)

    def dense(self, graph: Graph, at: Tensor | None = None) -> Tensor:
        """Return the same as a dense tensor."""
        rows = self.rows(graph, at)
        return rows.dense() if isinstance(rows, SparseRows) else rows

    def _mapped(self, combined: Tensor) -> Tensor:
        """Return rows made of sums of whole numbers, which are exact: at most F 2^(bits + 11)."""
        if self.random == "relu":
            combined = combined.clamp(min=0)
        elif self.random == "fourier":
            assert self.shift is not None
            turn = torch.arange(_TURN, dtype=torch.float64, device=combined.device) * (2 * math.pi / _TURN)
            phase = (combined * self.scale).round_().add_(self.shift).remainder_(_TURN)
            combined = (torch.cos(turn) * _TURN).round_()[phase.to(torch.int64)]
        return unit_rows(combined, self.bits)


def make_features(task: Task, bits: int, random: Random, width: int, bandwidth: float) -> Features:
    """Draw the random weights, if any: they depend on the task's seed and the number of features alone.

    Args:
        task: Its graph's width, its seed and its device.
        bits: Entries of rows are at most 2^bits.
        random: Which rows: see `Features`.
        width: Columns of random rows.
        bandwidth: Of `fourier`: the distance of features of length one over which cosines change.
    """
    if random == "none":
        return Features(bits, random)
    rng = task.generator("tally", "features")
    shape = (task.graph.num_features, width)
    if random == "projection":
        weights = torch.randint(2, shape, generator=rng).to(torch.float64) * 2 - 1
    else:
        weights = (torch.randn(shape, generator=rng, dtype=torch.float64) * _WEIGHT).round_().clamp_(-_MOST, _MOST)
    shift = torch.randint(_TURN, (width,), generator=rng).to(torch.float64)
    scale = _TURN / (2 * math.pi * bandwidth * _WEIGHT * 2**bits)
    return Features(bits, random, weights.to(task.device), shift.to(task.device), scale)
