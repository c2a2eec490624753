"""Attention over the members' embeddings, learned on U: the aggregation of RecEraser."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor
from torch.nn.functional import cross_entropy

from unlearnbench import Graph, LearnedAggregator, Members, Task
from unlearnbench_aggregators.network import AttentionNetwork


class Attention(LearnedAggregator):
    """RecEraser's attention, with a cross-entropy in place of its ranking loss.

    Retired members are ignored.
    """

    name = "attention"
    version = 1
    summary = "Attention over linearly mapped member embeddings (RecEraser's aggregation)."
    reference = 'Chen et al., "Recommendation Unlearning" (RecEraser), WWW 2022, attention-based adaptive aggregation'

    class Params(LearnedAggregator.Params):
        """Parameters of `attention`."""

        lr: float = Field(0.05, gt=0, description="Learning rate of Adagrad.")
        dropout: float = Field(0.3, ge=0, lt=1, description="Share of the fused embedding dropped while learning.")
        penalty: float = Field(1e-5, ge=0, description="Factor of half the sum of squares of the members' maps.")
        batch_size: int = Field(256, ge=1, description="Nodes of U in a step.")
        epochs: int = Field(50, ge=0, description="Passes over U.")

    params: Params

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        self._network: AttentionNetwork | None = None

    def fit(self, task: Task, members: Members, graph: Graph) -> None:
        """Learn from U, from scratch; see `Aggregator.fit`."""
        settings = self.params
        embeddings = members.embeddings[members.voting].detach()
        mask = self.member_mask(members)
        num_members, num_nodes, size = embeddings.shape
        device = embeddings.device
        network = AttentionNetwork(num_members, size, graph.num_classes, task.generator("attention", "weights"))
        network = network.to(device)
        optimiser = torch.optim.Adagrad(network.parameters(), lr=settings.lr, initial_accumulator_value=1e-8)
        order = task.generator("attention", "batches")
        noise = task.generator("attention", "dropout")
        for _ in task.epochs(settings.epochs):
            shuffled = torch.randperm(num_nodes, generator=order).to(device)
            for batch in shuffled.split(settings.batch_size):
                optimiser.zero_grad()
                fused, _ = network.fuse(embeddings.index_select(1, batch), None if mask is None else mask[batch])
                logits = network.classify(dropped(fused, settings.dropout, noise))
                loss = cross_entropy(logits, graph.y[batch]) + settings.penalty * network.penalty()
                loss.backward()
                optimiser.step()
        self._network = network.requires_grad_(False)
        self.fitted(members)

    def combine(self, members: Members) -> Tensor:
        """Return log-probabilities [n, C].

        Raises:
            RefusedError: Not fitted, or fitted on other members than those that vote now.
        """
        voting = self.check_fitted(members)
        assert self._network is not None
        fused, _ = self._network.fuse(members.embeddings[voting])
        return torch.log_softmax(self._network.classify(fused), dim=1)

    def state(self) -> Mapping[str, Tensor]:
        """Return the learned parameters; those of a member are at its rank among the voting members."""
        return {} if self._network is None else self._network.named()


def dropped(values: Tensor, share: float, generator: torch.Generator) -> Tensor:
    """Set a share of all entries to zero and scale the others up to preserve the mean.

    Args:
        values: float32, any shape.
        share: In [0, 1).
        generator: A CPU generator; nothing is drawn if `share` is 0.
    """
    if share == 0:
        return values
    kept = torch.rand(values.shape, generator=generator) >= share
    return values * kept.to(values.device) / (1 - share)
