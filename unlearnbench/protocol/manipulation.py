"""Manipulated training data: labels swapped between two classes, or spurious edges between their nodes.

The protocol of corrective unlearning (Kolipaka et al., A Cognac Shot To Forget Bad Memories, ICML 2025): a model was
trained with them, a part of them is known, and the effect of all of them is to go.
"""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.graph.edge_keys import pair_keys
from unlearnbench.protocol.requests import Request

Classes = tuple[int, int]


def affected_classes(graph: Graph, train: Tensor) -> Classes:
    """Return the two classes with the most training nodes, of equal ones the lower, in ascending order.

    Raises:
        UsageError: There is only one class among the training nodes.
    """
    sizes = torch.bincount(graph.y[graph.positions(train)], minlength=graph.num_classes)
    if int((sizes > 0).sum()) < 2:
        raise UsageError(
            "Labels and edges are manipulated between two classes; the training nodes are of one.",
            "Use a graph of two classes or more.",
        )
    first, second = sizes.sort(descending=True, stable=True).indices[:2].sort().values.tolist()
    return first, second


def swap_labels(graph: Graph, train: Tensor, nodes: int, generator: torch.Generator) -> tuple[Graph, Tensor, Classes]:
    """Give training nodes of each of two classes the label of the other.

    Args:
        graph: The graph; it is not changed.
        train: int64 [m], ids of the training nodes.
        nodes: How many, half of them of each class; an odd one is of the lower class.
        generator: The random generator.

    Returns:
        The graph with these labels, the ids of the nodes that have them, int64 [nodes], ascending, and the classes.

    Raises:
        UsageError: A class has fewer training nodes, or there is only one.
    """
    classes = affected_classes(graph, train)
    y, chosen = graph.y.clone(), []
    for own, other, count in zip(classes, classes[::-1], (nodes - nodes // 2, nodes // 2), strict=True):
        members = train[graph.y[graph.positions(train)] == own]
        if count > len(members):
            raise UsageError(
                f"`set` poison.nodes={nodes}: {count} labels of class {own} are to be swapped, but it has"
                f" {len(members)} training nodes.",
                "Use a smaller poison.nodes.",
            )
        picked = members[torch.randperm(len(members), generator=generator)[:count]]
        y[graph.positions(picked)] = other
        chosen.append(picked)
    return graph.with_labels(y), torch.cat(chosen).sort().values, classes


def add_edges(graph: Graph, train: Tensor, edges: int, generator: torch.Generator) -> tuple[Graph, Tensor, Classes]:
    """Join random training nodes of two classes that no edge joins.

    Args:
        graph: The graph; it is not changed. Where edges have weights, each new one has that of a random edge.
        train: int64 [m], ids of the training nodes.
        edges: How many undirected edges, all different.
        generator: The random generator.

    Returns:
        The graph with these edges after its own, the edges, int64 [edges, 2], ids, lower first, ascending, and the
        classes.

    Raises:
        UsageError: There are fewer pairs of nodes that could be joined, or only one class.
    """
    classes = affected_classes(graph, train)
    at = graph.positions(train)
    left, right = (at[graph.y[at] == one] for one in classes)
    n = graph.num_nodes
    source, target = graph.edge_index
    linked = pair_keys(torch.minimum(source, target), torch.maximum(source, target), n).unique()
    between = linked[torch.isin(linked // n, left) & torch.isin(linked % n, right)]
    reverse = linked[torch.isin(linked // n, right) & torch.isin(linked % n, left)]
    free = len(left) * len(right) - len(between) - len(reverse)
    if edges > free:
        raise UsageError(
            f"`set` poison.edges={edges}: only {free} pairs of training nodes of classes {classes[0]} and {classes[1]}"
            " are not joined.",
            "Use a smaller poison.edges.",
        )
    found = linked[:0]
    while len(found) < edges:
        ends = [part[torch.randint(len(part), (edges,), generator=generator)] for part in (left, right)]
        keys = pair_keys(torch.minimum(*ends), torch.maximum(*ends), n).unique()
        new = keys[~torch.isin(keys, torch.cat([linked, found]))]
        # Sorted keys would prefer low positions where more are found than are wanted.
        found = torch.cat([found, new[torch.randperm(len(new), generator=generator)]])[:edges]
    pairs = torch.stack([found // n, found % n], dim=1)
    weight = graph.edge_weight
    if weight is not None:
        known = weight if len(weight) else weight.new_ones(1)
        drawn = known[torch.randint(len(known), (edges,), generator=generator)]
        weight = torch.cat([weight, drawn, drawn])
    joined = graph.with_edges(torch.cat([graph.edge_index, pairs.T, pairs.T.flip(0)], dim=1), weight)
    return joined, graph.ids[pairs].sort(dim=1).values.unique(dim=0), classes


def known_part(wrong: Request, number: int, generator: torch.Generator) -> Request:
    """Draw the part of what is wrong that is known: a larger one from the same generator holds a smaller one."""
    places = torch.randperm(len(wrong.ids), generator=generator)[:number].sort().values
    return Request(wrong.ids[places], wrong.kind)
