"""D2DGN: two teachers, a preserver and a destroyer, and two kinds of knowledge, outputs and embeddings."""

from __future__ import annotations

from dataclasses import replace
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, PostHoc, Request, Task, search, train_networks
from unlearnbench.gnn import Networks, Noise

Knowledge = Literal["response", "feature", "both"]


class D2DGN(PostHoc):
    """Distils the trained network on what is retained and an untrained one on the request into one network."""

    name = "d2dgn"
    version = 1
    summary = "Distils outputs and embeddings: its own on what is retained, an untrained network's on the request."
    reference = "Sinha et al., Distill to Delete: Unlearning in Graph Networks with Knowledge Distillation, 2023"
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(ComponentParams):
        """Steps, learning rate, the weight of both teachers and what they teach."""

        epochs: int = Field(
            default=30,
            ge=1,
            description="Steps, each over the request and all that is retained.",
            json_schema_extra=search(10, 100, log=True),
        )
        lr: float = Field(
            default=0.0001, gt=0, description="Learning rate.", json_schema_extra=search(0.00003, 0.003, log=True)
        )
        alpha: float = Field(
            default=0.5,
            ge=0,
            le=1,
            description="Weight of what is retained; the rest is deletion's.",
            json_schema_extra=search(0.1, 0.9),
        )
        knowledge: Knowledge = Field(default="both", description="Taught are outputs, embeddings, or both.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Teach the network in place."""
        teach(network, task, request, retained, self.params)
        return network


def teach(network: Networks, task: Task, request: Request, retained: Task, params: D2DGN.Params) -> list[float]:
    """Change a network's parameters in place.

    Args:
        network: A stack of one network: the preserver, as it is at first, and the student.
        task: With the request.
        request: What to forget.
        retained: The task without it; the source of seeds.
        params: Parameters of the training.

    Returns:
        The loss before each step.
    """
    former, graph = task.graph, retained.graph
    at = former.positions(request.nodes)
    untrained = replace(retained, training=replace(retained.training, epochs=0))
    destroyer = train_networks(untrained, [graph], [0], role="d2dgn")
    ((embeddings, logits),) = destroyer.predict([former])
    to_delete, to_keep = (embeddings[at], logits[at]), network.predict([graph])[0]

    noises = [Noise([retained.key("d2dgn", what)], task.device) for what in ("delete", "keep")]
    deleting, keeping = network.answering([former], noises[0]), network.answering([graph], noises[1])
    optimiser = torch.optim.Adam(network.parameters(), lr=params.lr)
    losses = list[float]()
    for epoch in retained.epochs(params.epochs):
        for noise in noises:
            noise.step = epoch
        rows, scores = deleting()[0]
        kept = distance(to_keep, keeping()[0], params.knowledge)
        loss = params.alpha * kept + (1 - params.alpha) * distance(to_delete, (rows[at], scores[at]), params.knowledge)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(float(loss.detach()))
    # The last gradient depends on data that may have to be forgotten.
    optimiser.zero_grad()
    steps = params.epochs
    retained.count(steps=steps, node_epochs=steps * (former.num_nodes + graph.num_nodes) + former.num_nodes)
    return losses


def distance(teacher: tuple[Tensor, Tensor], student: tuple[Tensor, Tensor], knowledge: Knowledge) -> Tensor:
    """Return how far the student is from what it is taught: a divergence, a mean squared error, or their sum.

    Args:
        teacher: float [n, d] embeddings and float [n, C] logits, constants.
        student: The same of the student.
        knowledge: `response`: KL(teacher || student), a mean over nodes; `feature`: the mean squared error of the
            embeddings' entries; `both`: the sum.
    """
    (rows, logits), (own_rows, own_logits) = teacher, student
    total = own_logits.new_zeros(())
    if knowledge != "feature":
        target, log_probs = torch.log_softmax(logits, dim=1), torch.log_softmax(own_logits, dim=1)
        total = total + functional.kl_div(log_probs, target, reduction="batchmean", log_target=True)
    if knowledge != "response":
        total = total + functional.mse_loss(own_rows, rows)
    return total
