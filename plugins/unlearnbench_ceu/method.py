"""CEU: hides what a step for edges leaves behind noise that was in the loss from the start."""

from __future__ import annotations

import math
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, PostHoc, RefusedError, Request, Task, search, train_networks
from unlearnbench.gnn import Networks, Noise
from unlearnbench.unlearning import InfluenceParams, add, conjugate, influence_step


class CEU(PostHoc):
    """Trains with a random linear term in the loss, and answers a request of edges by one influence step.

    The distribution is certified only where the loss is strongly convex, which that of a trained GNN is not: the
    claim is approximate.
    """

    name = "ceu"
    version = 1
    summary = "Trained with noise; one influence step for edges, a node being all of its edges."
    reference = "Wu et al., Certified Edge Unlearning for Graph Neural Networks, KDD 2023"
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(ComponentParams):
        """The noise, and how the Hessian is inverted."""

        std: float = Field(
            default=0.01,
            ge=0,
            description="Standard deviation of the random linear term; 0: none.",
            json_schema_extra=search(0.001, 0.1, log=True),
        )
        delta: float = Field(default=1e-4, gt=0, lt=1, description="Of the epsilon that is counted.")
        hops: int | None = Field(
            default=None, ge=0, description="Hops around the edges within which losses change; left out: by depth."
        )
        iterations: int = Field(
            default=100,
            ge=1,
            description="Steps of conjugate gradients, at most.",
            json_schema_extra=search(10, 300, log=True),
        )
        damp: float | None = Field(
            default=None, ge=0, lt=1, description="Damping; left out: what negative eigenvalues need."
        )

    def fit(self, task: Task) -> None:
        """Train one network on all training nodes, from Retrain's initial weights, with the random term in the loss.

        Raises:
            RefusedError: Training is by batches.
        """
        if task.training.batch_size:
            raise RefusedError(
                "ceu trains on the whole graph at a time: its noise belongs to the loss of all nodes.",
                "Leave `batch_size` out.",
            )
        with task.phase("train"):
            self._network = self._trained(task)
        self._task = task

    def _trained(self, task: Task) -> Networks:
        network = train_networks(replace(task, training=replace(task.training, epochs=0)), [task.graph], [0])
        graph, training, parameters = task.graph, task.training, network.parameters()
        term = self._term(network, task)
        dropout = Noise([task.key("member", "dropout", 0)], task.device)
        evaluate = network.answering([graph], dropout)
        optimiser = torch.optim.Adam(parameters, lr=training.lr, weight_decay=training.weight_decay)
        for dropout.step in task.epochs(training.epochs):
            loss = functional.cross_entropy(evaluate()[0][1], graph.y) + linear(term, parameters) / graph.num_nodes
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
        for parameter in parameters:
            parameter.grad = None
        task.count(steps=training.epochs, node_epochs=training.epochs * graph.num_nodes)
        return network

    def _term(self, network: Networks, task: Task) -> list[Tensor]:
        """Draw the coefficients of the random term: the same whenever they are asked for, and no data is in them."""
        rng = task.generator(self.name, "noise")
        entries = network.entries()
        return [torch.randn(place.shape, generator=rng).to(place.device) * place * self.params.std for place in entries]

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Add the step."""
        edges = as_edges(task, request)
        if not len(edges.ids):
            # Nodes without neighbours: no edge is forgotten.
            retained.count(influenced=0)
            return network
        without = task.without(edges)
        params = InfluenceParams(hops=self.params.hops, iterations=self.params.iterations, damp=self.params.damp)
        add(network, influence_step(network, task, edges, without, params, conjugate).parts)
        if self.params.std:
            left = self._remaining(network, without)
            retained.count(epsilon=math.ceil(epsilon_of(left, self.params.std, self.params.delta)))
        return network

    def _remaining(self, network: Networks, task: Task) -> float:
        """Return the norm of the gradient of the summed loss with its penalty and the random term."""
        graph, parameters = task.graph, network.parameters()
        entropy = functional.cross_entropy(network.answers([graph])[0][1], graph.y, reduction="sum")
        square = torch.stack([parameter.square().sum() for parameter in parameters]).sum()
        loss = entropy + graph.num_nodes * task.training.weight_decay / 2 * square
        slopes = torch.autograd.grad(loss + linear(self._term(network, task), parameters), parameters)
        return float(torch.cat([slope.reshape(-1) for slope in slopes]).norm())


def as_edges(task: Task, request: Request) -> Request:
    """Return the request for edges that stands for a request: that of nodes is for all of their edges."""
    if request.kind == "edge":
        return request
    pairs = task.graph.pairs()
    return Request(pairs[torch.isin(pairs, request.ids.to(pairs.device)).any(dim=1)], "edge")


def linear(term: list[Tensor], parameters: list[Tensor]) -> Tensor:
    """Return the product of the random term with the parameters."""
    return torch.stack([(own * parameter).sum() for own, parameter in zip(term, parameters, strict=True)]).sum()


def epsilon_of(gradient: float, std: float, delta: float) -> float:
    """Return the epsilon with which noise hides a gradient (Guo et al., ICML 2020, theorem 3): convex losses only.

    Args:
        gradient: Norm of the gradient that is left.
        std: Standard deviation of the random linear term.
        delta: Probability that it does not hold.
    """
    return gradient * math.sqrt(2 * math.log(1.5 / delta)) / std
