"""What NegGrad+ and bad teaching share: Adam on a loss of the request and of what is retained."""

from __future__ import annotations

from collections.abc import Callable

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import ComponentParams, Request, Task, search
from unlearnbench.gnn import Networks, Noise


class DescentParams(ComponentParams):
    """Steps and learning rate."""

    epochs: int = Field(
        default=30,
        ge=1,
        description="Steps, each over the request and all that is retained.",
        json_schema_extra=search(10, 100, log=True),
    )
    lr: float = Field(
        default=0.003, gt=0, description="Learning rate.", json_schema_extra=search(0.001, 0.03, log=True)
    )


def descend(
    network: Networks,
    task: Task,
    request: Request,
    retained: Task,
    params: DescentParams,
    loss: Callable[[Tensor, Tensor], Tensor],
) -> list[float]:
    """Change a network's parameters in place, with dropout and weight decay as in training.

    Args:
        network: A stack of one network.
        task: With the request.
        request: What to forget.
        retained: The task without it; the source of seeds.
        params: Steps and learning rate.
        loss: Of the logits of the request's nodes on the former graph, and of all nodes of the retained graph.

    Returns:
        The loss before each step.
    """
    former, graph = task.graph, retained.graph
    at = former.positions(request.nodes)
    noises = [Noise([retained.key("descent", what)], task.device) for what in ("forget", "retain")]
    forget, retain = network.answering([former], noises[0]), network.answering([graph], noises[1])
    optimiser = torch.optim.Adam(network.parameters(), lr=params.lr, weight_decay=retained.training.weight_decay)
    losses = list[float]()
    for epoch in retained.epochs(params.epochs):
        for noise in noises:
            noise.step = epoch
        value = loss(forget()[0][1][at], retain()[0][1])
        optimiser.zero_grad()
        value.backward()
        optimiser.step()
        losses.append(float(value.detach()))
    # The last gradient depends on data that may have to be forgotten.
    optimiser.zero_grad()
    retained.count(steps=params.epochs, node_epochs=params.epochs * (former.num_nodes + graph.num_nodes))
    return losses
