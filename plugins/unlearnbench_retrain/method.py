"""Training from scratch, before and after a request."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from torch import Tensor
from typing_extensions import override

from unlearnbench import Claim, Query, Request, Task, Unlearner, train_networks
from unlearnbench.gnn import blank_networks
from unlearnbench.unlearning import of_member


class Retrain(Unlearner):
    """One network on the whole training graph; forgetting is training again without the data."""

    name = "retrain"
    title = "Retrain"
    version = 1
    summary = "One network, trained from scratch each time."
    reference = "the reference of Zhang, Graph Unlearning with Efficient Partial Retraining, WWW 2024"
    claim = Claim.EXACT
    forgets = frozenset({"node", "edge", "feature"})
    settings = frozenset({"inductive", "transductive"})
    supports_edge_weight = True

    def fit(self, task: Task) -> None:
        """Train one network on all training nodes."""
        with task.phase("train"):
            self._train(task)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Train a new network on the retained nodes."""
        with retained.phase("retrain"):
            self._train(retained)

    def predict(self, query: Query) -> Tensor:
        """Predict over all retained nodes: the two views are the same for one network."""
        graph = query.context(self._ids)
        ((_, logits),) = self._network.predict([graph])
        return torch.log_softmax(logits[graph.positions(query.targets)], dim=1)

    def state(self) -> Mapping[str, Tensor]:
        """Return the network's parameters."""
        return {f"members/000/{name}": value for name, value in self._network.state(0).items()}

    @override
    def resume(
        self, task: Task, state: Mapping[str, Tensor], kept: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> None:
        self._ids = task.graph.ids.clone()
        self._network = blank_networks(task, 1)
        self._network.put(0, of_member(state, 0))

    def _train(self, task: Task) -> None:
        self._ids = task.graph.ids.clone()
        self._network = train_networks(task, [task.seen], [0])
