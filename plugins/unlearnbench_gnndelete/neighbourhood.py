"""Nodes near a deletion, and random pairs of non-adjacent nodes; no n x n matrices."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench import RefusedError

# A graph in which this many rounds do not draw enough non-adjacent pairs is almost complete.
ROUNDS = 100


def incident(edge_index: Tensor, gone: Tensor) -> Tensor:
    """Return which edges touch a node to be removed.

    Args:
        edge_index: int64 [2, E].
        gone: bool [n].

    Returns:
        bool [E].
    """
    return gone[edge_index].any(dim=0)


def endpoints(edge_index: Tensor, num_nodes: int) -> Tensor:
    """Return which nodes are ends of edges: bool [n]."""
    touched = torch.zeros(num_nodes, dtype=torch.bool, device=edge_index.device)
    touched[edge_index.flatten()] = True
    return touched


def non_edges(edge_index: Tensor, among: Tensor, num_nodes: int, count: int, generator: torch.Generator) -> Tensor:
    """Draw pairs of distinct nodes without an edge in either direction.

    Args:
        edge_index: int64 [2, E].
        among: int64 [m], the positions to draw from.
        num_nodes: n.
        count: Number of pairs; a pair may be drawn twice.
        generator: The random generator, on the CPU.

    Returns:
        int64 [2, count].

    Raises:
        RefusedError: There are too few such pairs.
    """
    source, target = edge_index
    edge_keys = torch.cat([source * num_nodes + target, target * num_nodes + source]).unique()
    pairs, missing = [among.new_empty(2, 0)], count
    for _ in range(ROUNDS):
        if missing <= 0 or len(among) < 2:
            break
        drawn = among[torch.randint(len(among), (2, 2 * missing), generator=generator).to(among.device)]
        fits = (drawn[0] != drawn[1]) & ~torch.isin(drawn[0] * num_nodes + drawn[1], edge_keys)
        pairs.append(drawn[:, fits])
        missing -= int(fits.sum())
    if missing > 0:
        raise RefusedError(
            f"gnndelete needs {count} pairs of retained nodes without an edge; the graph has too few of them.",
            "Its losses are about sparse graphs: use another method here.",
        )
    return torch.cat(pairs, dim=1)[:, :count]
