"""Stacking: a multinomial logistic regression on the predictions of all members."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from pydantic import Field
from scipy.optimize import minimize
from torch import Tensor

from unlearnbench import Graph, LearnedAggregator, Members, Task

# Convergence criterion: the largest entry of the gradient of the mean loss.
FLATNESS = 1e-6
MOST_ITERATIONS = 1000


class Stacking(LearnedAggregator):
    """Stacked generalisation with a multinomial logistic regression on top.

    The inputs are the concatenated log-probabilities of all members except retired ones. The loss
    is strictly convex up to a shift of the biases, and nothing is random.

    Attributes:
        weight: float64 [V, C, C] once learned: from member and its class to class; V voting members.
        bias: float64 [C].
    """

    name = "stacking"
    version = 1
    summary = "Multinomial logistic regression on the members' log-probabilities."
    reference = 'Wolpert, "Stacked Generalization", Neural Networks 1992'

    class Params(LearnedAggregator.Params):
        """Parameters of `stacking`."""

        out_of_fold: bool = Field(
            False,
            description="Whether a node's own member is replaced by the normalised mean of the others'"
            " log-probabilities while learning.",
        )
        penalty: float = Field(
            0.1, gt=0, description="Factor of half the sum of squared weights, added to the mean cross-entropy."
        )

    params: Params

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        self.weight: Tensor | None = None
        self.bias = torch.zeros(0, dtype=torch.float64)

    def fit(self, task: Task, members: Members, graph: Graph) -> None:
        """Learn from U, from scratch; see `Aggregator.fit`."""
        log_probs = members.log_probabilities()[members.voting].detach().double()
        mask = self.member_mask(members)
        if mask is not None:
            log_probs = with_others(log_probs, mask)
        weight, bias = regress(log_probs.cpu(), graph.y.cpu(), self.params.penalty)
        self.weight, self.bias = weight.to(log_probs.device), bias.to(log_probs.device)
        self.fitted(members)

    def combine(self, members: Members) -> Tensor:
        """Return log-probabilities [n, C].

        Raises:
            RefusedError: Not fitted, or fitted on other members than those that vote now.
        """
        voting = self.check_fitted(members)
        assert self.weight is not None
        log_probs = members.log_probabilities()[voting].double()
        logits = torch.einsum("snc,sck->nk", log_probs, self.weight) + self.bias
        return torch.log_softmax(logits, dim=1).to(members.logits.dtype)

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights, a member's at its rank among the voting members, and the biases."""
        return {} if self.weight is None else {"weight": self.weight, "bias": self.bias}


def with_others(log_probs: Tensor, mask: Tensor) -> Tensor:
    """Replace masked log-probabilities by the normalised mean of the other members'.

    Args:
        log_probs: float64 [V, n, C], log-probabilities.
        mask: bool [n, V], members to use, at least one in each row.

    Returns:
        float64 [V, n, C]; masked entries of `log_probs` have no influence.
    """
    used = mask.t().unsqueeze(2)
    total = torch.where(used, log_probs, 0.0).sum(dim=0)
    mean = torch.log_softmax(total / used.sum(dim=0), dim=1)
    return torch.where(used, log_probs, mean)


def regress(log_probs: Tensor, labels: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Minimise mean cross-entropy of softmax(sum_i log p_i W_i + b), plus penalty / 2 times |W|^2, by L-BFGS.

    Args:
        log_probs: float64 [V, n, C], on the CPU.
        labels: int64 [n].
        penalty: Factor of the penalty; biases have none.

    Returns:
        float64 [V, C, C] and float64 [C]; a class without labels gets a probability too.
    """
    num_members, num_nodes, num_classes = log_probs.shape
    inputs = log_probs.permute(1, 0, 2).reshape(num_nodes, -1).numpy()
    inputs = np.concatenate([inputs, np.ones((num_nodes, 1))], axis=1)
    target = np.zeros((num_nodes, num_classes))
    target[np.arange(num_nodes), labels.numpy()] = 1
    factor = np.full((inputs.shape[1], 1), penalty)
    factor[-1] = 0

    def loss_and_gradient(flat: np.ndarray) -> tuple[float, np.ndarray]:
        weight = flat.reshape(-1, num_classes)
        logits = inputs @ weight
        logits -= logits.max(axis=1, keepdims=True)
        log_probs = logits - np.log(np.exp(logits).sum(axis=1, keepdims=True))
        loss = -(target * log_probs).sum() / num_nodes + (factor * weight**2).sum() / 2
        gradient = inputs.T @ (np.exp(log_probs) - target) / num_nodes + factor * weight
        return float(loss), gradient.ravel()

    start = np.zeros(inputs.shape[1] * num_classes)
    result = minimize(
        loss_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_ITERATIONS, "gtol": FLATNESS, "ftol": 0.0},
    )
    learned = torch.from_numpy(result.x.reshape(-1, num_classes).copy())
    return learned[:-1].reshape(num_members, num_classes, num_classes), learned[-1]
