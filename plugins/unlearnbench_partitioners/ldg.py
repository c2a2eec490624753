"""Linear deterministic greedy: nodes arrive one by one and join most of their neighbours while there is room."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import ComponentParams, Partitioner, Task, seeds
from unlearnbench.unlearning import SLACK, neighbour_weights, neighbours, shard_bounds
from unlearnbench_partitioners.streaming import place


class Ldg(Partitioner):
    """The streaming partition of Stanton and Kliot.

    Nodes arrive in the order of a keyed hash of their ids. With edge weights the weight of the neighbours in a shard
    counts, not their number. A node's shard depends on its edges to
    earlier nodes: a partition kept after a request still depends on forgotten nodes.
    """

    name = "ldg"
    summary = "One pass over the nodes, each to the shard of most neighbours, full shards discounted."
    reference = 'Stanton and Kliot, "Streaming Graph Partitioning for Large Distributed Graphs", KDD 2012, section 3'
    uses_data = True

    class Params(ComponentParams):
        """Parameters of `ldg`."""

        slack: float = Field(
            default=SLACK,
            ge=0,
            lt=1,
            description="Tolerated imbalance: between (1 - slack) n/S and (1 + slack) n/S nodes in a shard.",
        )

    params: Params

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Place the training nodes one by one; see `Partitioner.partition`."""
        n = task.graph.num_nodes
        low, high = shard_bounds(n, num_shards, self.params.slack)
        order = torch.sort(seeds.keyed_hash(task.graph.ids, task.key("ldg")), stable=True).indices
        unplaced = torch.full((n,), -1, dtype=torch.int64)
        starts, adjacent = neighbours(task.graph)
        weights = neighbour_weights(task.graph)
        return place(order, starts, adjacent, unplaced, num_shards, low, high, weights).to(task.device)
