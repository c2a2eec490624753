"""SCRUB: the network diverges from its former self on the request and follows it elsewhere."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Claim, ComponentParams, Paper, PostHoc, Request, Task, search
from unlearnbench.gnn import Networks, Noise
from unlearnbench_scrub.losses import divergence, following

Losses = list[tuple[float | None, float]]


class SCRUB(PostHoc):
    """Alternates steps away from the teacher on the request and towards it and the labels on retained nodes."""

    name = "scrub"
    title = "SCRUB"
    version = 1
    summary = "A student that leaves its teacher on the request and follows it elsewhere."
    reference = "Kurmanji et al., Towards Unbounded Machine Unlearning, NeurIPS 2023"
    paper = Paper(
        "Kurmanji, Meghdad and Triantafillou, Peter and Hayes, Jamie and Triantafillou, Eleni",
        "Towards Unbounded Machine Unlearning",
        "Advances in Neural Information Processing Systems",
        2023,
        "https://arxiv.org/abs/2302.09880",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(ComponentParams):
        """Steps, learning rate and weights of the losses."""

        epochs: int = Field(
            default=10,
            ge=1,
            description="Minimising steps, each over all retained nodes.",
            json_schema_extra=search(5, 60, log=True),
        )
        max_steps: int = Field(
            default=5,
            ge=0,
            description="Before so many of them, the first ones, comes a maximising step.",
            json_schema_extra=search(0, 30),
        )
        lr: float = Field(
            default=0.003, gt=0, description="Learning rate.", json_schema_extra=search(0.0005, 0.02, log=True)
        )
        alpha: float = Field(
            default=0.5,
            ge=0,
            description="Weight of the divergence on what is retained.",
            json_schema_extra=search(0.05, 2.0, log=True),
        )
        gamma: float = Field(default=1.0, ge=0, description="Weight of the cross-entropy on what is retained.")
        temperature: float = Field(default=1.0, gt=0, description="Of the divergence.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Teach the network in place."""
        teach(network, network, task, request, retained, self.params)
        return network


def teach(
    teacher: Networks, student: Networks, task: Task, request: Request, retained: Task, params: SCRUB.Params
) -> Losses:
    """Change a network's parameters in place.

    Args:
        teacher: A stack of one network; evaluated only at the start, so that it may be the student itself.
        student: A stack of one network.
        task: With the request.
        request: What to forget.
        retained: The task without it; the source of seeds.
        params: Parameters of the training.

    Returns:
        For each epoch the divergence on the request, None without a maximising step, and the loss
        of the minimising step, both before the step.
    """
    former, graph = task.graph, retained.graph
    at = former.positions(request.nodes)
    on_request: Tensor = teacher.predict([former])[0][1][at]
    on_retained = teacher.predict([graph])[0][1]

    # Dropout makes the student differ from its teacher at the start: where they are equal, the
    # gradient of their divergence is zero.
    noises = [Noise([retained.key("scrub", what)], task.device) for what in ("forget", "retain")]
    forget, retain = student.answering([former], noises[0]), student.answering([graph], noises[1])
    optimiser = torch.optim.Adam(student.parameters(), lr=params.lr)
    losses, ascents = Losses(), min(params.max_steps, params.epochs)
    for epoch in retained.epochs(params.epochs):
        away: float | None = None
        for noise in noises:
            noise.step = epoch
        if epoch < ascents:
            distance = divergence(on_request, forget()[0][1][at], params.temperature)
            away = float(distance.detach())
            _step(optimiser, -distance)
        loss = following(on_retained, retain()[0][1], graph.y, params.alpha, params.gamma, params.temperature)
        _step(optimiser, loss)
        losses.append((away, float(loss.detach())))
    # The last gradient depends on data that may have to be forgotten.
    optimiser.zero_grad()
    node_epochs = ascents * former.num_nodes + params.epochs * graph.num_nodes
    retained.count(steps=ascents + params.epochs, node_epochs=node_epochs)
    return losses


def _step(optimiser: torch.optim.Optimizer, loss: Tensor) -> None:
    optimiser.zero_grad()
    loss.backward()
    optimiser.step()
