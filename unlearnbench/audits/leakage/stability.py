"""How partitions change with the seed and with the removal of nodes, and what their sizes reveal."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from sklearn.metrics import adjusted_rand_score
from torch import Tensor

from unlearnbench.audits.leakage.features import together_rates, undirected
from unlearnbench.audits.leakage.worlds import Deal
from unlearnbench.graph import Graph

# Partitions without the request vary little: this many are enough.
MOST_WITHOUT_REQUEST = 10


@dataclass(frozen=True, eq=False)
class Stability:
    """Comparisons of partitions.

    Args:
        same_seed_moves: float64 [R], by target: 1 minus the adjusted Rand index, over the other nodes,
            of the partitions with and without it under one seed; 0: the same partition.
        rand_index: By comparison, float64 [k] each: adjusted Rand indices.
        together: float64 [R, 2], from `together_rates`.
        spread: float64 [2 q], the largest shard minus the smallest: q kept partitions after a request,
            then q new ones of the retained nodes.
        sizes: Smallest and largest shard of both, and the number of nodes of the request.
    """

    same_seed_moves: Tensor
    rand_index: Mapping[str, Tensor]
    together: Tensor
    spread: Tensor
    sizes: Mapping[str, Any]


def stability(
    graph: Graph, targets: Tensor, request: Tensor, deal: Deal, num_shards: int, generator: torch.Generator
) -> Stability:
    """Compare partitions with and without nodes under equal seeds.

    Args:
        graph: The training nodes, on the CPU.
        targets: int64 [R], positions; each gets its own seed.
        request: int64 [t], positions of the nodes forgotten all at once.
        deal: Returns a partition.
        num_shards: S.
        generator: The random generator, for pairs of non-neighbours.
    """
    edges = undirected(graph.edge_index, graph.num_nodes)
    none = torch.empty(0, dtype=torch.int64)
    full = [deal(none, number) for number in range(len(targets))]
    one = torch.tensor(
        [rand_index(full[number], deal(targets[number : number + 1], number)) for number in range(len(targets))],
        dtype=torch.float64,
    )
    fresh = [deal(request, number) for number in range(min(len(targets), MOST_WITHOUT_REQUEST))]
    kept = [shard.clone() for shard in full[: len(fresh)]]
    for shard in kept:
        shard[request] = -1
    pairs = [rand_index(full[at], full[at + 1]) for at in range(0, len(full) - 1, 2)]
    many = [rand_index(before, after) for before, after in zip(kept, fresh, strict=True)]
    sizes = [torch.bincount(shard[shard >= 0], minlength=num_shards) for shard in (*kept, *fresh)]
    both = {"kept": sizes[: len(kept)], "fresh": sizes[len(kept) :]}
    return Stability(
        1 - one,
        {
            **({"two seeds": torch.tensor(pairs, dtype=torch.float64)} if pairs else {}),
            "same seed, one node less": one,
            f"same seed, {len(request)} nodes less": torch.tensor(many, dtype=torch.float64),
        },
        torch.stack([together_rates(edges, graph.num_nodes, shard, generator) for shard in full]),
        torch.stack([(size.max() - size.min()).double() for size in sizes]),
        {
            "forgotten": len(request),
            **{name: [min(int(s.min()) for s in them), max(int(s.max()) for s in them)] for name, them in both.items()},
        },
    )


def rand_index(first: Tensor, second: Tensor) -> float:
    """Return the adjusted Rand index (Hubert and Arabie, 1985) over the nodes that both partitions, int64 [n], hold."""
    both = (first >= 0) & (second >= 0)
    return float(adjusted_rand_score(first[both].numpy(), second[both].numpy()))
