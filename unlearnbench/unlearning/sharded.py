"""`Sharded`: the base of methods that retrain the affected shards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import islice

import torch
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from unlearnbench.component import ComponentParams, Spec, part
from unlearnbench.errors import RefusedError
from unlearnbench.gnn import Networks, blank_networks, train_networks
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import Query, Task, View
from unlearnbench.task.task import ShardGroup
from unlearnbench.unlearning import group_training
from unlearnbench.unlearning.aggregation import Aggregator, Members, sample_of
from unlearnbench.unlearning.base import Claim, Unlearner, of_member
from unlearnbench.unlearning.group_training import describes_extra_state, of_shard, train_group
from unlearnbench.unlearning.member_outputs import MemberOutputs
from unlearnbench.unlearning.partitioning import Partitioner, checked_partition

# Members are evaluated a few at a time, so that the concatenated features of their graphs stay below
# `_MOST_FEATURES` numbers (1 GiB of float32) and the rows of a layer below `_MOST_ROWS`: 64 columns of them
# are 32 MiB, beyond which glibc returns every block to the system and each result costs page faults.
_MOST_FEATURES = 2**28
_MOST_ROWS = 2**17
# Nodes times members combined at once: bounds an aggregator's projections of all members.
_ROWS_AT_ONCE = 2**18


class Sharded(Unlearner):
    """Partition, train a member per shard, aggregate; to forget, retrain the affected members.

    The scheme of SISA (Bourtoule et al., Machine Unlearning, IEEE S&P 2021) on graphs: an edge
    between shards is in no member's training graph. A member whose shard becomes empty is retired:
    its parameters are erased and it never votes.
    """

    name = "sharded"
    version = 1
    summary = "Any partitioner with any aggregator: members of the shards that were hit are retrained."
    reference = "Bourtoule et al., Machine Unlearning, IEEE S&P 2021"
    named_by_parts = True
    forgets = frozenset({"node", "edge", "feature"})
    settings = frozenset({"inductive", "transductive"})
    supports_edge_weight = True

    class Params(ComponentParams):
        """Number of shards, partitioner and aggregator."""

        num_shards: int = Field(default=20, ge=1, description="How many shards, and so members.")
        partitioner: Spec = part("partitioner", "random", "Deals training nodes into shards.")
        aggregator: Spec = part("aggregator", "mean", "Combines the members' predictions.")

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        partitioner: Partitioner = params.partitioner.build()
        self._node_by_node, self._uses_data = partitioner.node_by_node, partitioner.uses_data
        self.aggregator: Aggregator = params.aggregator.build()
        self.num_shards: int = params.num_shards

    @property
    def claim(self) -> Claim:  # type: ignore[override]
        """`EXACT` only if each node's shard depends on its own id alone."""
        return Claim.EXACT if self._node_by_node else Claim.EXACT_GIVEN_PARTITION

    @property
    def claim_reason(self) -> str:  # type: ignore[override]
        """What a kept partition depends on: `ids` or `content`; empty if `EXACT`."""
        if self.claim is Claim.EXACT:
            return ""
        return "content" if self._uses_data else "ids"

    def fit(self, task: Task) -> None:
        """Partition (unless a partition is given), train every member, fit the aggregator."""
        with task.phase("partition"):
            self._shard = self._given(task) if "partition" in task.given else self._computed(task)
            self._ids = task.graph.ids.clone()
            self.prepare(task)
        with task.phase("train"):
            self._networks = blank_networks(task, self.num_shards)
            self._train(task, range(self.num_shards))
        with task.phase("aggregate"):
            self._fit_aggregator(task)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Retrain the members that saw part of the request; refit the aggregator."""
        with retained.phase("locate"):
            hit = self.locate(request, retained)
            retained.count(shards_hit=len(hit))
            retired = len(hit) - int(torch.isin(torch.tensor(hit), self._shard.unique().cpu()).sum())
            if retired:
                retained.count(shards_retired=retired)
        with retained.phase("retrain"):
            self._train(retained, hit)
        with retained.phase("aggregate"):
            self._fit_aggregator(retained)

    def prepare(self, task: Task) -> None:
        """Do what a subclass has to do between the partition and the training of its members: here nothing.

        `kept()` already holds the partition.
        """

    def locate(self, request: Request, retained: Task) -> list[int]:
        """Return the shards whose members saw part of the request, and release its nodes.

        A subclass that keeps more than members between requests extends this to release that too.
        """
        return self._locate_edges(request, retained) if request.kind == "edge" else self._locate_nodes(request)

    def train_members(self, task: Task, graphs: Sequence[Graph], shards: Sequence[int]) -> Networks:
        """Train the members of some shards; a subclass may do so differently.

        Args:
            task: The task, or the retained one.
            graphs: The subgraph of each shard, with at least one node.
            shards: Their numbers.

        Returns:
            The members, in this order. Each must depend on its own graph, its shard and the task's
            seed alone.
        """
        return train_networks(task, graphs, shards)

    def extra_state(self, shards: Sequence[int]) -> Mapping[str, Tensor]:
        """Return what else `train_members` reads from and writes to this object for some shards, by name.

        A subclass that overrides `train_members` must override this and `set_extra_state` too, if only
        to return nothing. Otherwise its members are neither stored while a large cell is trained nor
        trained on other machines.
        """
        return {}

    def set_extra_state(self, shards: Sequence[int], values: Mapping[str, Tensor], device: torch.device) -> None:
        """Replace what this object holds for some shards by what `extra_state` returned elsewhere.

        Args:
            shards: Their numbers.
            values: Tensors by name, on the CPU.
            device: The device of this method.
        """

    def _locate_nodes(self, request: Request) -> list[int]:
        """Return the shards that held a node of the request, and remove these nodes, unless only features go."""
        forgotten = request.nodes.to(self._ids.device)
        gone = torch.isin(self._ids, forgotten)
        if int(gone.sum()) != len(forgotten):
            raise RefusedError(f"{len(forgotten) - int(gone.sum())} nodes of the request are in no shard.")
        hit: list[int] = torch.unique(self._shard[gone]).tolist()
        if request.kind == "node":
            self._ids, self._shard = self._ids[~gone], self._shard[~gone]
        return hit

    def _locate_edges(self, request: Request, retained: Task) -> list[int]:
        """Return the shards that hold both ends of an edge: no member saw an edge between shards."""
        shards = self._shard_of(request.ids.to(self._ids.device))
        inside = shards[:, 0] == shards[:, 1]
        retained.count(edges_between_shards=int((~inside).sum()))
        hit: list[int] = torch.unique(shards[inside, 0]).tolist()
        return hit

    def predict(self, query: Query) -> Tensor:
        """Combine the outputs of all members, some nodes at a time."""
        with closing(self._collect_outputs(query)) as outputs:
            return torch.cat(
                [self.aggregator.combine(outputs.members(start, stop)) for start, stop in self._cuts(query)]
            )

    def members(self, query: Query) -> Members:
        """Return the outputs of all members for the targets of a query."""
        with closing(self._collect_outputs(query)) as outputs:
            return outputs.members(0, len(query.targets))

    def _cuts(self, query: Query) -> list[tuple[int, int]]:
        count, at_once = len(query.targets), max(1, _ROWS_AT_ONCE // self.num_shards)
        return [(start, min(start + at_once, count)) for start in range(0, count, at_once)]

    def _collect_outputs(self, query: Query) -> MemberOutputs:
        sizes = torch.bincount(self._shard, minlength=self.num_shards)
        voting = torch.nonzero(sizes)[:, 0].tolist()
        if not voting:
            raise RefusedError("Every shard is empty: there is no member left to ask.")
        outputs = MemberOutputs(self._shard_of(query.targets), sizes)
        if query.view is View.SHARD:
            self._add_outputs(query, voting, outputs)
        else:
            graph = query.context(self._ids)
            for member, embeddings_and_logits in enumerate(
                self._networks.each_shared(graph, graph.positions(query.targets))
            ):
                outputs.put(member, *embeddings_and_logits)
        return outputs

    def state(self) -> Mapping[str, Tensor]:
        """Return the parameters of every voting member and of the aggregator."""
        sizes = torch.bincount(self._shard, minlength=self.num_shards)
        state = {
            f"members/{shard:03d}/{name}": value
            for shard in torch.nonzero(sizes)[:, 0].tolist()
            for name, value in self._networks.state(shard).items()
        }
        return state | {f"aggregator/{name}": value for name, value in self.aggregator.state().items()}

    def kept(self) -> Mapping[str, Tensor]:
        """Return the partition of the retained nodes."""
        return {"partition": torch.stack([self._ids, self._shard], dim=1)}

    @override
    def memory(self) -> Mapping[str, Tensor]:
        return self.extra_state(range(self.num_shards))

    @override
    def resume(
        self, task: Task, state: Mapping[str, Tensor], kept: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> None:
        ids, shard = kept["partition"].to(task.device).unbind(dim=1)
        self._ids, self._shard = ids.clone(), shard.clone()
        self._networks = blank_networks(task, self.num_shards)
        for number in self._shard.unique().tolist():
            self._networks.put(number, of_member(state, number))
        self.set_extra_state(range(self.num_shards), memory, task.device)
        self._fit_aggregator(task)

    @override
    def can_resume(self) -> bool:
        return super().can_resume() and describes_extra_state(self)

    def _computed(self, task: Task) -> Tensor:
        # Built for this call alone, so that nothing a partitioner stores outlives the request.
        return checked_partition(self.params.partitioner.build(), task, self.num_shards)

    def _given(self, task: Task) -> Tensor:
        ids, shard = task.given["partition"].to(task.device).unbind(dim=1)
        at = task.graph.positions(ids)
        if len(torch.unique(at)) != task.graph.num_nodes:
            raise RefusedError("A given partition must name every training node once.")
        result = torch.empty_like(shard)
        result[at] = shard
        return result

    def _train(self, task: Task, shards: Sequence[int]) -> None:
        inhabited = set(torch.unique(self._shard).tolist())
        self._networks.erase([shard for shard in shards if shard not in inhabited])
        alive = [shard for shard in shards if shard in inhabited]
        groups = [
            ShardGroup(tuple(cut), tuple(self._ids[self._shard == shard] for shard in cut), self.extra_state(cut))
            for cut in self._groups(task, alive)
        ]
        use_checkpoints = describes_extra_state(self) and task.checkpoints.begin(task, groups)
        for group in groups:
            if use_checkpoints:
                self._load_or_train(task, group)
            else:
                graphs = self._subgraphs(task, group.shards)
                self._networks.replace(group.shards, self.train_members(task, graphs, group.shards))

    def _subgraphs(self, task: Task, shards: Sequence[int]) -> list[Graph]:
        return list(task.parts(self._ids, self._shard, shards))

    def _load_or_train(self, task: Task, group: ShardGroup) -> None:
        """Take a group's members from the task's checkpoints, or train and store them."""
        trained = task.checkpoints.find(task, group)
        if trained is None:
            trained = train_group(self, task, self._subgraphs(task, group.shards), group)
            task.checkpoints.keep(task, group, trained)
        else:
            task.count(**trained.counts)
            self.set_extra_state(group.shards, trained.extra_state, task.device)
        for shard in group.shards:
            self._networks.put(shard, of_shard(shard, trained.members))

    def _groups(self, task: Task, shards: Sequence[int]) -> list[list[int]]:
        """Split shards, in their order, into groups whose members are trained together."""
        others = task.seen.num_nodes - task.graph.num_nodes
        sizes = (torch.bincount(self._shard, minlength=self.num_shards) + others).tolist()
        most = group_training.MOST_TRAINED // group_training.numbers_a_row(task.seen, self._networks.state(0))
        return group_training.in_groups(shards, sizes, most, task.checkpoints.most)

    def _fit_aggregator(self, task: Task) -> None:
        # A new one, so that nothing learned from forgotten nodes remains.
        self.aggregator = self.params.aggregator.build()
        if self.aggregator.sample is not None:
            sample = sample_of(self.aggregator, task)
            members = self.members(task.query(sample, self.aggregator.view))
            self.aggregator.fit(task, members, task.graph.induced(sample))

    def _shard_of(self, targets: Tensor) -> Tensor:
        held = torch.isin(targets, self._ids)
        result = torch.full_like(targets, -1)
        sorted_ids, order = self._ids.sort()
        result[held] = self._shard[order[torch.searchsorted(sorted_ids, targets[held])]]
        return result

    def _add_outputs(self, query: Query, voting: Sequence[int], outputs: MemberOutputs) -> None:
        """Collect the outputs of members over their own shards, some members at a time."""
        shared = max(len(query.targets), query.graph.num_nodes - len(query.retained))
        rows = len(self._ids) // len(voting) + shared
        per_member = max(rows * query.graph.num_features, 1)
        at_once = max(1, min(_MOST_FEATURES // per_member, _MOST_ROWS // max(rows, 1)))
        contexts = query.contexts(self._ids, self._shard, voting)
        for start in range(0, len(voting), at_once):
            members = voting[start : start + at_once]
            graphs = list(islice(contexts, len(members)))
            for shard, graph, (embeddings, logits) in zip(
                members, graphs, self._networks.predict(graphs, members), strict=True
            ):
                at = graph.positions(query.targets)
                outputs.put(shard, embeddings[at], logits[at])
