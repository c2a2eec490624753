"""Aggregators combine the outputs of a sharded method's members into one prediction."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench.component import Component, ComponentParams
from unlearnbench.errors import RefusedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.seeds import keyed_hash
from unlearnbench.task import Task, View


@dataclass(frozen=True, eq=False)
class Members:
    """Outputs of S members for n nodes; read-only.

    Args:
        embeddings: float32 [S, n, d], outputs of the last message-passing layer.
        logits: float32 [S, n, C].
        shard: int64 [n], the node's own shard, -1 for a node in none.
        sizes: int64 [S], nodes each member was trained on; 0: retired, never votes.
    """

    embeddings: Tensor
    logits: Tensor
    shard: Tensor
    sizes: Tensor

    @property
    def voting(self) -> Tensor:
        """Which members vote: bool [S]."""
        return self.sizes > 0

    def log_probabilities(self) -> Tensor:
        """Return the members' log-probabilities: [S, n, C]."""
        return torch.log_softmax(self.logits, dim=-1)

    def chunk(self, start: int, stop: int) -> Members:
        """Return the outputs for nodes `start` to `stop`."""
        return Members(self.embeddings[:, start:stop], self.logits[:, start:stop], self.shard[start:stop], self.sizes)


class Aggregator(Component, ABC):
    """Combines members; some learn how from a sample U of the training nodes.

    Attributes:
        sample: How many training nodes it learns from: a count if at least 1, else a share;
            None: nothing to learn, `fit` is not called.
        view: The graph over which the members predict U: `TARGETS` (as in the paper: the
            subgraph induced by U) or `SHARD`.
    """

    kind = "aggregator"
    sample: float | None = None
    view: View = View.TARGETS

    def fit(self, task: Task, members: Members, graph: Graph) -> None:
        """Learn from U, from scratch; nothing may remain of an earlier fit.

        Args:
            task: Its `generator` is the source of random numbers.
            members: The members' outputs for U.
            graph: The subgraph induced by U, with labels, in the order of `members`.
        """

    @abstractmethod
    def combine(self, members: Members) -> Tensor:
        """Return log-probabilities [n, C]; each row depends on its own node alone."""

    def state(self) -> Mapping[str, Tensor]:
        """Return the learned parameters by name."""
        return {}


class LearnedAggregator(Aggregator):
    """Base of aggregators that learn from U; a subclass derives its `Params` from `LearnedAggregator.Params`."""

    class Params(ComponentParams):
        """Parameters of every aggregator that learns."""

        sample: float = Field(
            1000, gt=0, description="Size of U: a number of training nodes if at least 1, else a share."
        )
        view: Literal["targets", "shard"] = Field(
            "targets", description="Graph on which members predict U: that of U alone, or of their shard and U."
        )
        out_of_fold: bool = Field(False, description="Whether a node's own member is left out while learning.")

    params: Params

    def __init__(self, params: Any = None) -> None:
        """Take the size of U and the view from the parameters."""
        super().__init__(params)
        self.sample = self.params.sample
        self.view = View(self.params.view)
        self._voting: Tensor | None = None

    def member_mask(self, members: Members) -> Tensor | None:
        """Return which members may be used for each node of U: bool [n, voting members]; None: all."""
        return out_of_fold(members) if self.params.out_of_fold else None

    def fitted(self, members: Members) -> None:
        """Remember which members vote, at the end of `fit`."""
        self._voting = members.voting.clone()

    def check_fitted(self, members: Members) -> Tensor:
        """Return which members vote: bool [S], the same as in `fit`.

        Raises:
            RefusedError: Not fitted, or fitted on other members than those that vote now.
        """
        if self._voting is None or not torch.equal(self._voting, members.voting):
            raise RefusedError(
                f"Aggregator {self.name} was asked to combine members it was not fitted on.",
                "Fit it again whenever members change.",
            )
        return self._voting


def sample_of(aggregator: Aggregator, task: Task) -> Tensor:
    """Draw U: the training nodes with the smallest keyed hash of their id.

    After a request U is filled up again and equals the U of a run that never saw the forgotten nodes.

    Returns:
        int64 [m], ids, ascending.
    """
    ids = task.graph.ids
    wanted = aggregator.sample or 0
    count = int(wanted) if wanted >= 1 else round(wanted * len(ids))
    hashed = keyed_hash(ids, task.key("sample")).to(ids.device)
    order = torch.sort(hashed, stable=True).indices
    return ids[order[: max(1, min(count, len(ids)))]].sort().values


def out_of_fold(members: Members) -> Tensor:
    """Return for each node which voting members were not trained on it.

    The member of a node's own shard has seen its label and is more confident about it than about
    any node that it predicts later.

    Args:
        members: The members' outputs for U.

    Returns:
        bool [n, number of voting members], the members in their order; no row is empty.

    Raises:
        UsageError: The only voting member was trained on some node.
    """
    voting = torch.nonzero(members.voting)[:, 0]
    member_mask = members.shard[:, None] != voting
    if not bool(member_mask.any(dim=1).all()):
        raise UsageError(
            "Nothing can be learned with out_of_fold=true: only one member votes, and it was trained on them.",
            "Use at least two shards, or out_of_fold=false.",
        )
    return member_mask


def log_of_mean(probabilities: Tensor) -> Tensor:
    """Return the logarithm of probabilities, with zeros replaced so that it is finite."""
    return probabilities.clamp(min=torch.finfo(probabilities.dtype).tiny).log()
