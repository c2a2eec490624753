"""Partitioners that use ids alone."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench import Partitioner, Task, seeds


class Random(Partitioner):
    """Shuffles the nodes and splits them into shards whose sizes differ by at most one.

    If a node had been missing, the shuffle would assign other nodes differently: forgetting is
    exact given the partition, but not exact. Edges and their weights are not looked at.
    """

    name = "random"
    version = 1
    summary = "A shuffle cut into near-equal shards."
    reference = "Bourtoule et al., Machine Unlearning, IEEE S&P 2021, section IV"
    uses_data = False

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Assign the nodes at random."""
        n = task.graph.num_nodes
        order = torch.randperm(n, generator=task.generator("random-partition"))
        shard = torch.empty(n, dtype=torch.int64)
        for number, places in enumerate(torch.tensor_split(order, num_shards)):
            shard[places] = number
        return shard.to(task.device)


class Hash(Partitioner):
    """Assigns each node to a shard by a keyed hash of its permanent id.

    No node's shard depends on another node, so that the partition of the retained nodes is that of
    a run that never saw the forgotten nodes. Sizes are binomial; a shard may be empty. Edges and their weights are
    not looked at.
    """

    name = "hash"
    version = 1
    summary = "A keyed hash of each node's id; sizes vary."
    reference = "ours: the data-independent control"
    uses_data = False
    node_by_node = True
    may_be_empty = True

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Hash each id."""
        return (seeds.keyed_hash(task.graph.ids, task.key("hash-partition")) % num_shards).to(task.device)
