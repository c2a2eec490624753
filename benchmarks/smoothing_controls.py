"""Whether the F1 of smoothed predictions comes from the data: the same runs on graphs that were tampered with.

`labels` deals the labels out anew: F1 above `majority`, the share of the largest class, would be a leak.
`features` deals the rows of features out anew, `edges` takes all edges away, `both` does both. `homophily` is the
share of edges that join nodes of one label; `sbm` with little of it and the heterophilous graphs show where
smoothing loses to a network. Graphs whose files are not at hand are left out. F1 is micro-averaged, after the
request, in percent: mean and sample standard deviation over repetitions; `validation` is on validation nodes,
in the full view.

    python benchmarks/smoothing_controls.py [--data-root DIR] [--datasets digits cora] [--model gcn]
        [--methods retrain "smoothed[method=retrain]" tally] [--repetitions 3] [--epochs 100]
"""

from __future__ import annotations

import argparse
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import torch

from unlearnbench import seeds
from unlearnbench.component import Spec
from unlearnbench.datasets.base import data_root
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, Protocol
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.running.lookup import load_graphs
from unlearnbench.running.outcome import RunContext
from unlearnbench.running.runner import run_cell
from unlearnbench.statistics.averages import mean, sample_sd
from unlearnbench.task import Training

HEAD = ("dataset", "homophily", "majority", "control", "method", "n", "shard", "full", "sd", "validation")
HETEROPHILOUS = ("actor", "chameleon", "squirrel", "roman-empire", "amazon-ratings", "minesweeper", "tolokers")
MADE = tuple(f"sbm[homophily={share}]" for share in (0.8, 0.5, 0.2, 0))
METHODS = ("retrain", "sisa[partitioner=hash]")


def _dealt(graph: Graph, role: str) -> torch.Tensor:
    return torch.randperm(graph.num_nodes, generator=seeds.generator(0, "smoothing-controls", role))


def _labels(graph: Graph) -> Graph:
    # Nodes without a label stay without one: splits are the same.
    known = torch.nonzero(graph.y >= 0)[:, 0]
    order = torch.randperm(len(known), generator=seeds.generator(0, "smoothing-controls", "labels"))
    return replace(graph, y=graph.y.index_copy(0, known, graph.y[known[order]]))


def _features(graph: Graph) -> Graph:
    return replace(graph, x=graph.x[_dealt(graph, "features")])


def _edges(graph: Graph) -> Graph:
    return replace(graph, edge_index=graph.edge_index[:, :0])


CONTROLS: dict[str, Callable[[Graph], Graph]] = {
    "none": lambda graph: graph,
    "labels": _labels,
    "features": _features,
    "edges": _edges,
    "both": lambda graph: _edges(_features(graph)),
}


def homophily(graph: Graph) -> float:
    """Return the share of edges that join nodes of one label, among edges whose ends have labels."""
    ends = graph.y[graph.edge_index]
    ends = ends[:, (ends >= 0).all(dim=0)]
    return float((ends[0] == ends[1]).double().mean())


def majority(graph: Graph) -> float:
    """Return the share of the largest class among the nodes with a label."""
    counts = torch.bincount(graph.y[graph.y >= 0])
    return float(counts.max() / counts.sum())


def measure(cells: Sequence[Cell], graph: Graph, catalogue: Catalogue) -> list[float]:
    """Run a method's repetitions.

    Returns:
        How many have a score; F1 in the shard view; F1 in the full view, with its deviation; and on validation nodes.
    """
    context = RunContext(
        torch.device("cpu"), 1, "", [resolve(catalogue, "metric", "f1_micro")], {"packages": {}, "plugins": {}}
    )
    metrics = [record.metrics for record, _, _ in (run_cell(cell, graph, context) for cell in cells) if record.metrics]
    shard, full = ([one["f1_micro"][view]["after"] for one in metrics] for view in ("shard", "full"))
    validation = [one["val_f1_micro"]["full"]["after"] for one in metrics]
    figures = (mean(shard), mean(full), sample_sd(full), mean(validation))
    return [len(metrics), *(float("nan") if value is None else 100 * value for value in figures)]


def cells_of(dataset: Spec, graph: Graph, method: Spec, model: Spec, repetitions: int, epochs: int) -> list[Cell]:
    """Make the cells of a method, with the splits and requests of the untouched graph."""
    rules = Protocol(forget=Forget(), own_split=graph.split is not None)
    first = Cell(rules, dataset, graph.checksum(), model, method, Training(epochs=epochs), 0, 0, "cpu")
    return [replace(first, repetition=number) for number in range(repetitions)]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--datasets", nargs="+", default=["digits", *MADE, *HETEROPHILOUS])
    parser.add_argument("--methods", nargs="+", default=[*METHODS, *(f"smoothed[method={name}]" for name in METHODS)])
    parser.add_argument("--model", default="gcn")
    parser.add_argument("--controls", nargs="+", choices=CONTROLS, default=list(CONTROLS))
    parser.add_argument("--repetitions", type=int, default=3)
    parser.add_argument("--epochs", type=int, default=100)
    options = parser.parse_args()
    torch.set_num_threads(1)
    catalogue = load_catalogue()
    datasets = [resolve(catalogue, "dataset", name) for name in options.datasets]
    methods = [resolve(catalogue, "unlearner", name) for name in options.methods]
    model = resolve(catalogue, "model", options.model)
    graphs, notices = load_graphs(datasets, data_root(options.data_root), forbid_downloads=True, skip_missing=True)
    for notice in notices:
        if notice.startswith("left out"):
            print(f"# {notice.splitlines()[0]}")
    print("\t".join(HEAD))
    for dataset in datasets:
        for control in options.controls if dataset.label in graphs else ():
            graph = CONTROLS[control](graphs[dataset.label])
            place = [dataset.label, f"{homophily(graph):.2f}", f"{100 * majority(graph):.1f}", control]
            for method in methods:
                cells = cells_of(dataset, graph, method, model, options.repetitions, options.epochs)
                number, *scores = measure(cells, graph, catalogue)
                row = [*place, method.label, str(number), *(f"{score:.1f}" for score in scores)]
                print("\t".join(row), flush=True)


if __name__ == "__main__":
    main()
