"""Weighted pooling of members: losses to learn weights with, their gradients, and pooled predictions.

All functions are pure. A batch consists of log-probabilities [b, C, S], members last. Where a mask
(bool [b, S]) excludes members for a node, the others' weights are scaled up for it, so that their
sum is that of all members.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from unlearnbench.unlearning import log_of_mean

PoolName = Literal["log_linear", "prob", "legacy"]
LossAndGradient = tuple[Tensor, Tensor]

# Lower bound of a mixture's probability of the true class.
LEAST_PROBABILITY = 1e-12


def log_linear_loss(weight: Tensor, log_probs: Tensor, labels: Tensor, mask: Tensor | None = None) -> LossAndGradient:
    """Return the mean cross-entropy of softmax(sum_i w_i log p_i) and its gradient.

    Args:
        weight: float [S].
        log_probs: float [b, C, S].
        labels: int64 [b].
        mask: bool [b, S], members to use; None: all.

    Returns:
        A scalar, and float [S].
    """
    pooled = torch.log_softmax(_weighted_sum(weight, log_probs, mask), dim=1)
    return _cross_entropy(pooled, labels), _through_members(_residual(pooled.exp(), labels), weight, log_probs, mask)


def legacy_loss(weight: Tensor, log_probs: Tensor, labels: Tensor, mask: Tensor | None = None) -> LossAndGradient:
    """Return the released code's loss and its gradient: a cross-entropy that takes probabilities for logits.

    The pooled softmax(sum_i w_i log p_i) enters a cross-entropy that applies softmax once more.
    Arguments and result as in `log_linear_loss`.
    """
    pooled = torch.softmax(_weighted_sum(weight, log_probs, mask), dim=1)
    again = torch.log_softmax(pooled, dim=1)
    outer = _residual(again.exp(), labels)
    inner = pooled * (outer - (pooled * outer).sum(dim=1, keepdim=True))
    return _cross_entropy(again, labels), _through_members(inner, weight, log_probs, mask)


def prob_loss(weight: Tensor, log_probs: Tensor, labels: Tensor, mask: Tensor | None = None) -> LossAndGradient:
    """Return the negative log-likelihood of the mixture sum_i w_i p_i / sum_i w_i and its gradient.

    The mixture is divided by the sum of weights, because otherwise larger weights would increase the
    likelihood without bound. Arguments and result as in `log_linear_loss`.
    """
    true = log_probs[torch.arange(len(labels), device=labels.device), labels].exp()
    if mask is not None:
        true = true * mask
        totals = (mask @ weight).clamp(min=LEAST_PROBABILITY)
        mixture = (true @ weight).clamp(min=LEAST_PROBABILITY)
        return (totals.log() - mixture.log()).mean(), (mask / totals[:, None] - true / mixture[:, None]).mean(dim=0)
    total = weight.sum().clamp(min=LEAST_PROBABILITY)
    mixture = (true @ weight).clamp(min=LEAST_PROBABILITY)
    loss = total.log() - mixture.log().mean()
    return loss, 1 / total - (true / mixture[:, None]).mean(dim=0)


def _cross_entropy(log_probs: Tensor, labels: Tensor) -> Tensor:
    return -log_probs[torch.arange(len(labels), device=labels.device), labels].mean()


def _residual(probs: Tensor, labels: Tensor) -> Tensor:
    """Return the gradient of the mean cross-entropy with respect to its logits."""
    target = torch.zeros_like(probs).scatter_(1, labels[:, None], 1.0)
    return (probs - target) / len(labels)


def _weighted_sum(weight: Tensor, log_probs: Tensor, mask: Tensor | None) -> Tensor:
    """Return the weighted sum of the members' log-probabilities: float [b, C]."""
    if mask is None:
        return log_probs @ weight
    return _shares(weight, mask)[0] * torch.einsum("bcs,bs->bc", log_probs, mask * weight)


def _shares(weight: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Return the factor of each row's weights and the sum of the unmasked ones: float [b, 1] each."""
    total = (mask.to(weight.dtype) @ weight)[:, None].clamp(min=LEAST_PROBABILITY)
    return weight.sum() / total, total


def _through_members(gradient: Tensor, weight: Tensor, log_probs: Tensor, mask: Tensor | None) -> Tensor:
    """Return the gradient with respect to the weights from that with respect to the weighted sum [b, C]."""
    if mask is None:
        return gradient.reshape(-1) @ log_probs.reshape(-1, log_probs.shape[2])
    scale, total = _shares(weight, mask)
    each = torch.einsum("bc,bcs->bs", gradient, log_probs) * mask
    # Every weight is in the sum of all; an unmasked one is also in the sum that it is divided by.
    along = (each @ weight)[:, None] / total
    through: Tensor = (scale * each + along * (1 - scale * mask)).sum(dim=0)
    return through


LOSSES = {"log_linear": log_linear_loss, "prob": prob_loss, "legacy": legacy_loss}


def normalised(weight: Tensor, voting: Tensor) -> Tensor:
    """Divide weights by their sum; if all are zero, return equal weights of all voting members.

    Args:
        weight: float [S], non-negative.
        voting: bool [S].
    """
    total = weight.sum()
    if float(total) == 0:
        return uniform(voting).to(weight.dtype)
    if not bool(torch.isfinite(total)):
        # The sum overflows. NaN remains NaN: the cell has diverged.
        weight = weight / weight.max()
        total = weight.sum()
    return weight / total


def uniform(voting: Tensor) -> Tensor:
    """Return equal weights of sum 1 for all voting members: float32 [S]."""
    return voting.float() / voting.sum()


def pool(log_probs: Tensor, weight: Tensor, name: PoolName) -> Tensor:
    """Return pooled log-probabilities float32 [n, C]; each row depends on its own node alone.

    Args:
        log_probs: float32 [S, n, C]; read only.
        weight: float32 [S]; members of weight 0 are skipped.
        name: `prob` mixes probabilities, the others add weighted log-probabilities.
    """
    total = torch.zeros_like(log_probs[0])
    # Member by member: the rounding of a single product would depend on a row's position in the chunk.
    for member in torch.nonzero(weight).flatten().tolist():
        term = log_probs[member].exp() if name == "prob" else log_probs[member]
        total = total + term * weight[member]
    if name == "prob":
        return log_of_mean(total)
    return torch.log_softmax(total, dim=-1)
