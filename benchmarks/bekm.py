"""Time one round of `bekm`'s balanced k-means, beside a matrix product of the same sizes.

Run: python benchmarks/bekm.py [--nodes 200000] [--shards 20] [--dimensions 16] [--repeats 5]
"""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import click
import torch

from unlearnbench.unlearning.partitioning import SLACK, shard_bounds
from unlearnbench_grapheraser.bekm import balanced_k_means

ROUNDS = 3


def seconds(work: Callable[[], object]) -> float:
    """Time one call."""
    start = time.perf_counter()
    work()
    return time.perf_counter() - start


@click.command()
@click.option("--nodes", default=200_000, show_default=True)
@click.option("--shards", default=20, show_default=True)
@click.option("--dimensions", default=16, show_default=True)
@click.option("--repeats", default=5, show_default=True)
def main(nodes: int, shards: int, dimensions: int, repeats: int) -> None:
    """Print the median seconds of one round of three, and its ratio to an n x d x S product timed in turn."""
    torch.set_num_threads(1)
    points = torch.randn(nodes, dimensions, generator=torch.Generator().manual_seed(0))
    centroids = points[:shards]
    low, high = shard_bounds(nodes, shards, SLACK)
    rounds, products = [], []
    for _ in range(repeats):
        all_rounds = seconds(lambda: balanced_k_means(points, centroids, low, high, rounds=ROUNDS))
        rounds.append(all_rounds / ROUNDS)
        products.append(seconds(lambda: points @ centroids.t()))
    ratio = median(a / b for a, b in zip(rounds, products, strict=True))
    click.echo(f"{nodes} points, {shards} clusters, {dimensions} dimensions, 1 thread, median of {repeats}")
    click.echo(f"round {median(rounds):.3f} s, product {median(products):.4f} s, ratio {ratio:.0f}")


if __name__ == "__main__":
    main()
