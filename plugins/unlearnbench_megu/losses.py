"""The losses of MEGU (Li et al., 2024); each is 0 without nodes."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

TEMPERATURE = 1.5


def distillation(student: Tensor, teacher: Tensor) -> Tensor:
    """Return the mean divergence KL(teacher || student) at temperature 1.5; the teacher is a constant.

    Args:
        student: float [n, C], logits.
        teacher: float [n, C], logits.
    """
    target = torch.log_softmax(teacher.detach() / TEMPERATURE, dim=1)
    log_probs = torch.log_softmax(student / TEMPERATURE, dim=1)
    return functional.kl_div(log_probs, target, reduction="batchmean", log_target=True)


def forgetting(logits: Tensor, operated: Tensor, predicted: Tensor) -> Tensor:
    """Pull the network towards the operator's output, and the operator away from the original predictions.

    Args:
        logits: float [n, C], f of the deleted nodes.
        operated: float [n, C], g(f).
        predicted: int64 [n], the original network's predictions.
    """
    if len(predicted) == 0:
        return logits.new_zeros(())
    return distillation(logits, operated) - functional.cross_entropy(operated, predicted)


def holding(logits: Tensor, operated: Tensor, predicted: Tensor) -> Tensor:
    """Pull the operator towards the network, and the network towards the original predictions.

    Args:
        logits: float [n, C], f of the nodes of the high-influence neighbourhood.
        operated: float [n, C], g(f).
        predicted: int64 [n], the original network's predictions.
    """
    if len(predicted) == 0:
        return logits.new_zeros(())
    return distillation(operated, logits) + functional.cross_entropy(logits, predicted)
