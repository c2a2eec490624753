"""One weight per member, learned on the sample U of training nodes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import Field, model_validator
from torch import Tensor

from unlearnbench import Graph, LearnedAggregator, Members, Task, UsageError
from unlearnbench_grapheraser.pools import LOSSES, PoolName, normalised, pool, uniform

Normalise = Literal["never", "end", "step"]
Keep = Literal["last", "best"]

# Defaults of a pool; the fields' own defaults are those of log_linear.
POOL_DEFAULTS: Mapping[str, Mapping[str, Any]] = {
    "prob": {"normalise": "end"},
    "legacy": {"lr": 0.001, "norm_weight": 1.0, "normalise": "end", "keep": "best"},
}


class Weighted(LearnedAggregator):
    """GraphEraser's learned weights (LBAggr).

    Attributes:
        weight: float32 [S] once learned, as `combine` uses it; retired members have 0.
    """

    name = "weighted"
    summary = "One learned weight a member (GraphEraser's LBAggr)."
    reference = 'Chen et al., "Graph Unlearning", CCS 2022, learning-based aggregation'

    class Params(LearnedAggregator.Params):
        """Parameters of `weighted`."""

        pool: PoolName = Field(
            default="log_linear",
            description="What is learned and combined: log_linear (softmax of sum_i w_i log p_i), prob (the mixture"
            " sum_i w_i p_i) or legacy (the released code: softmax applied twice in the loss).",
        )
        lr: float = Field(default=0.01, gt=0, description="Adam's learning rate (0.001 with pool=legacy).")
        batch_size: int = Field(default=32, ge=1, description="Nodes of U in a step.")
        epochs: int = Field(default=50, ge=0, description="Passes over U.")
        out_of_fold: bool = Field(
            default=False,
            description="Whether a node's own member is left out while learning, the others' weights scaled up.",
        )
        norm_weight: float = Field(
            default=0.0, ge=0, description="Factor of the penalty ||w||_2, not squared (1 with pool=legacy)."
        )
        normalise: Normalise = Field(
            default="never",
            description="When weights are divided by their sum: never, end, step (after each step); end with"
            " pool=prob and pool=legacy.",
        )
        keep: Keep = Field(
            default="last",
            description="Which epoch's weights are used: last, or best (lowest summed loss; with pool=legacy).",
        )

        @model_validator(mode="before")
        @classmethod
        def _defaults_of_the_pool(cls, values: Any) -> Any:
            return {**POOL_DEFAULTS.get(values.get("pool", ""), {}), **values} if isinstance(values, dict) else values

        @model_validator(mode="after")
        def _mixtures_have_sum_one(self) -> Weighted.Params:
            if self.pool == "prob" and self.normalise == "never":
                raise ValueError("pool=prob needs weights of sum 1: normalise=end or normalise=step")
            return self

    params: Params

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        self.weight: Tensor | None = None

    def fit(self, task: Task, members: Members, graph: Graph) -> None:
        """Learn the weights from the members' outputs for U; see `Aggregator.fit`."""
        settings = self.params
        self.weight = learn_weights(
            members.log_probabilities().detach(),
            graph.y,
            members.voting,
            settings,
            task.generator("weighted"),
            self.member_mask(members),
        )

    def combine(self, members: Members) -> Tensor:
        """Pool the members; see `Aggregator.combine`."""
        if self.weight is None:
            raise UsageError("The aggregator weighted has learned no weights yet.", "Call fit before combine.")
        return pool(members.log_probabilities(), self.weight.to(members.logits.device), self.params.pool)

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights as `combine` uses them."""
        return {} if self.weight is None else {"weight": self.weight}


def learn_weights(
    log_probs: Tensor,
    labels: Tensor,
    voting: Tensor,
    settings: Weighted.Params,
    generator: torch.Generator,
    mask: Tensor | None = None,
) -> Tensor:
    """Learn one non-negative weight per member by Adam on shuffled batches.

    Weights start equal with sum 1; after each step negative weights are set to 0.

    Args:
        log_probs: float32 [S, m, C], the members' log-probabilities for U; read only.
        labels: int64 [m].
        voting: bool [S]; the other members have weight 0.
        settings: Parameters of the training.
        generator: Draws the order of U.
        mask: bool [m, number of voting members], the members to use for each node; None: all.

    Returns:
        float32 [S], on the device of `log_probs`; equal weights if all became 0.
    """
    device = log_probs.device
    # A step consists of a few products with a few thousand numbers: on a GPU launch overhead would dominate.
    inputs = log_probs[voting].permute(1, 2, 0).contiguous().cpu()
    labels = labels.cpu()
    mask = None if mask is None else mask.cpu().to(inputs.dtype)
    loss_and_gradient = LOSSES[settings.pool]
    all_voting = torch.ones(inputs.shape[2], dtype=torch.bool)
    weight = uniform(all_voting)
    optimiser = torch.optim.Adam([weight], lr=settings.lr, fused=True)
    best, lowest = weight.clone(), float("inf")
    for _ in range(settings.epochs):
        order = torch.randperm(len(labels), generator=generator)
        epoch_loss = torch.zeros(())
        batches = zip(inputs[order].split(settings.batch_size), labels[order].split(settings.batch_size), strict=True)
        masks = None if mask is None else mask[order].split(settings.batch_size)
        for number, (batch, target) in enumerate(batches):
            loss, gradient = loss_and_gradient(weight, batch, target, None if masks is None else masks[number])
            if settings.norm_weight > 0:
                norm = weight.norm()
                loss = loss + settings.norm_weight * norm
                gradient = gradient + settings.norm_weight * weight / norm.clamp(min=torch.finfo(norm.dtype).tiny)
            epoch_loss += loss
            weight.grad = gradient
            optimiser.step()
            weight.clamp_(min=0)
            if settings.normalise == "step":
                weight.copy_(normalised(weight, all_voting))
        if settings.keep == "best" and float(epoch_loss) < lowest:
            best, lowest = weight.clone(), float(epoch_loss)
    if settings.keep == "best":
        weight = best
    if settings.normalise != "never" or not bool(weight.any()):
        weight = normalised(weight, all_voting)
    result = torch.zeros(len(voting))
    result[voting.cpu()] = weight.detach()
    return result.to(device)
