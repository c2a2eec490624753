"""Propagated features that a request changes locally, with a bound on what was not passed on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench import Graph, Request
from unlearnbench.gnn import sparse
from unlearnbench.unlearning import averaging, unit_rows


@dataclass(frozen=True, eq=False)
class Propagation:
    """Rows of P^1 X to P^K X, P the mean over neighbours and the node itself, X features scaled to length 1.

    Level l + 1 was computed from level l, but for changes of a row no longer than the threshold, which were not passed
    on: the residue of a row is what it would change by.

    Args:
        levels: float64 [n, F] for each level from 1 to K; the last one has no residue.
        residues: float64 [n] for each level from 1 to K - 1, the lengths of residues.
        changed: How many rows of the last level the latest request changed.
    """

    levels: Sequence[Tensor]
    residues: Sequence[Tensor]
    changed: int = 0

    @property
    def error(self) -> float:
        """How far a row of the last level may be from P^K X: rows of P sum to 1, so that lengths add up over levels."""
        return sum((float(residue.max()) for residue in self.residues if len(residue)), 0.0)


def propagate(graph: Graph, steps: int) -> Propagation:
    """Compute every level, without residues; `steps` is K, at least 1."""
    edges, weight = averaging(graph, "mean")
    matrix = sparse.from_edges(edges, graph.num_nodes, weight)
    levels = [matrix @ unit_rows(graph.x)]
    while len(levels) < steps:
        levels.append(matrix @ levels[-1])
    nothing = torch.zeros(graph.num_nodes, dtype=torch.float64, device=graph.ids.device)
    return Propagation(levels, [nothing] * (steps - 1))


def mean_row(graph: Graph, steps: int) -> Tensor:
    """Return the mean of the rows of P^K X, without computing them: float64 [F].

    The weights of 1 / n are passed against the edges, a vector instead of a matrix.
    """
    edges, weight = averaging(graph, "mean")
    backward = sparse.from_edges(edges.flip(0), graph.num_nodes, weight)
    share = torch.full((graph.num_nodes, 1), 1 / graph.num_nodes, dtype=torch.float64, device=graph.ids.device)
    for _ in range(steps):
        share = backward @ share
    return (share * unit_rows(graph.x)).sum(dim=0)


def update(known: Propagation, former: Graph, request: Request, graph: Graph, threshold: float) -> Propagation:
    """Return what a request changes it to; nothing of `known` is changed.

    Rows of level 1 that average over something else are computed anew. From level to level rows are passed on to those
    that average over them, if they change by more than the threshold.

    Args:
        known: That of `former`.
        former: The graph from before the request.
        request: What goes.
        graph: The graph without it: the same nodes in the same order, without those of the request.
        threshold: The largest length of a change that is not passed on.
    """
    staying = torch.isin(former.ids, graph.ids)
    edges, weight = averaging(graph, "mean")
    source, target = edges
    touched = _touched(former, request, staying)
    below = None
    levels, residues = [], []
    moved = torch.zeros_like(touched)
    for number, level in enumerate(known.levels):
        is_last = number == len(known.levels) - 1
        level = level[staying]
        residue = torch.zeros(0) if is_last else known.residues[number][staying].clone()
        # Features change no weight of an average, and so no row beyond those that they are passed on to.
        again = torch.zeros_like(touched) if number and request.kind == "feature" else touched.clone()
        again[target[moved[source]]] = True
        rows = torch.nonzero(again)[:, 0]
        value = _averaged(graph, edges, weight, rows, below)
        length = (value - level[rows]).norm(dim=1)
        # The last level is passed on to nothing: it is what the model is trained on.
        passed = length > (0.0 if is_last else threshold)
        level[rows[passed]] = value[passed]
        if not is_last:
            residue[rows] = torch.where(passed, 0.0, length)
            residues.append(residue)
        moved = torch.zeros_like(touched)
        moved[rows[passed]] = True
        levels.append(level)
        below = level
    return Propagation(levels, residues, int(moved.sum()))


def _touched(former: Graph, request: Request, staying: Tensor) -> Tensor:
    """Return which retained nodes average over something else at the first level, or at any: bool [n]."""
    ends = torch.isin(former.ids, request.nodes.to(former.ids.device))
    touched = ends.clone()
    if request.kind != "edge":
        source, target = former.edge_index
        touched[target[ends[source]]] = True
    return touched[staying]


def _averaged(graph: Graph, edges: Tensor, weight: Tensor, rows: Tensor, below: Tensor | None) -> Tensor:
    """Return some rows of P times a level, or times the scaled features: float64 [m, F]."""
    place = torch.full((graph.num_nodes,), -1, dtype=torch.int64, device=rows.device)
    place[rows] = torch.arange(len(rows), device=rows.device)
    wanted = place[edges[1]] >= 0
    near, inverse = edges[0, wanted].unique(return_inverse=True)
    if below is not None:
        values = below[near]
    elif graph.sparse_rows is None:
        values = unit_rows(graph.x[near])
    else:
        values = unit_rows(graph.sparse_rows.take(near).dense())
    matrix = sparse.from_entries(place[edges[1, wanted]], inverse, weight[wanted], (len(rows), len(near)))
    return matrix @ values
