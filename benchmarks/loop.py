"""Members trained in lockstep against a plain loop over PyG modules, in turn, in one process.

Both train the same networks on the same shards: hidden 64, MLP head, dropout 0.5, Adam with
weight decay, full-batch steps. The loop is what a user of PyG would write.

    python benchmarks/loop.py --data-root DIR [--model gcn gat ...] [--dataset cora] [--num-shards 20] [--rounds 5]
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch_geometric.nn import APPNP, GATConv, GCNConv, JumpingKnowledge, SAGEConv

from unlearnbench.datasets.base import data_root, load_graph
from unlearnbench.errors import UnlearnbenchError
from unlearnbench.gnn import train_networks
from unlearnbench.graph import Graph
from unlearnbench.measure.allocator import steady_allocator
from unlearnbench.measure.clock import synchroniser
from unlearnbench.protocol import protocol
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task, Training


class Plain(nn.Module):
    """A base model as PyG's documentation would have it; subclasses say how nodes are embedded."""

    def __init__(self, num_classes: int) -> None:
        super().__init__()
        self.linear1, self.linear2 = nn.Linear(64, 64), nn.Linear(64, num_classes)

    def embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return the rows that the head gets."""
        raise NotImplementedError

    def dropped(self, rows: Tensor) -> Tensor:
        """Drop half of the entries in training."""
        return functional.dropout(rows, 0.5, self.training)

    def forward(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Return logits."""
        logits: Tensor = self.linear2(self.dropped(self.linear1(self.embed(x, edge_index)).relu()))
        return logits


class Layered(Plain):
    """Two convolutions, activation and dropout after each."""

    def __init__(self, num_classes: int, conv1: nn.Module, conv2: nn.Module, elu: bool = False) -> None:
        super().__init__(num_classes)
        self.conv1, self.conv2 = conv1, conv2
        self.activation = functional.elu if elu else functional.relu

    def embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Convolve twice."""
        rows = self.dropped(self.activation(self.conv1(x, edge_index)))
        return self.dropped(self.activation(self.conv2(rows, edge_index)))


class PlainAPPNP(Plain):
    """Two linear layers, then personalised PageRank."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_classes)
        self.first, self.second = nn.Linear(num_features, 64), nn.Linear(64, 64)
        self.propagation = APPNP(K=10, alpha=0.1)

    def embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Predict, then propagate."""
        rows: Tensor = self.propagation(self.second(self.dropped(self.first(x).relu())), edge_index)
        return rows


class PlainJKNet(Plain):
    """Three graph convolutions side by side."""

    def __init__(self, num_features: int, num_classes: int) -> None:
        super().__init__(num_classes)
        self.convolutions = nn.ModuleList(GCNConv(inputs, 64) for inputs in (num_features, 64, 64))
        self.jumping, self.jump = JumpingKnowledge("cat"), nn.Linear(3 * 64, 64)

    def embed(self, x: Tensor, edge_index: Tensor) -> Tensor:
        """Convolve three times and combine."""
        rows = [x]
        for convolution in self.convolutions:
            rows.append(self.dropped(convolution(rows[-1], edge_index).relu()))
        combined: Tensor = self.jump(self.jumping(rows[1:]))
        return combined


PLAIN: dict[str, Callable[[int, int], Plain]] = {
    "gcn": lambda features, classes: Layered(classes, GCNConv(features, 64), GCNConv(64, 64)),
    "gat": lambda features, classes: Layered(classes, GATConv(features, 8, heads=8), GATConv(64, 64), elu=True),
    "sage": lambda features, classes: Layered(classes, SAGEConv(features, 64), SAGEConv(64, 64)),
    "appnp": PlainAPPNP,
    "jknet": PlainJKNet,
}


@dataclass(frozen=True)
class Shards:
    """Shards of the training nodes of one dataset, on the device of the task.

    Args:
        task: Holds the training graph; its model is replaced by the one that is timed.
        graphs: One a shard.
    """

    task: Task
    graphs: Sequence[Graph]


def training_task(dataset: str, root: Path | None, device: torch.device, model: str = "gcn") -> tuple[Task, Graph]:
    """Make the task of repetition 0 with default training.

    Args:
        dataset: A bracket.
        root: As `--data-root`.
        device: Where to compute.
        model: A bracket.

    Returns:
        The task, and the whole graph it was cut from.
    """
    catalogue = load_catalogue()
    try:
        graph = load_graph(resolve(catalogue, "dataset", dataset).build(), data_root(root))
    except UnlearnbenchError as error:
        print(f"{error}\nWithout a data root: --dataset digits.", file=sys.stderr)
        raise SystemExit(error.exit_code) from None
    train = graph.induced(protocol.split(graph, 0, dataset, 0).train).to(device)
    return Task(train, resolve(catalogue, "model", model), Training(), device, seed=0), graph


def cut(task: Task, num_shards: int) -> Shards:
    """Assign the training nodes to shards at random."""
    order = torch.randperm(task.graph.num_nodes, generator=task.generator("shards")).to(task.device)
    parts = torch.tensor_split(order, num_shards)
    return Shards(task, [task.graph.induced(task.graph.ids[part]) for part in parts])


def loop(graphs: Sequence[Graph], training: Training, make: Callable[[int, int], Plain]) -> None:
    """Train one module after the other."""
    for graph in graphs:
        model = make(graph.num_features, graph.num_classes).to(graph.x.device)
        optimiser = torch.optim.Adam(model.parameters(), lr=training.lr, weight_decay=training.weight_decay)
        for _ in range(training.epochs):
            optimiser.zero_grad()
            functional.cross_entropy(model(graph.x, graph.edge_index), graph.y).backward()
            optimiser.step()


def contestants(shards: Shards, model: str) -> dict[str, Callable[[], object]]:
    """Return both ways to train a network of a model on every shard: `loop` and `stack`."""
    task = replace(shards.task, model=resolve(load_catalogue(), "model", model))
    return {
        "loop": lambda: loop(shards.graphs, task.training, PLAIN[model]),
        "stack": lambda: train_networks(task, shards.graphs, range(len(shards.graphs))),
    }


def compare(shards: Shards, model: str, rounds: int) -> dict[str, list[float]]:
    """Time both, in turn, after one round that does not count; in seconds, the device waited for at both ends."""
    wait = synchroniser(shards.task.device)
    both = contestants(shards, model)
    seconds: dict[str, list[float]] = {name: [] for name in both}
    for round_number in range(rounds + 1):
        for name, train in both.items():
            wait()
            start = time.perf_counter()
            train()
            wait()
            if round_number:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def ratios(seconds: dict[str, list[float]]) -> list[float]:
    """Divide the loop's time by the stack's, round by round."""
    return [slow / fast for slow, fast in zip(seconds["loop"], seconds["stack"], strict=True)]


def line(model: str, seconds: dict[str, list[float]]) -> str:
    """Return one line with the measurements of a model."""
    slow, fast = statistics.median(seconds["loop"]), statistics.median(seconds["stack"])
    of_rounds = ratios(seconds)
    span = f"{min(of_rounds):.2f} to {max(of_rounds):.2f}"
    return f"{model:<6} loop {slow:.3f} s  stack {fast:.3f} s  ratio {statistics.median(of_rounds):.2f} ({span})"


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare what can be chosen."""
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--dataset", default="cora")
    parser.add_argument("--model", choices=PLAIN, nargs="+", default=list(PLAIN))
    parser.add_argument("--num-shards", type=int, default=20)
    parser.add_argument("--rounds", type=int, default=5)


def main() -> None:
    """Print both times and their ratio."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_options(parser)
    options = parser.parse_args()
    torch.set_num_threads(1)
    steady_allocator()
    task, _ = training_task(options.dataset, options.data_root, torch.device("cpu"))
    shards = cut(task, options.num_shards)
    print(f"{options.dataset}, {options.num_shards} shards, {task.training.epochs} epochs, one thread")
    print(f"median of {options.rounds} rounds, lowest and highest ratio within a round")
    for model in options.model:
        print(line(model, compare(shards, model, options.rounds)))


if __name__ == "__main__":
    main()
