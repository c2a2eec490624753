"""Partitioners that look at ids alone."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench import Partitioner, Task, seeds


class Random(Partitioner):
    """Shuffle the nodes and cut the shuffle into shards whose sizes differ by at most one.

    Were a node missing beforehand, the shuffle would deal every later node anew: forgetting is
    exact given the partition, not exact.
    """

    name = "random"
    version = 1
    summary = "A shuffle cut into near-equal shards."
    reference = "Bourtoule et al., Machine Unlearning, IEEE S&P 2021, section IV"
    uses_data = False

    def partition(self, task: Task, num_shards: int) -> Tensor:
        """Deal the nodes out by chance."""
        n = task.graph.num_nodes
        order = torch.randperm(n, generator=task.generator("random-partition"))
        shard = torch.empty(n, dtype=torch.int64)
        for number, places in enumerate(torch.tensor_split(order, num_shards)):
            shard[places] = number
        return shard.to(task.device)


class Hash(Partitioner):
    """Give each node the shard that a keyed hash of its permanent id names.

    No node's shard depends on another node, so the partition of what is retained is that of a
    run that never saw the forgotten nodes. Sizes are binomial; a shard may be empty.
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
