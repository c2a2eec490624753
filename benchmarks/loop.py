"""Members trained in lockstep against a plain loop over PyG modules, in turn, in one process.

Both train the same networks on the same shards: two graph convolutions of 64, MLP head, dropout
0.5, Adam with weight decay, full-batch steps. The loop is what a user of PyG would write.

    python benchmarks/loop.py --data-root DIR [--dataset cora] [--num-shards 20] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import GCNConv

from unlearnbench import protocol
from unlearnbench.datasets.base import data_root, load_graph
from unlearnbench.gnn import train_networks
from unlearnbench.graph import Graph
from unlearnbench.plugins import load_catalogue
from unlearnbench.resolve import resolve
from unlearnbench.task import Task, Training


class Plain(nn.Module):
    """The base model as PyG's documentation would have it."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__()
        self.conv1, self.conv2 = GCNConv(num_features, 64), GCNConv(64, 64)
        self.linear1, self.linear2 = nn.Linear(64, 64), nn.Linear(64, num_classes)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Give logits."""
        h = functional.dropout(self.conv1(x, edge_index).relu(), 0.5, self.training)
        h = functional.dropout(self.conv2(h, edge_index).relu(), 0.5, self.training)
        logits: Tensor = self.linear2(functional.dropout(self.linear1(h).relu(), 0.5, self.training))
        return logits


def loop(graphs: Sequence[Graph], training: Training) -> None:
    """Train one module after the other."""
    for graph in graphs:
        model = Plain(graph.num_features, graph.num_classes)
        optimiser = torch.optim.Adam(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
        for _ in range(training.epochs):
            optimiser.zero_grad()
            functional.cross_entropy(model(graph.x, graph.edge_index), graph.y).backward()
            optimiser.step()


def main() -> None:
    """Print both times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--num-shards", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    torch.set_num_threads(1)
    catalogue = load_catalogue()
    graph = load_graph(resolve(catalogue, "dataset", options.dataset).build(), data_root(options.data_root))
    train = graph.induced(protocol.split(graph, 0, options.dataset, 0).train)
    task = Task(train, resolve(catalogue, "model", "gcn"), Training(), torch.device("cpu"), seed=0)
    order = torch.randperm(train.num_nodes, generator=task.generator("shards"))
    graphs = [train.induced(train.ids[part]) for part in torch.tensor_split(order, options.num_shards)]
    seconds: dict[str, list[float]] = {"loop": [], "stack": []}
    for round_number in range(options.rounds + 1):
        for name in seconds:
            start = time.perf_counter()
            if name == "loop":
                loop(graphs, task.training)
            else:
                train_networks(task, graphs, range(len(graphs)))
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    ratios = [slow / fast for slow, fast in zip(seconds["loop"], seconds["stack"], strict=True)]
    print(f"{options.dataset}, gcn, {options.num_shards} shards, {task.training.epochs} epochs, one thread")
    for name, values in seconds.items():
        print(f"{name:<6} {statistics.median(values):.3f} s (median of {options.rounds})")
    print(f"ratio  {statistics.median(ratios):.2f} (lowest {min(ratios):.2f}, highest {max(ratios):.2f})")


if __name__ == "__main__":
    main()
