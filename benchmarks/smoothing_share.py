r"""Which share of the neighbours to smooth with: F1 on *validation* nodes for several shares, from predictions on file.

Smoothing trains nothing, so the predictions that a run left are smoothed here with every share: what
`smoothed[method=...,share=...]` would predict. Full view, after the request, micro-F1 in percent, averaged over
repetitions; then averaged over the rows of each dataset, and over datasets. Test nodes are not looked at.

    unlearnbench run --methods "sisa[partitioner=hash],graphrevoker" --datasets digits,amazon-photo,pubmed \
        --models gcn,sage --repetitions 3 --out runs/share
    python benchmarks/smoothing_share.py runs/share [--models gcn sage] [--shares 0 0.5 0.8] [--rounds 15]
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
import pandas as pd
import torch

from unlearnbench.datasets.base import data_root, load_graph
from unlearnbench.graph import Graph
from unlearnbench.records.record import Record
from unlearnbench.records.store import Store
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.cell_codec import cell_of_canonical
from unlearnbench.unlearning import smooth


def scores(graph: Graph, arrays: dict[str, np.ndarray], shares: list[float], rounds: int) -> dict[float, float]:
    """Return the micro-F1 on validation nodes for each share."""
    anchors, targets = (
        torch.from_numpy(ids) for ids in (np.setdiff1d(arrays["train"], arrays["forgotten"]), arrays["val"])
    )
    held = graph.induced(torch.cat([anchors, targets]).sort().values)
    places, asked = held.positions(anchors), held.positions(targets)
    probabilities = torch.zeros(held.num_nodes, held.num_classes)
    probabilities[asked] = torch.from_numpy(arrays["after/val/full"]).exp()
    outputs = {
        share: smooth(probabilities, held.edge_index, places, held.y[places], share, rounds, asked) for share in shares
    }
    return {
        share: 100 * float((output.argmax(dim=1) == held.y[asked]).float().mean()) for share, output in outputs.items()
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path)
    parser.add_argument("--data-root", type=Path)
    parser.add_argument("--shares", nargs="+", type=float, default=[0, 0.3, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95])
    parser.add_argument("--models", nargs="+", default=["gcn", "sage"])
    parser.add_argument("--rounds", type=int, default=15)
    chosen = parser.parse_args()
    catalogue, graphs = load_catalogue(), dict[str, Graph]()
    torch.set_num_threads(1)

    def row(record: Record) -> dict[str, object]:
        cell = cell_of_canonical(record.cell, catalogue)
        if cell.dataset.label not in graphs:
            graphs[cell.dataset.label] = load_graph(cell.dataset.build(), data_root(chosen.data_root))
        arrays = Store(chosen.results, record.machine).arrays(record)
        return {
            "dataset": cell.dataset.label,
            "model": cell.model.label,
            "method": cell.method.label,
            **scores(graphs[cell.dataset.label], arrays, chosen.shares, chosen.rounds),
        }

    # Store(...).records() reads every machine's.
    records = [record for record in Store(chosen.results, "").records() if record.status == "ok"]
    records = [record for record in records if record.cell["method"]["name"] != "smoothed"]
    rows = [row(record) for record in records if record.cell["model"]["name"] in chosen.models]
    means = pd.DataFrame(rows).groupby(["dataset", "model", "method"]).mean()
    datasets = means.groupby("dataset").mean()
    datasets.loc["all"] = datasets.mean()
    print(f"{means.round(2).to_string()}\n\n{datasets.round(2).to_string()}")


if __name__ == "__main__":
    main()
