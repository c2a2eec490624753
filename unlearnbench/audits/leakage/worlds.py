"""Worlds with and without targets: who is absent where, and the partitions that are kept."""

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

# Gives, for absent nodes (positions) and the number of a seed, the shard of each node; -1: absent.
Deal = Callable[[Tensor, int], Tensor]


@dataclass(frozen=True, eq=False)
class Worlds:
    """Targets, dealt into groups that share worlds, and folds.

    Args:
        targets: int64 [T], positions.
        group: int64 [T]; the worlds of a group are its own.
        fold: int64 [T].
        count: W, how many worlds each group has, even.
        present: bool [T, W], in which worlds of its group a target is present when the partition is
            made: in exactly one of the worlds 2 k and 2 k + 1.
    """

    targets: Tensor
    group: Tensor
    fold: Tensor
    count: int
    present: Tensor

    def world(self) -> Tensor:
        """Number the worlds of all groups: int64 [T, W]."""
        return self.group[:, None] * self.count + torch.arange(self.count)

    def target(self) -> Tensor:
        """Number the targets: int64 [T, W]."""
        return torch.arange(len(self.targets))[:, None].expand(-1, self.count)


def eligible(edges: Tensor, num_nodes: int) -> Tensor:
    """Give the nodes that can be targets, those with two neighbours or more: int64 [m]."""
    return torch.nonzero(torch.bincount(edges[0], minlength=num_nodes) >= 2)[:, 0]


def groups(edges: Tensor, num_nodes: int, targets: Tensor, together: bool) -> Tensor:
    """Deal targets into groups no two of whose members are neighbours, each into the first that takes it.

    Args:
        edges: int64 [2, E], as `undirected` gives them.
        num_nodes: n.
        targets: int64 [T], positions.
        together: False: every target is a group of its own.

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
    """Draw who is present where: half of each group and fold in world 2 k, the other half in 2 k + 1.

    Halves within folds, so that what one partition does to all targets tells a classifier nothing.

    Args:
        group: int64 [T].
        fold: int64 [T].
        count: W, even.
        generator: Where chance comes from.

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
    """Draw targets, all eligible nodes with one chance, and who is present where.

    Args:
        edges: int64 [2, E], as `undirected` gives them.
        num_nodes: n.
        wanted: T, fewer if fewer nodes are eligible.
        count: W, even.
        folds: Of the cross-validation.
        together: Whether targets share worlds.
        generator: Where chance comes from.
    """
    pool = eligible(edges, num_nodes)
    targets = pool[torch.randperm(len(pool), generator=generator)[:wanted]]
    group = groups(edges, num_nodes, targets, together)
    fold = torch.arange(len(targets)) % folds
    return Worlds(targets, group, fold, count, draw_present(group, fold, count, generator))


@dataclass(frozen=True, eq=False)
class Seen:
    """What the attacker sees in all worlds.

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
    """Make the partitions of all worlds and describe what is kept of them: no shard of any target.

    The planted leak: of the targets present in a world, a share chosen by chance gets all its
    neighbours put into the shard of one of them.

    Args:
        graph: The training nodes, on the CPU.
        worlds: Who is present where.
        deal: Makes a partition; the number of the seed is that of the world.
        num_shards: S.
        matched: How many nodes of like degree each target is compared with.
        strength: Share of the planted leak.
        generator: Where chance comes from: matched nodes and the planted leak.
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
    """Describes kept partitions as seen from the targets of one group."""

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
        # No edge leads to a target: no list holds a node that is in no kept partition.
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
    """Put all neighbours of marked nodes into the shard of their first.

    Args:
        shard: int64 [n].
        neighbours: int64 [2, a], (row, neighbour), sorted by row; no row is without.
        marked: bool [m].

    Returns:
        int64 [n]; a neighbour of two marked nodes goes to the higher shard.
    """
    row, node = neighbours
    first = node[torch.searchsorted(row, torch.arange(len(marked)))]
    on = marked[row]
    moved = torch.full_like(shard, -1).scatter_reduce(0, node[on], shard[first[row[on]]], "amax")
    return torch.where(moved >= 0, moved, shard)
