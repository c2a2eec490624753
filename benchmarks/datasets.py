"""Measures every dataset that is at hand: the table in docs/datasets.md. Downloads nothing.

Usage: python benchmarks/datasets.py [DATA_ROOT]
"""

from __future__ import annotations

import sys
from pathlib import Path

from unlearnbench.datasets.base import data_root, edge_homophily, edge_statistics, load_graph
from unlearnbench.datasets.published import PublishedGraph
from unlearnbench.datasets.raw import offline
from unlearnbench.errors import DataError
from unlearnbench.registry.loading import load_catalogue

HEADINGS = ("dataset", "nodes", "edges", "features", "classes", "homophily", "isolated", "split", "licence", "source")
# Datasets without a fixed graph of their own.
OPEN = {"file", "sbm"}


def main(arguments: list[str]) -> None:
    root = data_root(Path(arguments[0]) if arguments else None)
    catalogue = load_catalogue()
    print(f"| {' | '.join(HEADINGS)} |")
    print(f"|{'---|' * len(HEADINGS)}")
    for entry in catalogue.all("dataset"):
        if entry.name in OPEN:
            continue
        cls = catalogue.load(entry)
        dataset = cls()
        size = isolated = homophily = ""
        try:
            with offline():
                graph = load_graph(dataset, root)
        except DataError:
            if isinstance(dataset, PublishedGraph):
                size = " | ".join(f"{value:,}" for value in dataset.size)
        else:
            size = f"{graph.num_nodes:,} | {graph.num_edges:,} | {graph.num_features:,} | {graph.num_classes:,}"
            isolated = f"{edge_statistics(graph)['isolated']:,}"
            share = edge_homophily(graph)
            homophily = "" if share is None else f"{share:.3f}"
        split = "own" if getattr(cls, "own_split", False) else "folds"
        source = f"<{cls.source}>" if cls.source.startswith("https://") else f"`{cls.source}`"
        cells = (f"`{entry.name}`", size, homophily, isolated, split, cls.license or "not known", source)
        print(f"| {' | '.join(cells)} |")


if __name__ == "__main__":
    main(sys.argv[1:])
