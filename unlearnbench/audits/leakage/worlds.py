"""Worlds with and without targets: which targets are present where, and the kept partitions.

Nodes are positions; shapes of `edges` and `shard` as in `features`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unlearnbench.audits.leakage.features import (
    FEATURES,
    HIT,
    Neighbourhoods,
    closest,
    content,
    context,
    less_matched,
    matched_nodes,
    neighbourhoods,
    of_shards,
    pairs_together,
    undirected,
)
from unlearnbench.graph import Graph

# Returns, for absent nodes (positions) and the number of a seed, the shard of each node; -1: absent.
Deal = Callable[[Tensor, int], Tensor]
# So many nodes around a target are compared pair by pair.
CLOSEST = 30


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


def groups(edges: Tensor, num_nodes: int, targets: Tensor) -> Tensor:
    """Group targets, int64 [T], greedily so that no two targets of a group are neighbours: int64 [T]."""
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

    Returns:
        bool [T, W], for `count` = W, even.
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
    """Draw targets uniformly from the nodes with two neighbours or more, and in which worlds they are present.

    Fewer targets than `wanted` if there are fewer such nodes. If not `together`, each has its own worlds.
    """
    pool = torch.nonzero(torch.bincount(edges[0], minlength=num_nodes) >= 2)[:, 0]
    targets = pool[torch.randperm(len(pool), generator=generator)[:wanted]]
    group = groups(edges, num_nodes, targets) if together else torch.arange(len(targets))
    fold = torch.arange(len(targets)) % folds
    return Worlds(targets, group, fold, count, draw_present(group, fold, count, generator))


@dataclass(frozen=True, eq=False)
class Seen:
    """What an attacker sees of all targets in all worlds.

    Args:
        features: float64 [T, W, d], in the order of `FEATURES`.
        together: bool [T, W, p]: which pairs of the nodes around a target are in one shard.
        hit: float64 [T, W, h], in the order of `HIT`, of the shard that lost a node in the request: the
            target's own where it was present, else that of another node of similar degree. Seen only by
            who holds the versions before and after the request.
    """

    features: Tensor
    together: Tensor
    hit: Tensor

    @classmethod
    def empty(cls, targets: int, worlds: int) -> Seen:
        """Return an object to fill."""
        features, hit = (torch.zeros(targets, worlds, len(names), dtype=torch.float64) for names in (FEATURES, HIT))
        return cls(features, torch.zeros(targets, worlds, CLOSEST * (CLOSEST - 1) // 2, dtype=torch.bool), hit)


def see(
    graph: Graph,
    worlds: Worlds,
    deal: Deal,
    num_shards: int,
    matched: int,
    strength: float,
    generator: torch.Generator,
) -> tuple[Seen, Seen]:
    """Partition all worlds and return what is seen of what is kept, which has no shard of any target.

    Args:
        graph: The training nodes, on the CPU.
        worlds: Which targets are present where.
        deal: Returns a partition; the number of the seed is that of the world.
        num_shards: S.
        matched: Number of nodes of similar degree that each target is compared with.
        strength: In the planted leak, all neighbours of this random share of the targets present in
            a world are moved into the shard of one of them.
        generator: The random generator, for matched nodes and the planted leak.

    Returns:
        What is seen, and the same with the planted leak.
    """
    n, edges = graph.num_nodes, undirected(graph.edge_index, graph.num_nodes)
    graph = replace(graph, x=torch.nn.functional.normalize(graph.x, dim=1))
    seen, planted = (Seen.empty(len(worlds.targets), worlds.count) for _ in range(2))
    for group in torch.unique(worlds.group).tolist():
        at = torch.nonzero(worlds.group == group)[:, 0]
        targets = worlds.targets[at]
        gone = torch.zeros(n, dtype=torch.bool)
        gone[targets] = True
        # Without edges to targets: lists hold only nodes of the kept partition.
        reach = edges[:, ~gone[edges[1]]]
        degree = torch.bincount(reach[0], minlength=n)
        own = neighbourhoods(reach, n, targets)
        choice = matched_nodes(degree, targets, ~gone, matched, generator)
        others, near = neighbourhoods(reach, n, choice.flatten()), closest(own, degree, CLOSEST)
        for world in range(worlds.count):
            here = worlds.present[at, world]
            shard = deal(targets[~here], group * worlds.count + world).clone()
            # One of like degree, another one in each world.
            hit = shard[torch.where(here, targets, choice[:, world % choice.shape[1]])]
            shard[targets] = -1
            marked = here & (torch.rand(len(at), generator=generator) < strength)
            for into, kept in ((seen, shard), (planted, gathered(shard, own.neighbours, marked))):
                into.features[at, world] = _features(graph, own, others, kept, num_shards)
                into.together[at, world] = pairs_together(near, kept)
                into.hit[at, world] = of_shards(own, hit, kept, graph.x, graph.y, graph.num_classes, num_shards)
    return seen, planted


def _features(graph: Graph, own: Neighbourhoods, others: Neighbourhoods, shard: Tensor, num_shards: int) -> Tensor:
    around = context(own, shard, num_shards)
    less = less_matched(around, context(others, shard, num_shards))
    held = content(own, shard, graph.x, graph.y, graph.num_classes, num_shards)
    return torch.cat([around, less, held], dim=1)


def gathered(shard: Tensor, neighbours: Tensor, marked: Tensor) -> Tensor:
    """Move all neighbours of marked nodes, bool [m], into the shard of the first of them.

    `neighbours` are (row, neighbour), int64 [2, a], sorted by row; every row has one. A neighbour of
    two marked nodes goes to the higher shard.
    """
    row, node = neighbours
    first = node[torch.searchsorted(row, torch.arange(len(marked)))]
    of_marked = marked[row]
    moved = torch.full_like(shard, -1).scatter_reduce(0, node[of_marked], shard[first[row[of_marked]]], "amax")
    return torch.where(moved >= 0, moved, shard)
