"""Slow and plain versions of what the package computes on graphs, to compare with."""

from collections import deque

import torch

PATH = torch.tensor([[0, 1, 1, 2, 2, 3, 3, 4], [1, 0, 2, 1, 3, 2, 4, 3]])


def edges_by_id(graph):
    return sorted((int(graph.ids[a]), int(graph.ids[b])) for a, b in graph.edge_index.t())


def mask(*positions, size=5):
    return torch.isin(torch.arange(size), torch.tensor(positions))


def distances(edge_index, num_nodes, starts):
    """Hops from the nearest start, one node at a time."""
    neighbours = {node: set() for node in range(num_nodes)}
    for source, target in edge_index.t().tolist():
        neighbours[source].add(target)
        neighbours[target].add(source)
    found, waiting = dict.fromkeys(starts, 0), deque(starts)
    while waiting:
        node = waiting.popleft()
        for other in neighbours[node] - found.keys():
            found[other] = found[node] + 1
            waiting.append(other)
    return found


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def walk_all_pairs(cost, low, high):
    """The plain walk, in Python, one pair after the other."""
    n, num_shards = len(cost), len(cost[0])
    pairs = sorted((cost[v][s], v, s) for v in range(n) for s in range(num_shards))
    shard, sizes = [None] * n, [0] * num_shards
    for _, v, s in pairs:
        if shard[v] is not None or sizes[s] == high:
            continue
        left_after = sum(other is None for other in shard) - 1
        missing_after = sum(max(low - size - (k == s), 0) for k, size in enumerate(sizes))
        if left_after >= missing_after:
            shard[v] = s
            sizes[s] += 1
    return shard
