"""Cognac: three steps in turn, away from the request, up its loss and down that of what is retained."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, PostHoc, Request, Task, search
from unlearnbench.gnn import Networks, Noise
from unlearnbench_cognac.contrast import Pairs, affected, contrast

Losses = list[tuple[float, float, float]]


class Cognac(PostHoc):
    """Repairs the embeddings of affected nodes, then unlearns labels, each step with an optimiser of its own."""

    name = "cognac"
    version = 1
    summary = "Pushes neighbours away from the request; up its loss, down that of the rest."
    reference = (
        "Kolipaka et al., A Cognac Shot To Forget Bad Memories: Corrective Unlearning for Graph Neural Networks,"
        " ICML 2025"
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(ComponentParams):
        """Steps, their learning rates, and which nodes are affected."""

        epochs: int = Field(
            default=20, ge=1, description="Rounds of one step of each kind.", json_schema_extra=search(5, 60, log=True)
        )
        contrast_lr: float = Field(
            default=0.0003,
            ge=0,
            description="Learning rate of the contrastive steps; 0: none.",
            json_schema_extra=search(0.0001, 0.003, log=True),
        )
        ascent_lr: float = Field(
            default=0.0003,
            ge=0,
            description="Learning rate up the loss of the request; 0: none.",
            json_schema_extra=search(0.0001, 0.003, log=True),
        )
        descent_lr: float = Field(
            default=0.001,
            ge=0,
            description="Learning rate down the loss of the rest; 0: none.",
            json_schema_extra=search(0.0003, 0.01, log=True),
        )
        distil: float = Field(default=1.0, ge=0, description="Weight of the divergence from the trained network.")
        hops: int = Field(default=2, ge=1, description="How far from the request affected nodes are looked for.")
        share: float = Field(default=0.05, gt=0, le=1, description="Share of the nodes there that counts as affected.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Take the steps in place."""
        unlearn(network, task, request, retained, self.params)
        return network


def unlearn(network: Networks, task: Task, request: Request, retained: Task, params: Cognac.Params) -> Losses:
    """Change a network's parameters in place.

    Args:
        network: A stack of one network.
        task: With the request.
        request: What to forget.
        retained: The task without it; the source of seeds.
        params: Parameters of the steps.

    Returns:
        For each round the contrastive loss, the cross-entropy of the request and the loss of what is retained,
        each before its step; 0 for one that is not taken.
    """
    former, graph = task.graph, retained.graph
    forget = torch.isin(former.ids, request.nodes)
    nodes = affected(network, former, forget, params.hops, params.share)
    pairs = Pairs(former, forget, nodes)
    teacher = torch.log_softmax(network.predict([graph])[0][1], dim=1)

    noises = [Noise([retained.key("cognac", what)], task.device) for what in ("contrast", "ascent", "descent")]
    pushing, climbing, keeping = (
        network.answering([one], noise) for one, noise in zip((former, former, graph), noises, strict=True)
    )
    rng, labels = retained.generator("cognac", "pairs"), former.y[forget]

    def push() -> Tensor:
        return contrast(pushing()[0][0], pairs.draw(rng))

    def climb() -> Tensor:
        return -functional.cross_entropy(climbing()[0][1][forget], labels)

    def keep() -> Tensor:
        logits: Tensor = keeping()[0][1]
        apart = functional.kl_div(torch.log_softmax(logits, dim=1), teacher, reduction="batchmean", log_target=True)
        return functional.cross_entropy(logits, graph.y) + params.distil * apart

    # Without affected nodes there is nothing to push.
    rates = (params.contrast_lr if len(nodes) else 0.0, params.ascent_lr, params.descent_lr)
    optimisers = [torch.optim.Adam(network.parameters(), lr=rate) if rate else None for rate in rates]
    losses = Losses()
    for epoch in retained.epochs(params.epochs):
        values = [0.0, 0.0, 0.0]
        for place, (optimiser, loss) in enumerate(zip(optimisers, (push, climb, keep), strict=True)):
            if optimiser is None:
                continue
            noises[place].step = epoch
            value = loss()
            optimiser.zero_grad()
            value.backward()
            optimiser.step()
            values[place] = float(value.detach())
        losses.append((values[0], -values[1], values[2]))
    # The last gradient may depend on the request.
    for parameter in network.parameters():
        parameter.grad = None
    taken = [optimiser is not None for optimiser in optimisers]
    passes = sum(taken[:2]) * former.num_nodes + taken[2] * graph.num_nodes
    retained.count(
        steps=params.epochs * sum(taken), node_epochs=params.epochs * passes + 2 * former.num_nodes, affected=len(nodes)
    )
    return losses
