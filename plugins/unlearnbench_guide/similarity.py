"""Members weighted by similarity: the pyramid match between the graph of a shard and that of a sample."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import pairwise

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Aggregator, ComponentParams, Graph, Members, Task, UsageError
from unlearnbench.gnn import sparse
from unlearnbench.unlearning import log_of_mean, neighbours

# Of the subspace iteration: a graph's eigenvalues beyond the first are close together.
ITERATIONS = 20
OVERSAMPLING = 4
LEAST_EIGENVALUE = 1e-6


class Similarity(Aggregator):
    """The mean of the members' probabilities, weighted by how alike their shard's graph is to that of U.

    The kernel is the pyramid match of Nikolentzos et al. (AAAI 2017), divided by that of each graph with itself. A
    voting member of a shard without a node in U has the mean weight of the others. Weights of edges are not looked at.
    """

    name = "similarity"
    version = 1
    summary = "Members weighted by how alike their shard's graph is to a sample (GUIDE's)."
    reference = "Wang, Huai and Wang, Inductive Graph Unlearning, USENIX Security 2023, similarity-based aggregation"

    class Params(ComponentParams):
        """The sample and the kernel."""

        sample: float = Field(
            default=10_000, gt=0, description="Size of U: a number of training nodes if at least 1, else a share."
        )
        dimensions: int = Field(default=6, ge=1, description="Eigenvectors that nodes are placed by.")
        levels: int = Field(default=4, ge=0, description="How often the range of an eigenvector is cut into halves.")

    params: Params

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        self.sample = self.params.sample
        self.weight: Tensor | None = None

    def fit(self, task: Task, members: Members, graph: Graph) -> None:
        """Compare the graph of U with the part of it in each shard."""
        settings = self.params

        def placed(part: Graph, *role: str | int) -> Tensor:
            start = torch.randn(
                part.num_nodes,
                min(settings.dimensions + OVERSAMPLING, part.num_nodes),
                generator=task.generator("similarity", *role),
                dtype=torch.float64,
            )
            return places(part, start.to(part.y.device), settings.dimensions)

        whole = placed(graph, "sample")
        weight = torch.full((len(members.sizes),), -1.0, dtype=torch.float64)
        for shard in members.shard.unique().tolist():
            part = placed(graph.induced(graph.ids[members.shard == shard]), "shard", shard)
            weight[shard] = match(part, whole, settings.levels)
        known, voting = weight >= 0, members.voting.cpu()
        weight = torch.where(known, weight, weight[known].mean()) * voting
        self.weight = (weight / weight.sum()).to(torch.float32).to(members.logits.device)

    def combine(self, members: Members) -> Tensor:
        """Average probabilities by weight.

        Raises:
            UsageError: `fit` was not called.
        """
        if self.weight is None:
            raise UsageError("The aggregator similarity has no weights yet.", "Call fit before combine.")
        mean = torch.zeros_like(members.logits[0])
        # Member by member: the rounding of a single product would depend on a row's position in the chunk.
        for member in torch.nonzero(self.weight)[:, 0].tolist():
            mean = mean + self.weight[member] * torch.softmax(members.logits[member], dim=-1)
        return log_of_mean(mean)

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights."""
        return {} if self.weight is None else {"weight": self.weight}


def places(graph: Graph, start: Tensor, dimensions: int) -> Tensor:
    """Place nodes in the unit cube by the eigenvectors of the largest eigenvalues of A, in magnitude.

    Args:
        graph: An edge of either direction counts once, a self-loop not at all.
        start: float64 [n, k], k at least `dimensions` or n: where subspace iteration begins.
        dimensions: d.

    Returns:
        float64 [n, d], magnitudes of the entries; 0 in columns whose eigenvalue is 0, or where n is below d.
    """
    starts, adjacent = neighbours(graph)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=adjacent.device), starts.diff())
    ones = torch.ones(len(rows), dtype=torch.float64, device=adjacent.device)
    # The matrix alone: no gradient is wanted of it.
    adjacency = sparse.from_edges(torch.stack([adjacent, rows]), graph.num_nodes, ones).csr
    basis = torch.linalg.qr(start).Q
    for _ in range(ITERATIONS):
        # Twice: eigenvalues of equal magnitude and other signs would swap places for ever.
        basis = torch.linalg.qr(adjacency @ (adjacency @ basis)).Q
    values, vectors = torch.linalg.eigh(basis.T @ (adjacency @ basis))
    order = values.abs().sort(descending=True, stable=True).indices[:dimensions]
    found = (basis @ vectors[:, order]).abs() * (values[order].abs() > LEAST_EIGENVALUE)
    placed: Tensor = found.new_zeros(graph.num_nodes, dimensions)
    placed[:, : found.shape[1]] = found
    return placed


def match(first: Tensor, second: Tensor, levels: int) -> float:
    """Return the pyramid match of two sets of points, divided by the root of the product of each with itself.

    Args:
        first: float64 [n, d], in the unit cube.
        second: float64 [m, d].
        levels: L; level l cuts every axis into 2^l cells.
    """
    own = math.sqrt(_match(first, first, levels) * _match(second, second, levels))
    return _match(first, second, levels) / own


def _match(first: Tensor, second: Tensor, levels: int) -> float:
    shared = [
        float(torch.minimum(_histogram(first, 2**level), _histogram(second, 2**level)).sum())
        for level in range(levels + 1)
    ]
    new = [(coarse - fine) / 2 ** (levels - level) for level, (coarse, fine) in enumerate(pairwise(shared))]
    return shared[-1] + math.fsum(new)


def _histogram(points: Tensor, cells: int) -> Tensor:
    """Count the points in each cell of each axis: int64 [d, cells]."""
    cell = (points * cells).long().clamp(max=cells - 1)
    counts = cell.new_zeros(points.shape[1], cells)
    return counts.scatter_add_(1, cell.T, torch.ones_like(cell.T))
