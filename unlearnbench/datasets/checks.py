"""The rules of a graph, looked at on entry, before any training."""

from __future__ import annotations

from dataclasses import replace

import torch
from torch import Tensor

from unlearnbench.datasets.weights import check_weights
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph, Split


def checked_graph(graph: Graph, name: str) -> Graph:
    """Check a graph on entry, before any training.

    Raises:
        DataError: Names the dataset, the rule it breaks and the first place that does.

    Returns:
        The graph; its split, if it has one, in ascending order, so that the order in which a dataset
        names its nodes changes no number.
    """
    n = graph.num_nodes
    if n == 0:
        raise DataError(f"Dataset {name}: the graph has no nodes.", "Give it some.")
    if graph.x.dim() == 2 and graph.x.shape[0] != n:
        raise DataError(f"Dataset {name}: {len(graph.x)} rows of features for {n} nodes.", "Give one row per node.")
    if graph.x.dim() != 2 or graph.x.shape[1] == 0:
        raise DataError(
            f"Dataset {name}: features have shape {list(graph.x.shape)}, expected [{n}, at least 1].",
            "Give every node at least one feature (its degree, or a constant).",
        )
    if graph.y.shape != (n,):
        raise DataError(
            f"Dataset {name}: labels have shape {list(graph.y.shape)}, expected [{n}].",
            "Multi-label graphs cannot be used: every node has one class.",
        )
    finite = torch.isfinite(graph.x)
    if not bool(finite.all()):
        node, column = (int(value) for value in torch.nonzero(~finite)[0])
        raise DataError(
            f"Dataset {name}: feature of node {int(graph.ids[node])}, column {column}, is not finite.",
            "Features are finite numbers of 32 bits.",
        )
    if bool((graph.y >= graph.num_classes).any()):
        raise DataError(
            f"Dataset {name}: label {int(graph.y.max())} with {graph.num_classes} classes.", "Labels start at 0."
        )
    if graph.edge_index.dim() != 2 or graph.edge_index.shape[0] != 2:
        raise DataError(f"Dataset {name}: edges have shape {list(graph.edge_index.shape)}, expected [2, E].")
    outside = (graph.edge_index < 0) | (graph.edge_index >= n)
    if bool(outside.any()):
        column = int(torch.nonzero(outside)[0, 1])
        pair = graph.edge_index[:, column].tolist()
        raise DataError(f"Dataset {name}: edge {column} joins {pair[0]} and {pair[1]}, but there are {n} nodes.")
    known, counts = torch.unique(graph.ids, return_counts=True)
    if len(known) != n:
        twice = int(known[counts > 1][0])
        raise DataError(f"Dataset {name}: node ids occur twice, the first is {twice}.", "Give every node its own id.")
    check_weights(graph, name)
    if graph.split is None:
        return graph
    _check_split(graph, graph.split, name)
    parts = [ids.sort().values for ids in graph.split.parts().values()]
    return replace(graph, split=Split(*parts))


def _check_split(graph: Graph, own: Split, name: str) -> None:
    taken: dict[str, Tensor] = {}
    for part, ids in own.parts().items():
        if ids.dtype != torch.int64 or ids.dim() != 1:
            raise DataError(
                f"Dataset {name}: {part} nodes of its split are {ids.dtype} {list(ids.shape)}, expected int64 [m].",
                "A split names ids of nodes, not a mask.",
            )
        if len(ids) == 0 and part != "validation":
            raise DataError(f"Dataset {name}: its split has no {part} nodes.", "A split has training and test nodes.")
        strange = ids[~graph.contains(ids)]
        if len(strange):
            raise DataError(f"Dataset {name}: {part} node {int(strange[0])} of its split is not a node of the graph.")
        if len(torch.unique(ids)) != len(ids):
            raise DataError(f"Dataset {name}: a {part} node stands in its split twice.")
        unlabelled = ids[graph.y[graph.positions(ids)] < 0]
        if len(unlabelled):
            raise DataError(
                f"Dataset {name}: {len(unlabelled)} unlabelled {part} {'node' if len(unlabelled) == 1 else 'nodes'}"
                f" (first: {int(unlabelled[0])}).",
                "Take nodes without a label out of the masks.",
            )
        for other, others in taken.items():
            shared = ids[torch.isin(ids, others)]
            if len(shared):
                raise DataError(
                    f"Dataset {name}: node {int(shared[0])} is both a {other} and a {part} node.",
                    "A node is in one mask at most.",
                )
        taken[part] = ids
