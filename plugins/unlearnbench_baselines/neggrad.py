"""NegGrad+: down the loss of what is retained and up the loss of the request, in the same step."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, Paper, PostHoc, Request, Task, search
from unlearnbench.gnn import Networks
from unlearnbench_baselines.descent import DescentParams, descend


class NegGradPlus(PostHoc):
    """Fine-tunes on what is retained, while a share of every step goes up the loss of the request."""

    name = "neggrad-plus"
    title = "NegGrad+"
    version = 1
    summary = "Down the loss of what is retained and up that of the request, in one step."
    reference = "NegGrad+ of Kurmanji et al., Towards Unbounded Machine Unlearning, NeurIPS 2023"
    paper = Paper(
        "Kurmanji, Meghdad and Triantafillou, Peter and Hayes, Jamie and Triantafillou, Eleni",
        "Towards Unbounded Machine Unlearning",
        "Advances in Neural Information Processing Systems",
        2023,
        "https://arxiv.org/abs/2302.09880",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(DescentParams):
        """Steps, learning rate and the weight of both losses."""

        beta: float = Field(
            default=0.95,
            ge=0,
            le=1,
            description="Weight of what is retained; the rest ascends.",
            json_schema_extra=search(0.8, 0.999),
        )

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Take the steps in place."""
        of_request = task.graph.y[task.graph.positions(request.nodes)]
        labels, beta = retained.graph.y, float(self.params.beta)

        def loss(forget: Tensor, retain: Tensor) -> Tensor:
            ascent = functional.cross_entropy(forget, of_request)
            return beta * functional.cross_entropy(retain, labels) - (1 - beta) * ascent

        descend(network, task, request, retained, self.params, loss)
        return network
