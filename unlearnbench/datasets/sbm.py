"""A made graph of any size: the contextual stochastic block model."""

from __future__ import annotations

from pathlib import Path

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.component import ComponentParams
from unlearnbench.datasets.base import Dataset
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph


class StochasticBlockModel(Dataset):
    """Classes of equal size, edges that prefer the own class, features around a class mean.

    Every graph is a function of the parameters alone. Time and memory grow with the number of
    nodes and edges, never with the number of pairs.
    """

    name = "sbm"
    summary = "Made: contextual stochastic block model of any size."
    reference = "Deshpande, Sen, Montanari and Mossel, Contextual stochastic block models, NeurIPS 2018."
    license = "made, free of rights"
    source = "made from its parameters"

    class Params(ComponentParams):
        """Size and difficulty."""

        num_nodes: int = Field(1000, ge=2, description="Number of nodes.")
        num_edges: int = Field(5000, ge=0, description="Number of undirected edges.")
        num_features: int = Field(32, ge=1, description="Number of features of a node.")
        num_classes: int = Field(5, ge=1, description="Number of classes, of equal size within one node.")
        homophily: float = Field(0.8, ge=0, le=1, description="Share of edges that join nodes of one class.")
        signal: float = Field(1.0, ge=0, description="Distance of a class mean from 0, in deviations of the noise.")
        seed: int = Field(0, ge=0, description="Another seed, another graph of the same kind.")

    def load(self, root: Path) -> Graph:
        """Make the graph: see `Dataset.load`. Node ids are 0..n-1.

        Raises:
            UsageError: The parameters ask for more edges than such a graph holds.
        """
        p = self.params
        y = class_labels(p.num_nodes, p.num_classes, seeds.generator(p.seed, "sbm", "labels"))
        pairs = block_edges(y, p.num_edges, p.homophily, p.num_classes, seeds.generator(p.seed, "sbm", "edges"))
        rng = seeds.generator(p.seed, "sbm", "features")
        x = class_features(y, p.num_classes, p.num_features, p.signal, rng)
        edge_index = torch.cat([pairs, pairs.flip(0)], dim=1)
        return Graph(x, y, edge_index, torch.arange(p.num_nodes), p.num_classes)


def class_labels(num_nodes: int, num_classes: int, generator: torch.Generator) -> Tensor:
    """Deal the nodes into classes whose sizes differ by at most one: int64 [num_nodes].

    Raises:
        UsageError: There are fewer nodes than classes.
    """
    if num_nodes < num_classes:
        raise UsageError(f"sbm: num_nodes={num_nodes} is less than num_classes={num_classes}.", "Use fewer classes.")
    return (torch.arange(num_nodes) % num_classes)[torch.randperm(num_nodes, generator=generator)]


def class_features(y: Tensor, num_classes: int, num_features: int, signal: float, generator: torch.Generator) -> Tensor:
    """Draw the features of nodes with classes `y`, int64 [n]: float32 [n, num_features].

    Each is a class mean of length `signal` in a random direction, plus standard normal noise.
    """
    means = torch.nn.functional.normalize(torch.randn(num_classes, num_features, generator=generator))
    return torch.randn(len(y), num_features, generator=generator).add_(signal * means[y])


def block_edges(y: Tensor, num_edges: int, homophily: float, num_classes: int, generator: torch.Generator) -> Tensor:
    """Draw different undirected edges, none of which joins a node to itself.

    Args:
        y: int64 [n], classes.
        num_edges: How many.
        homophily: Share inside classes, rounded to whole edges.
        num_classes: Number of classes.
        generator: The random generator.

    Returns:
        int64 [2, num_edges], the smaller node first; those inside classes come first.

    Raises:
        UsageError: More than half of the pairs inside, or between, classes would be joined.
    """
    sizes = torch.bincount(y, minlength=num_classes)
    inside = round(homophily * num_edges)
    room_inside = int((sizes * (sizes - 1) // 2).sum())
    room_between = len(y) * (len(y) - 1) // 2 - room_inside
    wanted = (("inside", inside, room_inside), ("between", num_edges - inside, room_between))
    for where, count, room in wanted:
        # Drawing with rejection is only fast while most draws are new.
        if 2 * count > room:
            raise UsageError(
                f"sbm: {count} edges {where} classes, but only {room} pairs of nodes can be joined there.",
                "Ask for fewer edges or more nodes, at most half of the pairs, or change the homophily.",
            )
    chosen = [_distinct_pairs(y, sizes, count, where == "inside", generator) for where, count, _ in wanted]
    return torch.cat(chosen, dim=1)


def _distinct_pairs(y: Tensor, sizes: Tensor, count: int, same_class: bool, generator: torch.Generator) -> Tensor:
    num_nodes = len(y)
    by_class = torch.argsort(y, stable=True)
    first = torch.cumsum(sizes, 0) - sizes
    keys = torch.empty(0, dtype=torch.int64)
    while len(keys) < count:
        draws = count - len(keys) + 16
        source = torch.randint(num_nodes, (draws,), generator=generator)
        own = y[source]
        choices = sizes[own] if same_class else num_nodes - sizes[own]
        # Uniform to within 2^-53 times the number of choices.
        rank = (torch.rand(draws, generator=generator, dtype=torch.float64) * choices).to(torch.int64)
        # Nodes sorted by class: the own class is one run of places, the others are what is left of it.
        place = first[own] + rank if same_class else rank + (rank >= first[own]) * sizes[own]
        target = by_class[place]
        usable = source != target
        source, target = source[usable], target[usable]
        drawn = torch.minimum(source, target) * num_nodes + torch.maximum(source, target)
        keys = _in_order_of_arrival(torch.cat([keys, drawn]))
    keys = keys[:count]
    return torch.stack([keys // num_nodes, keys % num_nodes])


def _in_order_of_arrival(keys: Tensor) -> Tensor:
    # Cutting off a sorted list would prefer nodes with small numbers.
    ordered, order = torch.sort(keys, stable=True)
    first = torch.ones(len(keys), dtype=torch.bool)
    first[1:] = ordered[1:] != ordered[:-1]
    return keys[order[first].sort().values]
