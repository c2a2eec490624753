"""SISA, with slices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Graph, Paper, Request, Sharded, Spec, Task, part, train_networks
from unlearnbench.gnn import Networks
from unlearnbench_sisa.slices import hashed_slice_of, slice_epochs

Parameters = dict[str, Tensor]


class Sisa(Sharded):
    """Random shards, mean of probabilities, members trained slice by slice.

    Step r trains a member on the first r slices of its shard, starting from the result of step
    r - 1. To forget, a member goes back to the checkpoint before the first slice that held a part
    of the request, and repeats the later steps.
    """

    name = "sisa"
    title = "SISA"
    version = 1
    summary = "Random shards, mean of the members' probabilities."
    reference = "Bourtoule et al., Machine Unlearning, IEEE S&P 2021, section IV"
    paper = Paper(
        "Bourtoule, Lucas and Chandrasekaran, Varun and Choquette-Choo, Christopher A. and Jia, Hengrui "
        "and Travers, Adelin and Zhang, Baiwu and Lie, David and Papernot, Nicolas",
        "Machine Unlearning",
        "IEEE Symposium on Security and Privacy",
        2021,
        "https://arxiv.org/abs/1912.03817",
    )
    named_by_parts = False

    class Params(Sharded.Params):
        """Shards, partitioner, aggregator and slices."""

        partitioner: Spec = part("partitioner", "random", "Deals training nodes into shards.")
        aggregator: Spec = part("aggregator", "mean", "Combines the members' predictions.")
        slices: int = Field(default=1, ge=1, description="How many slices a shard is cut into; 1: none.")

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self.slices: int = params.slices
        # By shard and slice, from 0. The last step's parameters are the member itself.
        self._checkpoints: dict[int, dict[int, Parameters]] = {}

    def slices_of(self, ids: Tensor, task: Task) -> Tensor:
        """Return each node's slice, int64 in [0, slices), which must not depend on other nodes.

        Args:
            ids: int64, of any shape.
            task: The source of the key.
        """
        return hashed_slice_of(ids, task.key("slices"), self.slices)

    def fit(self, task: Task) -> None:
        """Train from scratch, without checkpoints of an earlier training."""
        self._checkpoints = {}
        super().fit(task)

    def locate(self, request: Request, retained: Task) -> list[int]:
        """Return the affected shards, and drop the checkpoints that saw part of the request."""
        held = self.kept()["partition"]
        hit = super().locate(request, retained)
        # A row is a node or the two ends of an edge, which is present from the later end's slice on.
        rows = request.ends.to(held.device)
        slices = self.slices_of(rows, retained).amax(dim=1)
        left = self.kept()["partition"]
        taken = 0
        for shard in hit:
            inside = torch.isin(rows, held[held[:, 1] == shard, 0]).all(dim=1)
            first = int(slices[inside].min())
            saved = self._checkpoints.pop(shard, {})
            unseen = {number: parameters for number, parameters in saved.items() if number < first}
            if unseen:
                self._checkpoints[shard] = unseen
            own = left[left[:, 1] == shard, 0]
            if len(own):
                taken += self.slices - max(first, int(self.slices_of(own, retained).min()))
        retained.count(slices_retrained=taken)
        return hit

    def train_members(self, task: Task, graphs: Sequence[Graph], shards: Sequence[int]) -> Networks:
        """Train members slice by slice, each from its last checkpoint, in lockstep at each step.

        A step over empty slices is skipped.
        """
        # Nodes without a label are forgotten by nobody: they are there from the first slice that trains.
        slices = [self.slices_of(graph.ids, task).masked_fill(graph.y < 0, -1) for graph in graphs]
        begin = [
            max(int(own[own >= 0].min()), 1 + max(self._checkpoints.get(shard, {}), default=-1))
            for own, shard in zip(slices, shards, strict=True)
        ]
        epochs = slice_epochs(task.training.epochs, self.slices)
        written = 0
        for number in range(min(begin), self.slices - 1):
            now = [place for place, first in enumerate(begin) if first <= number]
            names = [shards[place] for place in now]
            seen = [graphs[place].induced(graphs[place].ids[slices[place] <= number]) for place in now]
            networks = self._step(task, number, epochs[number], seen, names)
            for place, shard in enumerate(names):
                parameters = networks.state(place)
                self._checkpoints.setdefault(shard, {})[number] = parameters
                written += sum(value.numel() * value.element_size() for value in parameters.values())
        task.count(checkpoint_bytes=written)
        return self._step(task, self.slices - 1, epochs[-1], graphs, shards)

    def extra_state(self, shards: Sequence[int]) -> Mapping[str, Tensor]:
        """Return the checkpoints of some shards: `3/1/conv1.weight` of slice 1 of shard 3."""
        return {
            f"{shard}/{number}/{name}": value
            for shard in shards
            for number, parameters in self._checkpoints.get(shard, {}).items()
            for name, value in parameters.items()
        }

    def set_extra_state(self, shards: Sequence[int], values: Mapping[str, Tensor], device: torch.device) -> None:
        """Replace the checkpoints of some shards."""
        for shard in shards:
            self._checkpoints.pop(shard, None)
        for path, value in values.items():
            place, number, name = path.split("/", 2)
            self._checkpoints.setdefault(int(place), {}).setdefault(int(number), {})[name] = value.to(device)

    def _step(self, task: Task, number: int, epochs: int, graphs: Sequence[Graph], shards: Sequence[int]) -> Networks:
        saved = {shard: self._checkpoints.get(shard, {}) for shard in shards}
        start = {shard: known[number - 1] for shard, known in saved.items() if number - 1 in known}
        of_step = replace(task, training=replace(task.training, epochs=epochs))
        return train_networks(of_step, graphs, shards, start=start, step=number)
