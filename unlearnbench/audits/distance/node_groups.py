"""Groups of nodes by their distance from the forgotten nodes."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.graph.neighbours import hop_distance

FORGOTTEN, REST, TEST = "forgotten", "rest", "test"
HOPS = 3


def make_groups(graph: Graph, forgotten: Tensor, test: Tensor) -> dict[str, Tensor]:
    """Group nodes: the forgotten, those of the training graph by their hops from them, the rest, the test nodes.

    Returns:
        Ids by the group's name, on the CPU; empty groups are left out.
    """
    distance = hop_distance(graph.edge_index, torch.isin(graph.ids, forgotten), HOPS)
    groups = {FORGOTTEN: forgotten}
    groups |= {f"hop {hop}": graph.ids[distance == hop] for hop in range(1, HOPS + 1)}
    groups |= {REST: graph.ids[distance > HOPS], TEST: test}
    return {name: ids.cpu() for name, ids in groups.items() if len(ids)}
