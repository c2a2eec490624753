"""What deletion operators are trained towards: which rows change, and the embeddings that they are compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor

from unlearnbench import Graph, Request, Task
from unlearnbench.gnn import Networks
from unlearnbench.unlearning import hop_distance
from unlearnbench_gnndelete.losses import side_by_side
from unlearnbench_gnndelete.neighbourhood import endpoints, incident, non_edges
from unlearnbench_gnndelete.operators import Operator, changes

Messages = Literal["enclosing", "retained"]


@dataclass(frozen=True, eq=False)
class Targets:
    """What does not change while operators are trained; positions are those in `stage`.

    Args:
        stage: The graph that messages pass over.
        deleted: int64 [2, e], positions of the ends of deleted edges.
        near: By layer, ids of the nodes whose rows its operator changes.
        affected: By layer, their positions, int64 [a].
        others: By layer, positions of those that are not ends of a deleted edge, int64 [b].
        originals: By layer, embeddings before the request and without the deleted edges, [stage nodes, width].
        random_pairs: By layer, such embeddings of e pairs of unconnected nodes, side by side, [e, 2 width].
    """

    stage: Graph
    deleted: Tensor
    near: Mapping[str, Tensor]
    affected: Mapping[str, Tensor]
    others: Mapping[str, Tensor]
    originals: Mapping[str, Tensor]
    random_pairs: Mapping[str, Tensor]


def targets(
    network: Networks, earlier: Sequence[Operator], task: Task, request: Request, retained: Task, messages: Messages
) -> Targets | None:
    """Compute what operators are trained towards; None if no edge is deleted.

    Args:
        network: A stack of one network.
        earlier: The operators of earlier requests, part of the network before this one.
        task: With the request.
        request: What to forget.
        retained: The task without it; the source of seeds.
        messages: What messages pass over.
    """
    graph, layers = task.graph, list(network.convolutions())
    gone = torch.isin(graph.ids, request.removed)
    touches = graph.copies(request.ids) if request.kind == "edge" else incident(graph.edge_index, gone)
    deleted = graph.edge_index[:, touches]
    if deleted.shape[1] == 0:
        return None
    ends = endpoints(deleted, graph.num_nodes)
    stage = unlinked = graph.only_edges(~touches)
    pairs = non_edges(
        graph.edge_index,
        torch.nonzero(~gone).flatten(),
        graph.num_nodes,
        deleted.shape[1],
        retained.generator("gnndelete", "pairs"),
    )
    before: dict[str, Tensor] = {}
    with torch.no_grad():
        network.answers([unlinked], changes=changes(layers, earlier, unlinked, seen=before))
    distance = hop_distance(graph.edge_index, ends, len(layers))
    if messages == "enclosing":
        stage = graph.induced(graph.ids[distance <= len(layers)])
    at = graph.positions(stage.ids)
    places = torch.full_like(graph.ids, -1)
    places[at] = torch.arange(len(at), device=at.device)
    near = {layer: distance <= hops for hops, layer in enumerate(layers, start=1)}
    return Targets(
        stage,
        places[deleted],
        near={layer: graph.ids[rows] for layer, rows in near.items()},
        affected={layer: places[torch.nonzero(rows).flatten()] for layer, rows in near.items()},
        others={layer: places[torch.nonzero(rows & ~ends).flatten()] for layer, rows in near.items()},
        originals={layer: before[layer][at] for layer in layers},
        random_pairs={layer: side_by_side(before[layer], pairs) for layer in layers},
    )
