"""Peak memory and time of the learned partition on a graph of Flickr's size.

Run: python benchmarks/partition_memory.py [--nodes 89250] [--edges 899756] [--features 500] [--epochs 3]
"""

from __future__ import annotations

import argparse
import resource
import sys
import time
from pathlib import Path

import torch

from unlearnbench.datasets.sbm import StochasticBlockModel
from unlearnbench.task import Task, Training
from unlearnbench_graphrevoker.gpa import GraphPropertyAware


def peak_mib() -> float:
    """Return the largest resident memory of this process so far, in MiB."""
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / 2**20 if sys.platform == "darwin" else peak / 2**10


def main() -> None:
    """Partition once and print what it cost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--nodes", type=int, default=89_250)
    parser.add_argument("--edges", type=int, default=899_756, help="directed edges")
    parser.add_argument("--features", type=int, default=500)
    parser.add_argument("--classes", type=int, default=7)
    parser.add_argument("--shards", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=3)
    parser.add_argument("--threads", type=int, default=1)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    params = StochasticBlockModel.Params(
        num_nodes=options.nodes,
        num_edges=options.edges // 2,
        num_features=options.features,
        num_classes=options.classes,
    )
    graph = StochasticBlockModel(params).load(Path())
    print(f"graph: {graph.num_nodes} nodes, {graph.num_edges} directed edges, {graph.num_features} features")
    print(f"peak resident memory before: {peak_mib():.0f} MiB")
    # The base model and the training settings play no part in a partition on raw features.
    task = Task(graph, None, Training(), torch.device("cpu"), seed=0)  # type: ignore[arg-type]
    partitioner = GraphPropertyAware(GraphPropertyAware.Params(epochs=options.epochs))
    start = time.perf_counter()
    assignment = partitioner.probabilities(task, options.shards)
    trained = time.perf_counter()
    sizes = torch.bincount(partitioner.assign(assignment), minlength=options.shards)
    assigned = time.perf_counter()
    print(f"seconds per epoch: {(trained - start) / max(options.epochs, 1):.2f} ({options.epochs} epochs)")
    print(f"seconds to assign: {assigned - trained:.2f}; shards hold {int(sizes.min())} to {int(sizes.max())} nodes")
    print(f"peak resident memory: {peak_mib():.0f} MiB")


if __name__ == "__main__":
    main()
