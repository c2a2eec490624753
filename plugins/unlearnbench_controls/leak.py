"""Retraining that still sees a share of the request."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Claim, ComponentParams, PostHoc, Request, Task, rounded_half_up, seeds, train_networks
from unlearnbench.gnn import Networks


class RetrainLeak(PostHoc):
    """Trains from scratch on what is retained and a share of the nodes, or features of nodes, to be forgotten.

    Equals Retrain at k = 0 and the network before the request at k = 1: a measure of forgetting
    must become worse with k. With a later request, a share of that one leaks, and none of the
    former ones.
    """

    name = "retrain-leak"
    version = 1
    summary = "Control: Retrain that keeps a share of the request."
    reference = "Retrain of Zhang, Graph Unlearning with Efficient Partial Retraining, WWW 2024, with a leak put in"
    claim = Claim.NONE
    forgets = frozenset({"node", "feature"})
    settings = frozenset({"inductive", "transductive"})

    class Params(ComponentParams):
        """The share."""

        k: float = Field(default=0.5, ge=0, le=1, description="Share of the request it goes on training on.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Train a new network on the retained and the leaked nodes, or with their features."""
        kept = torch.isin(request.ends[:, 0], leaked(request.nodes, self.params.k, task))
        return train_networks(retained, [task.without(Request(request.ids[~kept], request.kind)).seen], [0])


def leaked(ids: Tensor, k: float, task: Task) -> Tensor:
    """Return the share k of a request, rounded half up; a smaller share is a subset of every larger one.

    Args:
        ids: int64 [t].
        k: In [0, 1].
        task: Its seed is the key of the choice.

    Returns:
        The ids with the smallest keyed hash of (seed, id).
    """
    order = seeds.keyed_hash(ids, task.key("retrain-leak")).argsort(stable=True).to(ids.device)
    return ids[order[: rounded_half_up(k, len(ids))]]
