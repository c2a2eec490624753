"""What a dataset is, where its files lie, and the checks every graph passes on entry."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import torch
from platformdirs import user_cache_path
from torch import Tensor

from unlearnbench.component import Component
from unlearnbench.datasets.catalogue_of_graphs import GraphSize
from unlearnbench.datasets.checks import checked_graph
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph
from unlearnbench.graph.edge_keys import pair_keys, unique_keys, without_loops

ROOT_VARIABLE = "UNLEARNBENCH_DATA"
ONE_WAY = "some edges lack their reverse and are used as directed; undirected=true adds it."


class Dataset(Component, ABC):
    """Loads one graph.

    Attributes:
        license: What its source says about use, empty where it says nothing.
        source: Where it can be had: an address, or how it is made.
        notes: What `load` did that a user should know: labels converted, parts ignored.
    """

    kind = "dataset"
    license: ClassVar[str] = ""
    source: ClassVar[str] = ""

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self.notes: list[str] = []

    @abstractmethod
    def load(self, root: Path) -> Graph:
        """Load the graph.

        Args:
            root: The data root: the folder under which the files of datasets lie. A dataset
                that is made, or comes with a library, does not look at it.

        Returns:
            The same graph every time, on the CPU; an undirected edge stands in both directions.

        Raises:
            DataError: Files are missing or damaged; says which, and what to do.
        """

    def presence(self, root: Path) -> str:
        """Report in a few words whether the dataset's files are there; loads nothing.

        Args:
            root: The data root.
        """
        return "needs no files"


def graph_size(graph: Graph) -> GraphSize:
    """Return the size of a graph."""
    return GraphSize(graph.num_nodes, graph.num_edges, graph.num_features, graph.num_classes)


def load_graph(dataset: Dataset, root: Path) -> Graph:
    """Load a dataset and check what it gave: the one door through which graphs come in.

    Raises:
        DataError: The dataset cannot be loaded, or gave something that is not a proper graph.
    """
    graph = dataset.load(root)
    name = dataset.recorded_name(dataset.params)
    if not isinstance(graph, Graph):
        raise DataError(f"Dataset {name} gave a {type(graph).__name__}, expected a Graph.")
    wanted = {"x": torch.float32, "y": torch.int64, "edge_index": torch.int64, "ids": torch.int64}
    if graph.edge_weight is not None:
        wanted["edge_weight"] = torch.float32
    for field, dtype in wanted.items():
        found = getattr(graph, field).dtype
        if found != dtype:
            raise DataError(f"Dataset {name}: {field} is {found}, expected {dtype}.", f"Use .to({dtype}).")
    return checked_graph(graph, name)


def edge_statistics(graph: Graph) -> dict[str, int | bool]:
    """Count the kinds of edges of a graph.

    Returns:
        `pairs`: different unordered pairs of different nodes that are joined; `directed`:
        whether some edge lacks its reverse; `duplicates`: columns that repeat an earlier one;
        `self_loops`: columns that join a node to itself; `isolated`: nodes without an edge to
        another node.
    """
    n = graph.num_nodes
    source, target = graph.edge_index
    forward, backward = unique_keys(pair_keys(source, target, n)), unique_keys(pair_keys(target, source, n))
    directed = not torch.equal(forward, backward)
    del backward
    pairs = without_loops(forward, n)
    touched = torch.zeros(n, dtype=torch.bool)
    touched[pairs // n] = True
    touched[pairs % n] = True
    if directed:
        first, second = pairs // n, pairs % n
        pairs = unique_keys(pair_keys(torch.minimum(first, second), torch.maximum(first, second), n))
    return {
        "pairs": len(pairs) if directed else len(pairs) // 2,
        "directed": directed,
        "duplicates": graph.num_edges - len(forward),
        "self_loops": int((source == target).sum()),
        "isolated": n - int(touched.sum()),
    }


def edge_homophily(graph: Graph) -> float | None:
    """Return the share of edges that join nodes of one class, None without edges that count.

    Counted are the columns of `edge_index` whose ends differ and both have a label.
    """
    source, target = graph.edge_index
    counted = (source != target) & (graph.y[source] >= 0) & (graph.y[target] >= 0)
    same = graph.y[source[counted]] == graph.y[target[counted]]
    return float(same.double().mean()) if len(same) else None


def describe(graph: Graph, kinds: Mapping[str, int | bool] | None = None) -> str:
    """Describe in one line how large a graph is and what kind of edges it has: its `edge_statistics`."""
    kinds = kinds or edge_statistics(graph)
    words = [
        f"{graph.num_nodes} nodes",
        f"{kinds['pairs']} undirected pairs",
        "directed" if kinds["directed"] else "every edge in both directions",
        *(["edges with weights"] if graph.edge_weight is not None else []),
        *(f"{kinds[key]} {what}" for key, what in _ODD_EDGES.items() if kinds[key]),
        f"{graph.num_features} features",
        f"{graph.num_classes} classes",
    ]
    unlabelled = int((graph.y < 0).sum())
    return ", ".join([*words, *([f"{unlabelled} without a label"] if unlabelled else [])])


def little_seen(graph: Graph, train: Tensor) -> str:
    """Describe what inductive training sees of a graph if that is little, less than a tenth of nodes or edges, or ''.

    Args:
        graph: The graph.
        train: int64 [m], ids of the training nodes.
    """
    pairs, seen = len(graph.pairs()), len(graph.induced(train).pairs())
    if 10 * len(train) >= graph.num_nodes and 10 * seen >= pairs:
        return ""
    return (
        f"training sees {len(train)} of {graph.num_nodes} nodes and {seen} of {pairs} undirected pairs: those of"
        " training nodes alone"
    )


_ODD_EDGES = {"duplicates": "duplicate edges", "self_loops": "self-loops", "isolated": "isolated nodes"}


def data_root(explicit: Path | None = None) -> Path:
    """Choose the data root: the folder named, else `UNLEARNBENCH_DATA`, else the user's cache.

    Raises:
        DataError: The folder chosen is a file, or there is none.
    """
    named = os.environ.get(ROOT_VARIABLE, "")
    root = explicit or (Path(named) if named else cache_root())
    try:
        root = root.expanduser()
        is_file = root.exists() and not root.is_dir()
    except (OSError, RuntimeError) as error:  # a name too long, no such user
        raise DataError(f"The data root {root} cannot be used: {error}.", "Name a folder with `data_root`.") from None
    if is_file:
        raise DataError(f"The data root {root} is not a folder.", f"Name a folder with `data_root` or {ROOT_VARIABLE}.")
    return root


def cache_root() -> Path:
    """Return the user's own data root, which need not exist yet.

    Raises:
        DataError: The user has no home folder.
    """
    try:
        # `opinion` would put a folder `Cache` in between on Windows, `appauthor` one more.
        folder = user_cache_path("unlearnbench", appauthor=False, opinion=False)
    except (RuntimeError, OSError, KeyError) as error:
        raise DataError(
            f"There is no home folder for a data root: {error}.", f"Name one with `data_root` or {ROOT_VARIABLE}."
        ) from None
    return folder / "data"
