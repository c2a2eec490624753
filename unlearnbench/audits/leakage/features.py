"""Features of a node's neighbourhood in a kept partition, invariant to renaming shards.

Nodes are positions. `num_nodes` is n, `num_shards` is S; `edges`, from `undirected`, are int64 [2, E];
`shard`, the shard of each node, is int64 [n], -1 for a node in none.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench.graph.neighbours import both_directions, row_entries, row_starts

AROUND = ("pairs", "largest", "ring pairs", "ring largest", "between", "cut")
CONTENT = ("entropy", "own label", "likeness")
HIT = ("neighbours", "ring", *CONTENT[1:])
FEATURES = (*AROUND, *(f"{name}, less matched" for name in AROUND), *CONTENT)


@dataclass(frozen=True, eq=False)
class Neighbourhoods:
    """Neighbourhoods of some nodes; lists hold the node's row first, then positions.

    Args:
        nodes: int64 [m].
        neighbours: int64 [2, a], (row, neighbour).
        ring: int64 [2, b], (row, node at distance two).
        edges: int64 [3, c], (row, neighbour, other end): the edges that leave neighbours, except
            those back to the node; one between two neighbours is listed twice.
    """

    nodes: Tensor
    neighbours: Tensor
    ring: Tensor
    edges: Tensor


def undirected(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return every edge once in both directions, sorted by source, without self-loops: int64 [2, E]."""
    keys = both_directions(edge_index, num_nodes)
    return torch.stack([keys // num_nodes, keys % num_nodes])


def neighbourhoods(edges: Tensor, num_nodes: int, nodes: Tensor) -> Neighbourhoods:
    """Return the neighbourhoods of nodes, int64 [m]; an edge is followed in its direction only."""
    starts = row_starts(torch.bincount(edges[0], minlength=num_nodes))
    row, neighbour = _expand(starts, edges[1], nodes)
    at, end = _expand(starts, edges[1], neighbour)
    row_of_edge, through = row[at], neighbour[at]
    away = end != nodes[row_of_edge]
    row_of_edge, through, end = row_of_edge[away], through[away], end[away]
    second = torch.unique(row_of_edge * num_nodes + end)
    second = second[~torch.isin(second, row * num_nodes + neighbour)]
    ring = torch.stack([second // num_nodes, second % num_nodes])
    return Neighbourhoods(nodes, torch.stack([row, neighbour]), ring, torch.stack([row_of_edge, through, end]))


def _expand(starts: Tensor, target: Tensor, nodes: Tensor) -> tuple[Tensor, Tensor]:
    """Return for every edge of some nodes the index in `nodes` of its source, and its target."""
    entries, new_starts = row_entries(starts, nodes)
    return torch.repeat_interleave(torch.arange(len(nodes)), new_starts.diff()), target[entries]


def context(where: Neighbourhoods, shard: Tensor, num_shards: int) -> Tensor:
    """Return features of how the neighbourhoods of nodes are partitioned; the nodes' own shards are not used.

    `pairs`: the share of pairs of neighbours in the same shard. `largest`: the largest share of
    neighbours in one shard. The same two for the nodes at distance two. `between`: the share of
    pairs of a neighbour and a node at distance two in the same shard. `cut`: the share of the
    neighbours' other edges that join two shards. Where there is no pair or edge, 0.

    Returns:
        float64 [m, 6], in the order of `AROUND`.
    """
    m = len(where.nodes)
    near = _counts(where.neighbours, shard, m, num_shards)
    far = _counts(where.ring, shard, m, num_shards)
    row, a, b = where.edges
    cut = torch.zeros(m, dtype=torch.float64).index_add_(0, row, (shard[a] != shard[b]).double())
    between = _share((near * far).sum(dim=1), near.sum(dim=1) * far.sum(dim=1))
    return torch.stack(
        [*_togetherness(near), *_togetherness(far), between, _share(cut, torch.bincount(row, minlength=m))], dim=1
    )


def content(where: Neighbourhoods, shard: Tensor, x: Tensor, y: Tensor, num_classes: int, num_shards: int) -> Tensor:
    """Return features of the shards of the neighbours of nodes, each weighted by its number of neighbours.

    `entropy`: of the labels in such a shard, in nats. `own label`: the share of the node's own label
    there. `likeness`: the mean cosine similarity of the node's features and those of the shard's nodes;
    the rows of `x`, float32 [n, F], must have length one or zero.

    Returns:
        float64 [m, 3], in the order of `CONTENT`.
    """
    entropy, own_label, likeness = _profile(where, shard, x, y, num_classes, num_shards)
    weight = _counts(where.neighbours, shard, len(where.nodes), num_shards)
    weight = _share(weight, weight.sum(dim=1, keepdim=True))
    return torch.stack([weight @ entropy, (weight * own_label).sum(dim=1), (weight * likeness).sum(dim=1)], dim=1)


def _profile(
    where: Neighbourhoods, shard: Tensor, x: Tensor, y: Tensor, num_classes: int, num_shards: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the values of `content` for every shard: float64 [S], [m, S] and [m, S]."""
    held = shard >= 0
    size = torch.bincount(shard[held], minlength=num_shards).double()
    labels = torch.bincount(shard[held] * num_classes + y[held], minlength=num_shards * num_classes)
    share = _share(labels.view(num_shards, num_classes).double(), size[:, None])
    total = torch.zeros(num_shards, x.shape[1], dtype=x.dtype).index_add_(0, shard[held], x[held])
    likeness = x[where.nodes].double() @ _share(total.double(), size[:, None]).t()
    return -torch.special.xlogy(share, share).sum(dim=1), share.t()[y[where.nodes]], likeness


def of_shards(
    where: Neighbourhoods, hit: Tensor, shard: Tensor, x: Tensor, y: Tensor, num_classes: int, num_shards: int
) -> Tensor:
    """Return features of one shard for each node, int64 [m]; further arguments as for `content`.

    The share of the neighbours that are in the shard, the same for the nodes at distance two, and `own label` and
    `likeness` of the shard.

    Returns:
        float64 [m, 4], in the order of `HIT`.
    """
    m = len(where.nodes)
    near, far = (_counts(places, shard, m, num_shards) for places in (where.neighbours, where.ring))
    _, *profile = _profile(where, shard, x, y, num_classes, num_shards)
    shares = (_share(count, count.sum(dim=1, keepdim=True)) for count in (near, far))
    return torch.stack([values[torch.arange(m), hit] for values in (*shares, *profile)], dim=1)


def closest(where: Neighbourhoods, degree: Tensor, count: int) -> Tensor:
    """Return the nodes nearest to each node: neighbours, then those at distance two, low degrees first.

    Returns:
        int64 [m, `count`], -1 where there are no more.
    """
    nodes = torch.full((len(where.nodes), count), -1, dtype=torch.int64)
    for row in range(len(nodes)):
        near, far = (places[1, places[0] == row] for places in (where.neighbours, where.ring))
        chosen = torch.cat([one[degree[one].argsort(stable=True)] for one in (near, far)])[:count]
        nodes[row, : len(chosen)] = chosen
    return nodes


def pairs_together(nodes: Tensor, shard: Tensor) -> Tensor:
    """Return which pairs of each row of nodes, int64 [m, k], are in one shard; none with a -1.

    Returns:
        bool [m, k (k - 1) / 2].
    """
    of = torch.where(nodes >= 0, shard[nodes], -1)
    first, second = torch.triu_indices(nodes.shape[1], nodes.shape[1], 1)
    return (of[:, first] == of[:, second]) & (of[:, first] >= 0)


def less_matched(own: Tensor, others: Tensor) -> Tensor:
    """Subtract from each node's values, float64 [m, d], the mean of those of its matched nodes.

    `others` are float64 [m * k, d], k matched nodes for each node in turn; k may be 0.
    """
    k = len(others) // len(own) if len(own) else 0
    return own - others.view(len(own), k, own.shape[1]).mean(dim=1) if k else own


def matched_nodes(degree: Tensor, targets: Tensor, allowed: Tensor, count: int, generator: torch.Generator) -> Tensor:
    """Choose for each target the allowed nodes, bool [n], with the nearest degrees; ties are broken at random.

    Returns:
        int64 [m, min(count, allowed nodes)].
    """
    pool = torch.nonzero(allowed)[:, 0]
    chosen = []
    for target in targets.tolist():
        pool = pool[torch.randperm(len(pool), generator=generator)]
        nearest = torch.sort((degree[pool] - degree[target]).abs(), stable=True).indices
        chosen.append(pool[nearest[:count]])
    return torch.stack(chosen)


def together_rates(edges: Tensor, num_nodes: int, shard: Tensor, generator: torch.Generator) -> Tensor:
    """Return how often two neighbours share a shard, and how often two comparable non-neighbours do.

    For the latter one end of each edge is exchanged for a random node of the same degree; pairs that
    are an edge nevertheless, or a node with itself, are left out.

    Returns:
        float64 [2]: for neighbours and for others; nan where there is no pair.
    """
    source, target = edges
    degree = torch.bincount(source, minlength=num_nodes)
    order = torch.sort(degree, stable=True).indices
    count = torch.bincount(degree)
    start = count.cumsum(dim=0) - count
    uniform = torch.rand(len(target), generator=generator, dtype=torch.float64)
    other = order[start[degree[target]] + (uniform * count[degree[target]]).long()]
    strangers = (other != source) & ~torch.isin(source * num_nodes + other, source * num_nodes + target)
    near = (shard[source] == shard[target]).double().mean()
    far = (shard[source] == shard[other])[strangers].double().mean()
    return torch.stack([near, far])


def _counts(places: Tensor, shard: Tensor, rows: int, num_shards: int) -> Tensor:
    row, node = places
    flat = torch.bincount(row * num_shards + shard[node], minlength=rows * num_shards)
    return flat.view(rows, num_shards).double()


def _togetherness(counts: Tensor) -> tuple[Tensor, Tensor]:
    total = counts.sum(dim=1)
    pairs = _share((counts * (counts - 1)).sum(dim=1), total * (total - 1))
    return pairs, _share(counts.max(dim=1).values, total)


def _share(part: Tensor, total: Tensor) -> Tensor:
    return torch.where(total > 0, part / total.clamp(min=1), 0.0)
