"""Gradient ascent: a few steps that increase the loss of the request, and nothing else."""

from __future__ import annotations

import torch
from pydantic import Field
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, Paper, PostHoc, Request, Task, search
from unlearnbench.gnn import Networks


class GradientAscent(PostHoc):
    """Ascends the mean cross-entropy of the request's nodes for so few steps that accuracy elsewhere is preserved."""

    name = "gradient-ascent"
    title = "Gradient ascent"
    version = 1
    summary = "A few steps up the loss of the request."
    reference = "NegGrad of Golatkar et al., Eternal Sunshine of the Spotless Net, CVPR 2020"
    paper = Paper(
        "Golatkar, Aditya and Achille, Alessandro and Soatto, Stefano",
        "Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep Networks",
        "IEEE/CVF Conference on Computer Vision and Pattern Recognition",
        2020,
        "https://arxiv.org/abs/1911.04933",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(ComponentParams):
        """Steps and learning rate."""

        steps: int = Field(default=2, ge=1, description="Steps of Adam.", json_schema_extra=search(1, 30, log=True))
        lr: float = Field(
            default=0.001, gt=0, description="Learning rate.", json_schema_extra=search(0.0001, 0.01, log=True)
        )

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Ascend in place."""
        climb(network, task, request, retained, self.params)
        return network


def climb(
    network: Networks, task: Task, request: Request, retained: Task, params: GradientAscent.Params
) -> list[float]:
    """Change a network's parameters in place.

    Messages pass over the graph before the request, without dropout.

    Args:
        network: A stack of one network.
        task: With the request.
        request: What to forget.
        retained: The task without it.
        params: Steps and learning rate.

    Returns:
        The loss before each step.
    """
    graph = task.graph
    at = graph.positions(request.nodes)
    evaluate, losses = network.answering([graph]), list[float]()
    optimiser = torch.optim.Adam(network.parameters(), lr=params.lr, maximize=True)
    for _ in range(params.steps):
        loss = functional.cross_entropy(evaluate()[0][1][at], graph.y[at])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    # The last gradient depends on the request.
    optimiser.zero_grad()
    retained.count(steps=params.steps, node_epochs=params.steps * graph.num_nodes)
    return losses
