"""IDEA: an influence step, and Gaussian noise on every parameter."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Claim, Paper, PostHoc, Request, Task
from unlearnbench.gnn import Networks
from unlearnbench.unlearning import InfluenceParams, Step, add, influence_step
from unlearnbench_idea.bound import Constants, distance_bound, noise_for


class Idea(PostHoc):
    """Takes the step of GIF and adds noise (Dong et al., KDD 2024).

    With `epsilon` the noise follows from the paper's bound, and the method claims to be certified,
    if the assumptions hold; without, noise of a fixed size is added, as in the authors'
    experiments, and the claim is approximate. The assumptions do not hold for trained GNNs: see
    the README.
    """

    name = "idea"
    title = "IDEA"
    version = 1
    summary = "An influence step and noise that is to hide the rest."
    reference = "Dong et al., IDEA: A Flexible Framework of Certified Unlearning for Graph Neural Networks, KDD 2024"
    paper = Paper(
        "Dong, Yushun and Zhang, Binchi and Lei, Zhenyu and Zou, Na and Li, Jundong",
        "IDEA: A Flexible Framework of Certified Unlearning for Graph Neural Networks",
        "ACM SIGKDD Conference on Knowledge Discovery and Data Mining",
        2024,
        "https://doi.org/10.1145/3637528.3671744",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge", "feature"})
    # Of the authors' code for GCN.
    released = {"std": 0.6}

    class Params(InfluenceParams):
        """The step, the noise, and the assumptions on the loss."""

        std: float = Field(default=0.005, ge=0, description="Standard deviation of the noise, if epsilon is left out.")
        epsilon: float | None = Field(
            default=None, gt=0, le=1, description="Certify this: the noise follows from the bound."
        )
        delta: float = Field(default=1e-4, gt=0, lt=1, description="Probability that the certificate does not hold.")
        lipschitz: float = Field(default=0.25, gt=0, description="Assumed: Lipschitz constant l of a node's loss.")
        convexity: float = Field(default=1.0, gt=0, description="Assumed: the mean loss is so strongly convex, lambda.")
        loss: float = Field(default=0.5, gt=0, description="Assumed: largest loss C of a node.")

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        if self.params.epsilon is not None:
            self.claim = Claim.CERTIFIED
            self.claim_reason = "if the loss is as convex and bounded as its parameters say"

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Add the step, then the noise."""
        step = influence_step(network, task, request, retained, self.params)
        std = self.params.std
        if self.params.epsilon is not None:
            std = noise_for(claimed(self.params, task, request, step), self.params.epsilon, self.params.delta)
        add(network, step.parts)
        add(network, noise(network.entries(), std, retained.generator(self.name, "noise", retained.graph.num_nodes)))
        return network


def claimed(params: Idea.Params, task: Task, request: Request, step: Step) -> float:
    """Return the claimed bound on the distance of a step from a retraining, before noise."""
    constants = Constants(params.lipschitz, params.convexity, params.loss)
    length = float(torch.cat([part.reshape(-1) for part in step.parts]).norm())
    # With edges or features no loss is gone: those of their nodes are among the influenced ones.
    return distance_bound(constants, task.graph.num_nodes, len(request.removed), step.influenced, length)


def noise(entries: Sequence[Tensor], std: float, rng: torch.Generator) -> list[Tensor]:
    """Draw normal noise for all entries except the padding.

    Args:
        entries: bool, one tensor per parameter, False in the padding.
        std: Standard deviation.
        rng: The random generator, on the CPU.
    """
    return [torch.randn(place.shape, generator=rng).to(place.device) * place * std for place in entries]
