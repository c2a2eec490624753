"""Aggregators that learn nothing: fixed votes of the members."""

from __future__ import annotations

import torch
from torch import Tensor

from unlearnbench import Aggregator, Members
from unlearnbench.unlearning import log_of_mean

SISA = "Bourtoule et al., Machine Unlearning, IEEE S&P 2021, section IV-E"


class Mean(Aggregator):
    """The mean of the voting members' probabilities."""

    name = "mean"
    version = 1
    summary = "Mean of the members' probabilities."
    reference = SISA

    def combine(self, members: Members) -> Tensor:
        """Average probabilities."""
        voting = members.log_probabilities()[members.voting]
        return log_of_mean(voting.exp().mean(dim=0))


class MeanLog(Aggregator):
    """The mean of log-probabilities, normalised: a geometric mean.

    The public code of GraphEraser calls it the mean.
    """

    name = "mean_log"
    version = 1
    summary = "Mean of the members' log-probabilities."
    reference = "Chen et al., Graph Unlearning, CCS 2022 (released code)"

    def combine(self, members: Members) -> Tensor:
        """Average log-probabilities."""
        return torch.log_softmax(members.log_probabilities()[members.voting].mean(dim=0), dim=1)


class Majority(Aggregator):
    """Each voting member has one vote; a class's probability is its share of the votes.

    Ties go to the lowest class, as in every argmax here.
    """

    name = "majority"
    version = 1
    summary = "One vote a member; ties go to the lowest class."
    reference = SISA

    def combine(self, members: Members) -> Tensor:
        """Count votes."""
        logits = members.logits[members.voting]
        votes = torch.nn.functional.one_hot(logits.argmax(dim=-1), logits.shape[-1])
        return log_of_mean(votes.to(logits.dtype).mean(dim=0))


class Proportional(Aggregator):
    """The mean of probabilities, each member weighted by the nodes it was trained on."""

    name = "proportional"
    version = 1
    summary = "Mean of probabilities, weighted by shard size."
    reference = SISA

    def combine(self, members: Members) -> Tensor:
        """Average probabilities by shard size."""
        weight = members.sizes.to(members.logits.dtype) / members.sizes.sum()
        return log_of_mean(torch.einsum("s,snc->nc", weight, members.log_probabilities().exp()))
