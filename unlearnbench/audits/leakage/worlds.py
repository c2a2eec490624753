"""Worlds with and without targets: which targets are present where, and the kept partitions."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unlearnbench.audits.leakage.features import (
    FEATURES,
    content,
    context,
    less_matched,
    matched_nodes,
    neighbourhoods,
    undirected,
)
from unlearnbench.graph import Graph

# Returns, for absent nodes (positions) and the number of a seed, the shard of each node; -1: absent.
Deal = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, eq=False)
class Worlds:
    """Targets in groups that share worlds, and in folds.

    Args:
        targets: int64 [T], positions.
        group: int64 [T]; each group has its own worlds.
        fold: int64 [T].
        count: W, the number of worlds of each group, even.
        present: bool [T, W], in which worlds of its group a target is present when the partition is
            made: exactly one of the worlds 2 k and 2 k + 1.
    """

    targets: Tensor
    group: Tensor
    fold: Tensor
    count: int
    present: Tensor

    def world(self) -> Tensor:
        """Return the numbers of the worlds of all groups: int64 [T, W]."""
        return self.group[:, None] * self.count + torch.arange(self.count)

    def target(self) -> Tensor:
        """Return the numbers of the targets: int64 [T, W]."""
        return torch.arange(len(self.targets))[:, None].expand(-1, self.count)


def eligible(edges: Tensor, num_nodes: int) -> Tensor:
    """Return the nodes that can be targets, those with two neighbours or more: int64 [m]."""
    return torch.nonzero(torch.bincount(edges[0], minlength=num_nodes) >= 2)[:, 0]


def groups(edges: Tensor, num_nodes: int, targets: Tensor, together: bool) -> Tensor:
    """Group targets greedily so that no two targets of a group are neighbours.

    Args:
        edges: int64 [2, E], from `undirected`.
        num_nodes: n.
        targets: int64 [T], positions.
        together: False: every target is its own group.

    Returns:
        int64 [T].
    """
    if not together:
        return torch.arange(len(targets))
    number = torch.full((num_nodes,), -1, dtype=torch.int64)
    number[targets] = torch.arange(len(targets))
    pairs = number[edges][:, (number[edges] >= 0).all(dim=0)]
    near = torch.zeros(len(targets), len(targets), dtype=torch.bool)
    near[pairs[0], pairs[1]] = True
    group = torch.full((len(targets),), -1, dtype=torch.int64)
    for at in range(len(targets)):
        taken = set(group[near[at]].tolist())
        group[at] = next(one for one in range(len(targets)) if one not in taken)
    return group


def draw_present(group: Tensor, fold: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Draw which targets are present: half of each group and fold in world 2 k, the other half in 2 k + 1.

    Halves are drawn within folds, so that effects of one partition on all targets do not help a classifier.

    Args:
        group: int64 [T].
        fold: int64 [T].
        count: W, even.
        generator: The random generator.

    Returns:
        bool [T, W].
    """
    pairs = count // 2
    first = torch.zeros(len(group), pairs, dtype=torch.bool)
    for key in torch.unique(torch.stack([group, fold]), dim=1).t():
        members = torch.nonzero((group == key[0]) & (fold == key[1]))[:, 0]
        order = torch.rand(len(members), pairs, generator=generator).argsort(dim=0).argsort(dim=0)
        odd = torch.randint(2, (pairs,), generator=generator) if len(members) % 2 else 0
        first[members] = order < len(members) // 2 + odd
    return torch.stack([first, ~first], dim=2).view(len(group), count)


def draw_worlds(
    edges: Tensor, num_nodes: int, wanted: int, count: int, folds: int, together: bool, generator: torch.Generator
) -> Worlds:
    """Draw targets uniformly from the eligible nodes, and in which worlds they are present.

    Args:
        edges: int64 [2, E], from `undirected`.
        num_nodes: n.
        wanted: T, fewer if fewer nodes are eligible.
        count: W, even.
        folds: Number of folds of the cross-validation.
        together: Whether targets share worlds.
        generator: The random generator.
    """
    pool = eligible(edges, num_nodes)
    targets = pool[torch.randperm(len(pool), generator=generator)[:wanted]]
    group = groups(edges, num_nodes, targets, together)
    fold = torch.arange(len(targets)) % folds
    return Worlds(targets, group, fold, count, draw_present(group, fold, count, generator))


@dataclass(frozen=True, eq=False)
class Seen:
    """What the attacker observes in all worlds.

    Args:
        features: float64 [T, W, d], in the order of `FEATURES`.
        planted: float64 [T, W, d], the same with a planted leak.
    """

    features: Tensor
    planted: Tensor


def see(
    graph: Graph,
    worlds: Worlds,
    deal: Deal,
    num_shards: int,
    matched: int,
    strength: float,
    generator: torch.Generator,
) -> Seen:
    """Partition all worlds and return features of what is kept, which has no shard of any target.

    In the planted leak, all neighbours of a random share of the targets present in a world are
    moved into the shard of one of them.

    Args:
        graph: The training nodes, on the CPU.
        worlds: Which targets are present where.
        deal: Returns a partition; the number of the seed is that of the world.
        num_shards: S.
        matched: Number of nodes of similar degree that each target is compared with.
        strength: Share of the planted leak.
        generator: The random generator, for matched nodes and the planted leak.
    """
    edges = undirected(graph.edge_index, graph.num_nodes)
    graph = replace(graph, x=torch.nn.functional.normalize(graph.x, dim=1))
    shape = (len(worlds.targets), worlds.count, len(FEATURES))
    features, planted = (torch.zeros(shape, dtype=torch.float64) for _ in range(2))
    for group in torch.unique(worlds.group).tolist():
        at = torch.nonzero(worlds.group == group)[:, 0]
        targets = worlds.targets[at]
        look = _Look(graph, edges, targets, num_shards, matched, generator)
        for world in range(worlds.count):
            here = worlds.present[at, world]
            shard = deal(targets[~here], group * worlds.count + world).clone()
            shard[targets] = -1
            features[at, world] = look(shard)
            marked = here & (torch.rand(len(at), generator=generator) < strength)
            planted[at, world] = look(gathered(shard, look.own.neighbours, marked))
    return Seen(features, planted)


class _Look:
    """Computes features of kept partitions for the targets of one group."""

    def __init__(
        self,
        graph: Graph,
        edges: Tensor,
        targets: Tensor,
        num_shards: int,
        matched: int,
        generator: torch.Generator,
    ) -> None:
        self.graph, self.num_shards = graph, num_shards
        gone = torch.zeros(graph.num_nodes, dtype=torch.bool)
        gone[targets] = True
        # Without edges to targets: lists hold only nodes of the kept partition.
        reach = edges[:, ~gone[edges[1]]]
        degree = torch.bincount(reach[0], minlength=graph.num_nodes)
        self.own = neighbourhoods(reach, graph.num_nodes, targets)
        choice = matched_nodes(degree, targets, ~gone, matched, generator)
        self.others = neighbourhoods(reach, graph.num_nodes, choice.flatten())

    def __call__(self, shard: Tensor) -> Tensor:
        own = context(self.own, shard, self.num_shards)
        others = context(self.others, shard, self.num_shards)
        graph = self.graph
        held = content(self.own, shard, graph.x, graph.y, graph.num_classes, self.num_shards)
        return torch.cat([own, less_matched(own, others), held], dim=1)


def gathered(shard: Tensor, neighbours: Tensor, marked: Tensor) -> Tensor:
    """Move all neighbours of marked nodes into the shard of the first of them.

    Args:
        shard: int64 [n].
        neighbours: int64 [2, a], (row, neighbour), sorted by row; every row has one.
        marked: bool [m].

    Returns:
        int64 [n]; a neighbour of two marked nodes goes to the higher shard.
    """
    row, node = neighbours
    first = node[torch.searchsorted(row, torch.arange(len(marked)))]
    of_marked = marked[row]
    moved = torch.full_like(shard, -1).scatter_reduce(0, node[of_marked], shard[first[row[of_marked]]], "amax")
    return torch.where(moved >= 0, moved, shard)
