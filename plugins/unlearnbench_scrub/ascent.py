"""Gradient ascent: a few steps up the loss of what is to be forgotten, and nothing else."""

from __future__ import annotations

import torch
from pydantic import Field
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, PostHoc, Request, Task
from unlearnbench.gnn import Networks


class GradientAscent(PostHoc):
    """Climbs the mean cross-entropy of the request's nodes, so few steps that the rest of the network stays good."""

    name = "gradient-ascent"
    version = 1
    summary = "A few steps up the loss of the request."
    reference = "NegGrad of Golatkar et al., Eternal Sunshine of the Spotless Net, CVPR 2020"
    claim = Claim.APPROXIMATE

    class Params(ComponentParams):
        """How far."""

        steps: int = Field(default=2, ge=1, description="Steps of Adam.")
        lr: float = Field(default=0.001, gt=0, description="Learning rate.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Climb in place."""
        climb(network, task, request, retained, self.params)
        return network


def climb(
    network: Networks, task: Task, request: Request, retained: Task, params: GradientAscent.Params
) -> list[float]:
    """Change a network's parameters in place.

    Messages pass over the graph from before the request, without dropout.

    Args:
        network: A stack of one network.
        task: With the nodes of the request.
        request: The nodes to forget.
        retained: The task without them.
        params: How far.

    Returns:
        The loss before each step.
    """
    graph = task.graph
    at = graph.positions(request.ids)
    ask, losses = network.answering([graph]), list[float]()
    optimiser = torch.optim.Adam(network.parameters(), lr=params.lr, maximize=True)
    for _ in range(params.steps):
        loss = functional.cross_entropy(ask()[0][1][at], graph.y[at])
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    # What is left would be a gradient made of the request.
    optimiser.zero_grad()
    retained.count(steps=params.steps, node_epochs=params.steps * graph.num_nodes)
    return losses
