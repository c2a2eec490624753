"""The losses of SCRUB (Kurmanji et al., 2023)."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional


def divergence(teacher: Tensor, student: Tensor, temperature: float) -> Tensor:
    """Give the mean divergence KL(teacher || student), times the temperature squared, as in distillation.

    Args:
        teacher: float [n, C], logits, a constant.
        student: float [n, C], logits.
        temperature: What both are divided by.
    """
    wanted = torch.log_softmax(teacher / temperature, dim=1)
    found = torch.log_softmax(student / temperature, dim=1)
    return functional.kl_div(found, wanted, reduction="batchmean", log_target=True) * temperature**2


def following(
    teacher: Tensor, student: Tensor, labels: Tensor, alpha: float, gamma: float, temperature: float
) -> Tensor:
    """Give what a minimising step goes down: alpha KL + gamma cross-entropy.

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
