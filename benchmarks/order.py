"""The first layer's two orders, A(XW) and (AX)W with AX computed once, in turn, in one process.

A training step of the whole stack is timed; computing AX is not counted, so that (AX)W looks its best.
Both orders start from the same parameters and are checked to give the same logits.

    python benchmarks/order.py --data-root DIR [--datasets digits ...] [--models gcn sgc] [--epochs 5] [--rounds 15]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import torch
from torch import nn

from unlearnbench.datasets.base import data_root, load_graph
from unlearnbench.gnn.dropout import Noise
from unlearnbench.gnn.layers import GCNConv, Linear, SGConv
from unlearnbench.gnn.layout import Ragged
from unlearnbench.gnn.models import HeadedStack, LayeredStack, Sizes, Stack
from unlearnbench.gnn.training import train
from unlearnbench.graph import Graph
from unlearnbench.measure.allocator import steady_allocator
from unlearnbench.protocol import protocol
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Training

DATASETS = ("digits", "cora", "amazon-photo", "blogcatalog")
# Propagations of the input features in the first layer.
STEPS = {"gcn": 1, "sgc": 2}


class GlorotLinear(GCNConv):
    """A graph convolution whose rows are propagated already: the same start, no product with A."""

    forward = Linear.forward


class SGCStack(HeadedStack):
    """Simplified graph convolutions that propagate so many times themselves."""

    def __init__(self, num_networks: int, num_features: int, num_classes: int, steps: int) -> None:
        params = Sizes()
        conv1 = SGConv(num_networks, num_features, params.hidden, steps, raw=True)
        super().__init__(num_networks, num_classes, params, {"conv1": conv1})

    def embed(self, layout: Ragged) -> torch.Tensor:
        """Return the linear rows."""
        rows: torch.Tensor = self.get_submodule("conv1")(layout.features, layout)
        return rows


def make(model: str, graphs: Sequence[Graph], is_propagated: bool) -> Stack:
    """Make and draw the networks, for propagated features or others."""
    count, features, classes = len(graphs), graphs[0].num_features, graphs[0].num_classes
    stack: Stack
    if model == "sgc":
        stack = SGCStack(count, features, classes, 0 if is_propagated else STEPS[model])
    else:
        first: type[nn.Module] = GlorotLinear if is_propagated else GCNConv
        convolutions = [first(count, features, 64, raw=True), GCNConv(count, 64, 64)]
        stack = LayeredStack(count, classes, Sizes(), convolutions)
    stack.draw([torch.Generator().manual_seed(network) for network in range(count)])
    return stack


def propagated(graph: Graph, steps: int) -> Graph:
    """Return the graph with features A^steps X."""
    matrix, x = Ragged([graph]).gcn, graph.x
    for _ in range(steps):
        x = matrix @ x
    return replace(graph, x=x)


def non_zeros(graphs: Sequence[Graph]) -> int:
    """Count what a product with the features touches, in a row of the weights' columns each."""
    return sum(graph.x.numel() if graph.sparse_rows is None else len(graph.sparse_rows.values) for graph in graphs)


def compare(model: str, graphs: Sequence[Graph], epochs: int, rounds: int) -> None:
    """Print one line: a step in both orders, and what each touches."""
    training = Training(epochs=epochs)
    labels = torch.cat([graph.y for graph in graphs])
    orders = {"A(XW)": graphs, "(AX)W": [propagated(graph, STEPS[model]) for graph in graphs]}
    logits = []
    for order, parts in orders.items():
        stack = make(model, parts, order == "(AX)W").eval()
        layout = Ragged(parts)
        logits.append(stack.head(stack.embed(layout), layout).detach())
    torch.testing.assert_close(*logits, atol=1e-3, rtol=1e-3)

    ready = {}
    for order, parts in orders.items():
        layout = Ragged(parts, Noise(range(len(parts)), torch.device("cpu")))
        ready[order] = (make(model, parts, order == "(AX)W"), layout)
        train(*ready[order], labels, training, range(2))
    seconds_of: dict[str, list[float]] = {order: [] for order in orders}
    for _ in range(rounds):
        for order, values in seconds_of.items():
            start = time.process_time()
            train(*ready[order], labels, training, range(training.epochs))
            values.append((time.process_time() - start) / epochs)
    edges = STEPS[model] * sum(graph.num_edges + graph.num_nodes for graph in graphs)
    touched = [non_zeros(orders["A(XW)"]) + edges, non_zeros(orders["(AX)W"])]
    usual, precomputed = (1000 * min(values) for values in seconds_of.values())
    middle = [statistics.median(values) for values in seconds_of.values()]
    print(
        f"{model:<4} {len(graphs):>3} {'network' if len(graphs) == 1 else 'networks':<8}"
        f" A(XW) {usual:8.2f} ms {touched[0]:>10,}  (AX)W {precomputed:8.2f} ms {touched[1]:>11,}"
        f"  ratio {usual / precomputed:.2f} (of medians {middle[0] / middle[1]:.2f})"
    )


def main() -> None:
    """Time every dataset and model, for shards and for one network on all training nodes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--datasets", nargs="+", default=list(DATASETS))
    parser.add_argument("--models", nargs="+", choices=STEPS, default=list(STEPS))
    parser.add_argument("--num-shards", type=int, default=20)
    parser.add_argument("--epochs", type=int, default=5)
    parser.add_argument("--rounds", type=int, default=15)
    options = parser.parse_args()
    torch.set_num_threads(1)
    steady_allocator()
    print(f"a training step, processor time, least of {options.rounds} rounds of {options.epochs} steps, one thread;")
    print("entries touched by the products of X and A; ratio A(XW) to (AX)W: above 1, computing AX once pays")
    for dataset in options.datasets:
        graph = load_graph(resolve(load_catalogue(), "dataset", dataset).build(), data_root(options.data_root))
        training_graph = graph.induced(protocol.split(graph, 0, dataset, 0).train)
        order = torch.randperm(training_graph.num_nodes, generator=torch.Generator().manual_seed(0))
        shards = [
            training_graph.induced(training_graph.ids[part]) for part in torch.tensor_split(order, options.num_shards)
        ]
        print(dataset)
        for model in options.models:
            for graphs in (shards, [training_graph]):
                compare(model, graphs, options.epochs, options.rounds)


if __name__ == "__main__":
    main()
