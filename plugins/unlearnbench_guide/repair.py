"""Repair of cut edges: nodes that stand for the neighbours which a node has in other shards."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from unlearnbench import Graph
from unlearnbench.unlearning import neighbours

Repair = Literal["none", "zero", "mirror", "mixup"]


def cut_edges(graph: Graph, ids: Tensor, shard: Tensor) -> dict[int, Tensor]:
    """Count the neighbours of each node that are in other shards.

    Args:
        graph: The training nodes; an edge of either direction counts once.
        ids: int64 [n], all nodes of the graph.
        shard: int64 [n], the shard of each.

    Returns:
        Of each shard the counts, int64, in the order of `ids`.
    """
    at = graph.positions(ids)
    shard_at = torch.empty_like(shard)
    shard_at[at] = shard
    starts, adjacent = neighbours(graph)
    rows = torch.repeat_interleave(torch.arange(graph.num_nodes, device=adjacent.device), starts.diff())
    cut = torch.bincount(rows[shard_at[rows] != shard_at[adjacent]], minlength=graph.num_nodes)[at]
    return {number: cut[shard == number] for number in shard.unique().tolist()}


def repaired(graph: Graph, missing: Tensor, repair: Repair, generator: torch.Generator) -> Graph:
    """Join each node of a shard to as many new nodes as it has neighbours in other shards.

    Only features of the shard itself enter: of none of the neighbours, which are in other shards.

    Args:
        graph: The subgraph of a shard, without weights of edges.
        missing: int64 [n], how many neighbours of each are elsewhere.
        repair: The features of a new node. `none`: there are none; `zero`: zeros; `mirror`: those of the node it is
            joined to; `mixup`: a random mixture of these with those of a random neighbour within the shard, if any.
        generator: The source of mixtures, on the CPU.

    Returns:
        The subgraph, and after its nodes the new ones, with the label -1.
    """
    count = int(missing.sum())
    if repair == "none" or not count:
        return graph
    device = graph.ids.device
    anchor = torch.repeat_interleave(torch.arange(graph.num_nodes, device=device), missing.to(device))
    x = graph.x[anchor]
    if repair == "zero":
        x = torch.zeros_like(x)
    elif repair == "mixup":
        starts, adjacent = neighbours(graph)
        first = starts[anchor]
        degree = starts[anchor + 1] - first
        drawn = torch.rand((2, count), generator=generator).to(device)
        has = degree > 0
        other = anchor.clone()
        other[has] = adjacent[(first + (drawn[0] * degree).long())[has]]
        x = torch.lerp(x, graph.x[other], drawn[1][:, None])
    place = torch.arange(count, device=device)
    new = place + graph.num_nodes
    # Below every id of the shard, so that no node of another shard, or a forgotten one, is mistaken for a new one.
    ids = graph.ids.min().clamp(max=0) - 1 - place
    links = torch.stack([torch.cat([new, anchor]), torch.cat([anchor, new])])
    return Graph(
        torch.cat([graph.x, x]),
        torch.cat([graph.y, torch.full_like(ids, -1)]),
        torch.cat([graph.edge_index, links], dim=1),
        torch.cat([graph.ids, ids]),
        graph.num_classes,
    )
