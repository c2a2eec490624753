"""Networks on nearly a whole graph, as Retrain's and shadow pipelines', in lockstep against one after the other.

Each trains on 70 % of the nodes of one graph, drawn anew; the numbers of networks come in turn, in one process.
The last column is a network on 40 nodes: what one takes that no product does.

    python benchmarks/whole_networks.py --data-root DIR [--datasets digits cora] [--rounds 5] [--device cpu]
"""

from __future__ import annotations

import argparse
import statistics
import time
from pathlib import Path

import torch

from unlearnbench.datasets.base import data_root, load_graph
from unlearnbench.gnn import train_networks
from unlearnbench.graph import Graph
from unlearnbench.measure.allocator import steady_allocator
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task, Training

TOGETHER = (1, 2, 4, 8, 16)
SHARE = 0.7
FEW = 40


def drawn(graph: Graph, nodes: int, seed: int) -> Graph:
    """Draw a subgraph of so many nodes."""
    order = torch.randperm(graph.num_nodes, generator=torch.Generator().manual_seed(seed))
    return graph.induced(graph.ids[order[:nodes].sort().values])


def seconds(task: Task, graphs: list[Graph]) -> float:
    """Train a network on each graph, all at once; seconds a network."""
    start = time.perf_counter()
    networks = train_networks(task, graphs, range(len(graphs)))
    networks.state(0)["mlp.linear2.bias"].cpu()  # waits for a GPU
    return (time.perf_counter() - start) / len(graphs)


def main() -> None:
    """Print a line a dataset."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--datasets", nargs="+", default=["digits", "cora", "citeseer"])
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    torch.set_num_threads(1)
    steady_allocator()
    catalogue, device = load_catalogue(), torch.device(options.device)
    print(f"seconds a network, {options.model}, 100 epochs; medians of {options.rounds} rounds after one, one thread")
    print("| dataset | " + " | ".join(f"{count} together" for count in TOGETHER) + f" | {FEW} nodes, alone |")
    print("|---" * (len(TOGETHER) + 2) + "|")
    for dataset in options.datasets:
        graph = load_graph(resolve(catalogue, "dataset", dataset).build(), data_root(options.data_root)).to(device)
        model = resolve(catalogue, "model", options.model)
        parts = [drawn(graph, int(SHARE * graph.num_nodes), seed) for seed in range(max(TOGETHER))]
        task = Task(graph, model, Training(epochs=100), device, 0)
        chosen = [*(parts[:count] for count in TOGETHER), [drawn(graph, FEW, 0)]]
        rounds = [[seconds(task, graphs) for graphs in chosen] for _ in range(options.rounds + 1)][1:]
        medians = [statistics.median(values) for values in zip(*rounds, strict=True)]
        print(f"| {dataset} | " + " | ".join(f"{value:.3f}" for value in medians) + " |", flush=True)


if __name__ == "__main__":
    main()
