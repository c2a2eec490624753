"""Groups of nodes by their distance from the forgotten nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench.graph import Graph

FORGOTTEN, REST, TEST = "forgotten", "rest", "test"
HOPS = 3


def hops(graph: Graph, ids: Tensor, most: int = HOPS) -> Tensor:
    """Count the edges from each node to the nearest of those with `ids`, whichever way the edges point.

    Returns:
        int64 [n]; `most` + 1 for nodes that are farther away.
    """
    found = torch.full((graph.num_nodes,), most + 1, dtype=torch.int64, device=graph.ids.device)
    found[graph.positions(ids)] = 0
    source, target = torch.cat([graph.edge_index, graph.edge_index.flip(0)], dim=1)
    for hop in range(1, most + 1):
        reached = target[found[source] == hop - 1]
        found[reached] = found[reached].clamp(max=hop)
    return found


def make_groups(graph: Graph, forgotten: Tensor, test: Tensor) -> dict[str, Tensor]:
    """Group nodes: the forgotten, those of the training graph by their hops from them, the rest, the test nodes.

    Returns:
        Ids by the group's name, on the CPU; empty groups are left out.
    """
    distance = hops(graph, forgotten)
    groups = {FORGOTTEN: forgotten}
    groups |= {f"hop {hop}": graph.ids[distance == hop] for hop in range(1, HOPS + 1)}
    groups |= {REST: graph.ids[distance > HOPS], TEST: test}
    return {name: ids.cpu() for name, ids in groups.items() if len(ids)}
