"""The losses of SCRUB (Kurmanji et al., 2023)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """Return the mean divergence KL(teacher || student), times the squared temperature, as in distillation.

    Args:
        teacher: float [n, C], logits, a constant.
        student: float [n, C], logits.
        temperature: Divides both.
    """
    target = torch.log_softmax(teacher / temperature, dim=1)
    log_probs = torch.log_softmax(student / temperature, dim=1)
    return functional.kl_div(log_probs, target, reduction="batchmean", log_target=True) * temperature**2


def following(
    teacher: Tensor, student: Tensor, labels: Tensor, alpha: float, gamma: float, temperature: float
) -> Tensor:
    """Return the loss of a minimising step: alpha KL + gamma cross-entropy.

    Args:
        teacher: float [n, C], logits of the retained nodes, a constant.
        student: float [n, C], logits.
        labels: int64 [n].
        alpha: Weight of the divergence.
        gamma: Weight of the task's loss.
        temperature: Of the divergence.
    """
    task = functional.cross_entropy(student, labels)
    return alpha * divergence(teacher, student, temperature) + gamma * task
