"""G2: one round of balanced clustering costs as much as sorting, and gives what the plain walk over all pairs gives."""

from __future__ import annotations

import math

import pytest
import torch
from plain_versions import rng, walk_all_pairs
from tensor_samples import Made

from unlearnbench.unlearning.partitioning import assign_by_nodes, assign_by_pairs, shard_bounds
from unlearnbench_grapheraser.bekm import balanced_k_means, distances
from unlearnbench_grapheraser.capacity import paper_capacity

SHARDS = 10


@pytest.mark.parametrize(
    ("low", "high"),
    [shard_bounds(200, 10, 0.1), (20, 20), (1, paper_capacity(200, 10, 0.005))],
    ids=["slack", "exact", "paper"],
)
def test_assignment_is_the_plain_walk_on_200_points(low, high):
    points = torch.randn(200, 16, generator=rng(1))
    cost = distances(points, points[:10])
    assert assign_by_pairs(cost, low, high).tolist() == walk_all_pairs(cost.tolist(), low, high)


def work(nodes: int, assign: object, slack: float) -> Made:
    """Look at what the assignment of so many points to ten centroids makes."""
    points = torch.randn(nodes, 16, generator=rng(1))
    cost = distances(points, points[:SHARDS])
    low, high = shard_bounds(nodes, SHARDS, slack)
    with Made() as made:
        shard = assign(cost, low, high)  # type: ignore[operator]
    sizes = torch.bincount(shard, minlength=SHARDS)
    assert low <= int(sizes.min()) <= int(sizes.max()) <= high
    return made


@pytest.mark.parametrize("slack", [0.0, 0.1])
@pytest.mark.parametrize("assign", [assign_by_pairs, assign_by_nodes])
def test_what_is_done_for_20000_points_grows_as_their_number(assign: object, slack: float) -> None:
    small, large = work(2_000, assign, slack), work(20_000, assign, slack)
    # Ten times the points: ten times the elements, the logarithm of sorting is inside one operation; not a hundred.
    assert large.elements <= 13 * small.elements
    # Passes over all points: at most two for each shard, whatever n, and none for a single point.
    assert large.operations <= 100 * 2 * SHARDS
    assert large.elements <= 2 * SHARDS * 20_000 * (SHARDS + 20)


def test_a_whole_round_on_20000_points_is_a_few_hundred_operations() -> None:
    points = torch.randn(20_000, 16, generator=rng(2))
    low, high = shard_bounds(len(points), SHARDS, 0.1)
    with Made() as made:
        shard = balanced_k_means(points, points[:SHARDS], low, high, rounds=2)
    assert made.operations <= 2 * 100 * 2 * SHARDS
    assert made.largest <= len(points) * 16 * math.ceil(math.log2(SHARDS))
    assert int(torch.bincount(shard).max()) <= high
