"""Controls that forget more than the request: an untrained network, and gradient ascent on the request."""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, Graph, PostHoc, Request, Task, train_networks
from unlearnbench.gnn import Networks


class RandomInit(PostHoc):
    """Initialises a new network and does not train it: nothing remains of the request or of anything else.

    The initial weights differ from those of Retrain, so that it is not close to the trained network
    because of the same start.
    """

    name = "random-init"
    version = 1
    summary = "Control: a network drawn anew and never trained."
    reference = "the incompetent teacher of Chundawat et al., Can Bad Teaching Induce Forgetting?, AAAI 2023"
    claim = Claim.NONE
    forgets = frozenset({"node", "edge", "feature"})

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Initialise another network."""
        untrained = replace(retained, training=replace(retained.training, epochs=0))
        return train_networks(untrained, [retained.graph], [0], role=self.name)


class OverForget(PostHoc):
    """Ascends the loss of the nodes to be forgotten, or whose features are, for a number of steps.

    The loss is the mean cross-entropy of the request's nodes in the graph before the request, in
    evaluation mode: without dropout, as in the deployed network. A step of Adam changes no
    parameter by more than a few times the learning rate, however steep the loss, so that
    parameters remain finite.
    """

    name = "over-forget"
    version = 1
    summary = "Control: gradient ascent on the request's loss."
    reference = "negative gradient of Golatkar et al., Eternal Sunshine of the Spotless Net, CVPR 2020"
    claim = Claim.NONE
    forgets = frozenset({"node", "feature"})

    class Params(ComponentParams):
        """Steps and learning rate."""

        steps: int = Field(default=20, ge=1, description="Steps of Adam.")
        lr: float = Field(default=0.001, gt=0, description="Learning rate.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Ascend in place."""
        parameters, nodes = network.parameters(), request.nodes
        # With the usual epsilon a network that fits the request almost perfectly would not move.
        optimiser = torch.optim.Adam(parameters, lr=self.params.lr, eps=1e-16, maximize=True)
        for _ in range(self.params.steps):
            gradients = torch.autograd.grad(loss(network, task.graph, nodes), parameters)
            for parameter, gradient in zip(parameters, gradients, strict=True):
                parameter.grad = gradient
            optimiser.step()
        for parameter in parameters:
            parameter.grad = None
        retained.count(steps=self.params.steps, node_epochs=self.params.steps * task.graph.num_nodes)
        return network


def loss(network: Networks, graph: Graph, ids: Tensor) -> Tensor:
    """Return the mean cross-entropy of some nodes of a graph, in evaluation mode.

    Args:
        network: A stack of one network.
        graph: The graph to pass messages over, with labels.
        ids: int64 [t], the nodes.
    """
    ((_, logits),) = network.answers([graph])
    at = graph.positions(ids)
    return functional.cross_entropy(logits[at], graph.y[at])
