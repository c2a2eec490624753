"""Balanced embedding k-means: shards are clusters of nodes with similar embeddings, within limits on sizes."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import ComponentParams, Partitioner, Task
from unlearnbench.unlearning import SLACK, assign_by_pairs
from unlearnbench_grapheraser.capacity import Capacity, size_limits
from unlearnbench_grapheraser.embeddings import Embedding, embed

DEFAULT_EMBEDDING: Embedding = "logits"


class Bekm(Partitioner):
    """GraphEraser's balanced embedding k-means (BEKM).

    It uses features, edges with their weights and, with a trained embedder, labels: a partition kept after a request
    still depends on forgotten nodes.
    """

    name = "bekm"
    summary = "Balanced k-means on node embeddings (GraphEraser's BEKM)."
    reference = 'Chen et al., "Graph Unlearning", CCS 2022, balanced embedding k-means'
    uses_data = True

    class Params(ComponentParams):
        """Parameters of `bekm`."""

        embedding: Embedding = Field(
            default=DEFAULT_EMBEDDING,
            description="What is clustered: propagated (principal components of A A X), logits (log-probabilities of a"
            " network trained on the whole training graph) or hidden (that network's last message-passing layer).",
        )
        capacity: Capacity = Field(
            default="slack",
            description="Sizes of shards: slack (between (1 - slack) n/S and (1 + slack) n/S) or paper (at most"
            " n/S + delta (n - n/S), at least one node).",
        )
        slack: float = Field(default=SLACK, ge=0, lt=1, description="Tolerated imbalance with capacity=slack.")
        delta: float = Field(default=0.005, ge=0, le=1, description="Tolerated imbalance with capacity=paper.")
        rounds: int = Field(default=20, ge=1, description="Rounds of k-means at most.")
        tolerance: float = Field(
            default=0.0, ge=0, description="Stop when the summed L1 shift of all centroids is at most this."
        )
        components: int = Field(
            default=32, ge=1, description="Principal components kept with embedding=propagated, at most."
        )

    params: Params

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Cluster the training nodes; see `Partitioner.partition`."""
        settings = self.params
        n = task.graph.num_nodes
        low, high = size_limits(n, num_shards, settings.capacity, settings.slack, settings.delta)
        points = embed(task, settings.embedding, settings.components)
        first = torch.randperm(n, generator=task.generator("bekm"))[:num_shards].to(points.device)
        return balanced_k_means(points, points[first], low, high, settings.rounds, settings.tolerance)


def balanced_k_means(
    points: Tensor, centroids: Tensor, low: int, high: int, rounds: int, tolerance: float = 0.0
) -> Tensor:
    """Cluster points into clusters of `low` to `high` points.

    A round goes through all (point, centroid) pairs by ascending distance and takes each pair whose
    point is free and whose centroid has room, then moves each centroid to the mean of its points.

    Args:
        points: float32 [n, d].
        centroids: float32 [S, d], the initial centroids.
        low: Smallest size of a cluster, at least 1; S * low <= n.
        high: Largest size of a cluster; S * high >= n.
        rounds: Largest number of rounds.
        tolerance: Stop when the summed L1 shift of all centroids is at most this.

    Returns:
        int64 [n], the cluster of each point.
    """
    shard = assign_by_pairs(distances(points, centroids), low, high)
    for _ in range(rounds - 1):
        moved = cluster_means(points, shard, len(centroids))
        shift = float((moved - centroids).abs().double().sum())
        if shift <= tolerance:
            break
        centroids = moved
        before, shard = shard, assign_by_pairs(distances(points, centroids), low, high)
        if torch.equal(before, shard):
            break
    return shard


def distances(points: Tensor, centroids: Tensor) -> Tensor:
    """Return the Euclidean distances float32 [n, S], computed from differences.

    The expansion |p|^2 - 2 p c + |c|^2 would be faster, but loses the small distances of points
    far from the origin.
    """
    return torch.cdist(points, centroids, compute_mode="donot_use_mm_for_euclid_dist")


def cluster_means(points: Tensor, shard: Tensor, num_shards: int) -> Tensor:
    """Return the mean of each cluster's points, float32 [S, d], summed in float64; no cluster may be empty."""
    member = torch.zeros(len(points), num_shards, dtype=torch.float64, device=points.device)
    member.scatter_(1, shard[:, None], 1.0)
    means = (member.t() @ points.double()) / member.sum(dim=0)[:, None]
    return means.to(points.dtype)
