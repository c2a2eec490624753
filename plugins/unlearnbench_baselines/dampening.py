"""Selective synaptic dampening: parameters that matter more to the request than to all nodes are made smaller."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, Paper, PostHoc, Request, Task, search
from unlearnbench.gnn import Networks
from unlearnbench.unlearning import importance


class Dampening(PostHoc):
    """Trains nothing: compares two importances of each parameter, and shrinks those that stand out."""

    name = "ssd"
    title = "SSD"
    version = 1
    summary = "Parameters that matter more to the request than to all nodes are made smaller."
    reference = (
        "Foster et al., Fast Machine Unlearning without Retraining through Selective Synaptic Dampening, AAAI 2024"
    )
    paper = Paper(
        "Foster, Jack and Schoepf, Stefan and Brintrup, Alexandra",
        "Fast Machine Unlearning without Retraining through Selective Synaptic Dampening",
        "AAAI Conference on Artificial Intelligence",
        2024,
        "https://arxiv.org/abs/2308.07707",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(ComponentParams):
        """Which parameters are dampened, how much, and how importance is estimated."""

        alpha: float = Field(
            default=10.0,
            ge=0,
            description="Dampened is what is so many times as important to the request.",
            json_schema_extra=search(1.0, 50.0, log=True),
        )
        lam: float = Field(
            default=1.0,
            ge=0,
            description="Dampens: less where it is larger; at most to no change.",
            json_schema_extra=search(0.1, 5.0, log=True),
        )
        batch_size: int = Field(default=64, ge=1, description="Nodes whose mean gradient is squared, at most.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Dampen in place."""
        graph, size = task.graph, self.params.batch_size
        to_forget = graph.positions(request.nodes)
        order = torch.randperm(graph.num_nodes, generator=retained.generator(self.name, "order")).to(task.device)
        ((_, logits),) = network.answers([graph])
        losses = functional.cross_entropy(logits, graph.y, reduction="none")
        parameters = network.parameters()
        batches = to_forget.tensor_split(-(-len(to_forget) // size))
        # The square of a mean falls with the number of nodes: both importances need batches of about one size. The
        # last batch may be smaller, and counts as much.
        all_batches = order.split(len(batches[0]))
        forget, everywhere = (importance(losses, each, parameters) for each in (batches, all_batches))
        dampened = 0
        with torch.no_grad():
            for parameter, ours, theirs in zip(parameters, forget, everywhere, strict=True):
                factors = dampening(ours, theirs, self.params.alpha, self.params.lam)
                dampened += int((factors < 1).sum())
                parameter *= factors
        backward = len(batches) + len(all_batches)
        retained.count(steps=backward, node_epochs=backward * graph.num_nodes, dampened=dampened)
        return network


def dampening(forget: Tensor, everywhere: Tensor, alpha: float, lam: float) -> Tensor:
    """Return the factor of each parameter: min(lam * everywhere / forget, 1) where forget > alpha * everywhere, else 1.

    Args:
        forget: Importance to the request.
        everywhere: Importance to all nodes, of the same shape.
        alpha: Threshold of the ratio.
        lam: Strength.
    """
    return torch.where(forget > alpha * everywhere, (lam * everywhere / forget).clamp(max=1), 1.0)
