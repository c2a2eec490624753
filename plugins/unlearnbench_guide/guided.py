"""The guided partition: a spectral embedding with a penalty for unequal sizes and unequal shares of classes."""

from __future__ import annotations

import math
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import ComponentParams, Graph, Partitioner, Task
from unlearnbench.gnn import SparseMatrix, sparse
from unlearnbench.unlearning import SLACK, assign_by_pairs, neighbours, shard_bounds

ROUNDS = 30
"""Rounds of k-means or of the rotation, at most."""


class Guided(Partitioner):
    """GUIDE's partition: few cut edges, shards of equal size, and each class in equal parts in all of them.

    It uses edges and labels: a partition kept after a request still depends on forgotten nodes. Weights of edges are
    not looked at.
    """

    name = "guided"
    version = 1
    summary = "Spectral shards of equal size and equal shares of classes (GUIDE's)."
    reference = "Wang, Huai and Wang, Inductive Graph Unlearning, USENIX Security 2023, guided graph partition"
    uses_data = True

    class Params(ComponentParams):
        """Parameters of `guided`."""

        alpha: float = Field(default=1.0, ge=0, description="Weight of fairness and balance against cut edges.")
        assignment: Literal["fast", "rotation"] = Field(
            default="rotation",
            description="How rows of the embedding become shards: fast (k-means) or rotation (spectral rotation).",
        )
        rounds: int = Field(default=100, ge=1, description="Rounds in which the embedding is computed.")
        slack: float = Field(default=SLACK, ge=0, lt=1, description="Tolerated imbalance.")

    params: Params

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Embed the training nodes and assign them; see `Partitioner.partition`."""
        settings, graph = self.params, task.graph
        low, high = shard_bounds(graph.num_nodes, num_shards, settings.slack)
        start = torch.randn(
            graph.num_nodes, num_shards, generator=task.generator("guided", "start"), dtype=torch.float64
        )
        classes = functional.one_hot(graph.y, graph.num_classes).to(torch.float64)
        embedding = embed(
            normalised_adjacency(graph), classes, start.to(graph.y.device), settings.alpha, settings.rounds
        )
        if settings.assignment == "rotation":
            return assign_by_pairs(-rotated(embedding), low, high)
        first = torch.randperm(graph.num_nodes, generator=task.generator("guided", "means"))[:num_shards]
        return assign_by_pairs(distances_to_means(embedding, first.to(graph.y.device)), low, high)


def normalised_adjacency(graph: Graph) -> SparseMatrix:
    """Return D^-1/2 A D^-1/2, where an edge of either direction counts once and a self-loop not at all."""
    starts, adjacent = neighbours(graph)
    degree = starts.diff()
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=adjacent.device), degree)
    scale = degree.clamp(min=1).to(torch.float64).rsqrt()
    return sparse.from_edges(torch.stack([adjacent, rows]), graph.num_nodes, scale[rows] * scale[adjacent])


def target(classes: Tensor, num_shards: int) -> Tensor:
    """Return B, what F'H is where every class is dealt out equally: float64 [C, S].

    H of a partition has the value 1/sqrt(n/S) for a node and its shard, so that its columns have length 1.
    """
    n = len(classes)
    share: Tensor = classes.sum(dim=0) / num_shards * math.sqrt(num_shards / n)
    return share[:, None].expand(-1, num_shards)


def objective(adjacency: SparseMatrix, classes: Tensor, embedding: Tensor, alpha: float) -> float:
    """Return tr(H'WH) - alpha |F'H - B|^2: what the embedding maximises."""
    kept = (embedding * (adjacency @ embedding)).sum()
    unfair = (classes.T @ embedding - target(classes, embedding.shape[1])).square().sum()
    return float(kept - alpha * unfair)


def embed(adjacency: SparseMatrix, classes: Tensor, start: Tensor, alpha: float, rounds: int) -> Tensor:
    """Maximise the objective over matrices with orthonormal columns, by generalised power iteration.

    A round goes along the gradient, shifted so that the objective never falls, to the nearest such matrix.

    Args:
        adjacency: W, float64 [n, n], symmetric, eigenvalues within [-1, 1].
        classes: F, float64 [n, C], one-hot labels.
        start: float64 [n, S], of full rank.
        alpha: Weight of the penalty.
        rounds: How many.

    Returns:
        H, float64 [n, S].
    """
    goal = target(classes, start.shape[1])
    shift = 1 + alpha * float(classes.sum(dim=0).max())
    embedding = nearest_orthonormal(start)
    for _ in range(rounds):
        pull = classes @ (classes.T @ embedding - goal)
        embedding = nearest_orthonormal(adjacency @ embedding + shift * embedding - alpha * pull)
    return embedding


def nearest_orthonormal(matrix: Tensor) -> Tensor:
    """Return the matrix with orthonormal columns that is nearest to a float64 [n, S]: U V' of its decomposition."""
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    nearest: Tensor = left @ right
    return nearest


def rotated(embedding: Tensor) -> Tensor:
    """Rotate an embedding until its rows point along the axes: float64 [n, S], high where a node belongs.

    Spectral rotation: in turn each node is given the shard of its largest entry, and the rotation becomes the one that
    brings the embedding nearest to the indicators of these shards, scaled to columns of length 1.
    """
    size = embedding.shape[1]
    rotation = torch.eye(size, dtype=embedding.dtype, device=embedding.device)
    before = None
    for _ in range(ROUNDS):
        shard = (embedding @ rotation).argmax(dim=1)
        if before is not None and torch.equal(shard, before):
            break
        indicator = functional.one_hot(shard, size).to(embedding.dtype)
        indicator = indicator / indicator.sum(dim=0).clamp(min=1).sqrt()
        rotation, before = nearest_orthonormal(embedding.T @ indicator), shard
    return embedding @ rotation


def distances_to_means(points: Tensor, first: Tensor) -> Tensor:
    """Cluster points by k-means and return the distance of each to each mean: float64 [n, S].

    Args:
        points: float64 [n, S].
        first: int64 [S], the points that are the first means. A mean that no point is nearest to stays.
    """
    means = points[first]
    distance = _distances(points, means)
    for _ in range(ROUNDS):
        member = functional.one_hot(distance.argmin(dim=1), len(means)).to(points.dtype)
        count = member.sum(dim=0)[:, None]
        moved = torch.where(count > 0, member.T @ points / count.clamp(min=1), means)
        if torch.equal(moved, means):
            break
        means = moved
        distance = _distances(points, means)
    return distance


def _distances(points: Tensor, means: Tensor) -> Tensor:
    # From differences: the expansion of the square loses small distances.
    return torch.cdist(points, means, compute_mode="donot_use_mm_for_euclid_dist")
