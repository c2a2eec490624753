"""GUIDE: guided shards, repaired cut edges, members weighted by similarity."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from unlearnbench import Graph, Paper, Request, Sharded, Spec, Task, part, train_networks
from unlearnbench.gnn import Networks
from unlearnbench_guide.repair import Repair, cut_edges, repaired


class Guide(Sharded):
    """GUIDE (Wang, Huai and Wang, USENIX Security 2023) for nodes, edges and features.

    A member is trained on its shard with new nodes in place of neighbours in other shards. How many there are depends
    on the other shards, so a request also retrains the members whose nodes lose such a neighbour: what is deployed is
    then exact given the partition.
    """

    name = "guide"
    title = "GUIDE"
    version = 1
    summary = "Retrains the shards hit: fair spectral shards, repaired cut edges, weights by similarity."
    reference = "Wang, Huai and Wang, Inductive Graph Unlearning, USENIX Security 2023"
    paper = Paper(
        "Wang, Cheng-Long and Huai, Mengdi and Wang, Di",
        "Inductive Graph Unlearning",
        "USENIX Security Symposium",
        2023,
        "https://arxiv.org/abs/2304.03093",
    )
    named_by_parts = False
    settings = frozenset({"inductive"})
    supports_edge_weight = False

    class Params(Sharded.Params):
        """Parameters of `guide`."""

        partitioner: Spec = part("partitioner", "guided", "Deals training nodes into shards.")
        aggregator: Spec = part("aggregator", "similarity", "Combines the members' predictions.")
        repair: Repair = Field(
            default="mirror",
            description="Features of the nodes that stand for neighbours in other shards: zero, mirror (the node's own)"
            " or mixup (with those of a neighbour in the shard); none: there are no such nodes.",
        )

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.repair: Repair = params.repair
        # Of each shard, how many neighbours its nodes have in others, in the order of its subgraph.
        self._missing: dict[int, Tensor] = {}

    @override
    def prepare(self, task: Task) -> None:
        self._missing = self._counted(task.graph)

    @override
    def locate(self, request: Request, retained: Task) -> list[int]:
        """Return the affected shards, and those with a node that lost a neighbour in another one."""
        former, counts = self.kept()["partition"], self._missing
        hit = super().locate(request, retained)
        self._missing = self._counted(retained.graph)
        kept = torch.isin(former[:, 0], retained.graph.ids.to(former.device))
        changed = [
            shard
            for shard, missing in self._missing.items()
            if not torch.equal(counts[shard][kept[former[:, 1] == shard]], missing)
        ]
        retained.count(shards_repaired=len(set(changed) - set(hit)))
        return sorted({*hit, *changed})

    @override
    def train_members(self, task: Task, graphs: Sequence[Graph], shards: Sequence[int]) -> Networks:
        if self.repair == "none":
            return train_networks(task, graphs, shards)
        whole = [
            repaired(graph, self._missing[shard], self.repair, task.generator("repair", shard))
            for graph, shard in zip(graphs, shards, strict=True)
        ]
        return train_networks(task, whole, shards)

    @override
    def extra_state(self, shards: Sequence[int]) -> Mapping[str, Tensor]:
        return {f"{shard}/missing": self._missing[shard] for shard in shards if shard in self._missing}

    @override
    def set_extra_state(self, shards: Sequence[int], values: Mapping[str, Tensor], device: torch.device) -> None:
        for shard in shards:
            self._missing.pop(shard, None)
        self._missing |= {int(name.partition("/")[0]): value.to(device) for name, value in values.items()}

    def _counted(self, graph: Graph) -> dict[int, Tensor]:
        if self.repair == "none":
            return {}
        ids, shard = self.kept()["partition"].unbind(dim=1)
        return cut_edges(graph, ids, shard)
