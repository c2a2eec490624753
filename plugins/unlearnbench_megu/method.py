"""MEGU: forgetting and preserving evolve together in one fine-tuning of all parameters."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor, nn

from unlearnbench import Claim, ComponentParams, Paper, PostHoc, Request, Task, search
from unlearnbench.gnn import Networks, Noise
from unlearnbench_megu.influence import influenced
from unlearnbench_megu.losses import forgetting, holding


class MEGU(PostHoc):
    """Fine-tunes all parameters jointly with a linear operator on the logits.

    On the deleted nodes, or the ends of deleted edges, the operator is pushed away from the network's
    original predictions and pulls the network along; on the nodes that they influenced both are kept at them.
    """

    name = "megu"
    title = "MEGU"
    version = 1
    summary = "Fine-tuning that drives the deleted nodes away and holds those they had influence on."
    reference = "Li et al., Towards Effective and General Graph Unlearning via Mutual Evolution, AAAI 2024"
    paper = Paper(
        "Li, Xunkai and Zhao, Yulin and Wu, Zhengyu and Zhang, Wentao and Li, Rong-Hua and Wang, Guoren",
        "Towards Effective and General Graph Unlearning via Mutual Evolution",
        "AAAI Conference on Artificial Intelligence",
        2024,
        "https://arxiv.org/abs/2401.11760",
    )
    claim = Claim.APPROXIMATE
    released = {"epochs": 30, "lr": 0.05}
    forgets = frozenset({"node", "edge"})

    class Params(ComponentParams):
        """How it is fine-tuned."""

        epochs: int = Field(
            default=50, ge=1, description="Steps of gradient descent.", json_schema_extra=search(10, 100, log=True)
        )
        lr: float = Field(
            default=0.01, gt=0, description="Learning rate.", json_schema_extra=search(0.005, 0.1, log=True)
        )
        kappa: float = Field(
            default=0.01, ge=0, description="Weight of forgetting.", json_schema_extra=search(0.001, 0.1, log=True)
        )
        hops: int = Field(default=2, ge=1, description="How far the influence of a deleted node is followed.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Fine-tune in place."""
        fine_tune(network, task, request, retained, self.params)
        return network


def fine_tune(
    network: Networks, task: Task, request: Request, retained: Task, params: MEGU.Params
) -> list[tuple[float, float]]:
    """Change a network's parameters in place.

    Args:
        network: A stack of one network.
        task: With the request.
        request: What to forget.
        retained: The task without it; the source of seeds.
        params: Parameters of the fine-tuning.

    Returns:
        Both losses of each step, forgetting and holding.
    """
    graph = task.graph
    gone = torch.isin(graph.ids, request.nodes)
    near = influenced(graph.x, graph.edge_index, gone, params.hops, graph.edge_weight)
    ((_, original),) = network.predict([graph])
    predicted = original.argmax(dim=1)
    unlinked = retained.graph
    if request.kind == "node":
        unlinked = graph.only_edges(~gone[graph.edge_index].any(dim=0))

    operator = drawn_operator(graph.num_classes, retained.generator("megu", "operator")).to(task.device)
    noise = Noise([retained.key("megu", "dropout")], task.device)
    optimiser = torch.optim.SGD([*network.parameters(), *operator.parameters()], lr=params.lr)
    evaluate, losses = network.answering([unlinked], noise), list[tuple[float, float]]()
    for noise.step in retained.epochs(params.epochs):
        ((_, logits),) = evaluate()
        operated: Tensor = operator(logits)
        forget = forgetting(logits[gone], operated[gone], predicted[gone])
        hold = holding(logits[near], operated[near], predicted[near])
        optimiser.zero_grad()
        (params.kappa * forget + hold).backward()
        optimiser.step()
        losses.append((float(forget.detach()), float(hold.detach())))
    # The last gradient depends on the request.
    optimiser.zero_grad()
    retained.count(steps=params.epochs, node_epochs=params.epochs * graph.num_nodes)
    return losses


def drawn_operator(num_classes: int, generator: torch.Generator) -> nn.Linear:
    """Draw the operator, C logits to C, initialised as `torch.nn.Linear`: uniform within 1 / sqrt(C)."""
    # The module's own initialisation would use the global generator.
    operator: nn.Linear = nn.utils.skip_init(nn.Linear, num_classes, num_classes)
    with torch.no_grad():
        for parameter in operator.parameters():
            parameter.uniform_(-(num_classes**-0.5), num_classes**-0.5, generator=generator)
    return operator
