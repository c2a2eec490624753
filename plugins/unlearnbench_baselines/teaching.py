"""Bad teaching: an untrained network teaches the request, the trained one a share of what is retained."""

from __future__ import annotations

from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, Paper, PostHoc, Request, Task, rounded_half_up, search, train_networks
from unlearnbench.gnn import Networks
from unlearnbench_baselines.descent import DescentParams, descend


class BadTeacher(PostHoc):
    """Distils two teachers into the network: an incompetent one where it must forget, its former self elsewhere."""

    name = "bad-teacher"
    title = "Bad teacher"
    version = 1
    summary = "Taught by an untrained network on the request, by its former self elsewhere."
    reference = "Chundawat et al., Can Bad Teaching Induce Forgetting?, AAAI 2023"
    paper = Paper(
        "Chundawat, Vikram S. and Tarun, Ayush K. and Mandal, Murari and Kankanhalli, Mohan",
        "Can Bad Teaching Induce Forgetting? Unlearning in Deep Networks Using an Incompetent Teacher",
        "AAAI Conference on Artificial Intelligence",
        2023,
        "https://arxiv.org/abs/2205.08096",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(DescentParams):
        """Steps, learning rate and how much of what is retained is taught."""

        epochs: int = Field(
            default=10,
            ge=1,
            description="Steps, each over the request and what is taught.",
            json_schema_extra=search(5, 50, log=True),
        )
        lr: float = Field(
            default=0.0003, gt=0, description="Learning rate.", json_schema_extra=search(0.0001, 0.01, log=True)
        )
        share: float = Field(
            default=0.3,
            gt=0,
            le=1,
            description="Share of the retained nodes that is taught.",
            json_schema_extra=search(0.1, 1.0),
        )

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Teach the network in place."""
        former, graph = task.graph, retained.graph
        untrained = replace(retained, training=replace(retained.training, epochs=0))
        bad = train_networks(untrained, [graph], [0], role=self.name)
        order = torch.randperm(graph.num_nodes, generator=retained.generator(self.name, "share")).to(task.device)
        taught = order[: max(1, rounded_half_up(self.params.share, graph.num_nodes))]
        teachers = torch.cat(
            [bad.predict([former])[0][1][former.positions(request.nodes)], network.predict([graph])[0][1][taught]]
        )

        def loss(forget: Tensor, retain: Tensor) -> Tensor:
            return divergence(teachers, torch.cat([forget, retain[taught]]))

        descend(network, task, request, retained, self.params, loss)
        return network


def divergence(teacher: Tensor, student: Tensor) -> Tensor:
    """Return the mean of KL(teacher || student) over nodes.

    Args:
        teacher: float [n, C], logits, a constant.
        student: float [n, C], logits.
    """
    target, log_probs = torch.log_softmax(teacher, dim=1), torch.log_softmax(student, dim=1)
    return functional.kl_div(log_probs, target, reduction="batchmean", log_target=True)
