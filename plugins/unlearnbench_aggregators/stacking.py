"""Stacking: a multinomial logistic regression that reads what all members say."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from pydantic import Field
from scipy.optimize import minimize
from torch import Tensor

from unlearnbench import Graph, LearnedAggregator, Members, Task

# Where the search for the minimum ends: the largest entry of the gradient of the mean loss.
FLATNESS = 1e-6
MOST_ITERATIONS = 1000


class Stacking(LearnedAggregator):
    """Stacked generalisation with a multinomial logistic regression on top.

    The log-probabilities of all members, side by side, are the inputs. Retired members are left
    out. The loss is strictly convex up to a shift of the biases, and nothing is drawn by chance.

    Attributes:
        weight: float64 [V, C, C] once learned: from member and class said to class; V voting members.
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
            0.1, gt=0, description="Factor of half the sum of squared weights, beside the mean cross-entropy."
        )

    params: Params

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        self.weight: Tensor | None = None
        self.bias = torch.zeros(0, dtype=torch.float64)

    def fit(self, task: Task, members: Members, graph: Graph) -> None:
        """Learn from U, from scratch; see `Aggregator.fit`."""
        said = members.log_probabilities()[members.voting].detach().double()
        heard = self.member_mask(members)
        if heard is not None:
            said = with_others(said, heard)
        weight, bias = regress(said.cpu(), graph.y.cpu(), self.params.penalty)
        self.weight, self.bias = weight.to(said.device), bias.to(said.device)
        self.fitted(members)

    def combine(self, members: Members) -> Tensor:
        """Give log-probabilities [n, C].

        Raises:
            RefusedError: Not fitted, or fitted on other members than those that vote now.
        """
        voting = self.check_fitted(members)
        assert self.weight is not None
        said = members.log_probabilities()[voting].double()
        logits = torch.einsum("snc,sck->nk", said, self.weight) + self.bias
        return torch.log_softmax(logits, dim=1).to(members.logits.dtype)

    def state(self) -> Mapping[str, Tensor]:
        """Give the weights, a member's at its rank among the voting members, and the biases."""
        return {} if self.weight is None else {"weight": self.weight, "bias": self.bias}


def with_others(said: Tensor, heard: Tensor) -> Tensor:
    """Replace what is not to be heard by the normalised mean of what the others say.

    Args:
        said: float64 [V, n, C], log-probabilities.
        heard: bool [n, V], somebody in each row.

    Returns:
        float64 [V, n, C]; what stands in `said` where it is not heard has no influence.
    """
    speaks = heard.t().unsqueeze(2)
    total = torch.where(speaks, said, 0.0).sum(dim=0)
    mean = torch.log_softmax(total / speaks.sum(dim=0), dim=1)
    return torch.where(speaks, said, mean)


def regress(said: Tensor, labels: Tensor, penalty: float) -> tuple[Tensor, Tensor]:
    """Minimise mean cross-entropy of softmax(sum_i said_i W_i + b), plus penalty / 2 times |W|^2, by L-BFGS.

    Args:
        said: float64 [V, n, C], on the CPU.
        labels: int64 [n].
        penalty: Biases carry none.

    Returns:
        float64 [V, C, C] and float64 [C]; a class that no label names gets a probability too.
    """
    num_members, num_nodes, num_classes = said.shape
    inputs = said.permute(1, 0, 2).reshape(num_nodes, -1).numpy()
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
    found = minimize(
        loss_and_gradient,
        start,
        jac=True,
        method="L-BFGS-B",
        options={"maxiter": MOST_ITERATIONS, "gtol": FLATNESS, "ftol": 0.0},
    )
    learned = torch.from_numpy(found.x.reshape(-1, num_classes).copy())
    return learned[:-1].reshape(num_members, num_classes, num_classes), learned[-1]
