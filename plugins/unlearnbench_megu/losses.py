"""The losses of MEGU (Li et al., 2024); each is 0 over no node."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

TEMPERATURE = 1.5


def distillation(student: Tensor, teacher: Tensor) -> Tensor:
    """Give the mean divergence KL(teacher || student) at temperature 1.5; the teacher is a constant.

    Args:
        student: float [n, C], logits.
        teacher: float [n, C], logits.
    """
    wanted = torch.log_softmax(teacher.detach() / TEMPERATURE, dim=1)
    found = torch.log_softmax(student / TEMPERATURE, dim=1)
    return functional.kl_div(found, wanted, reduction="batchmean", log_target=True)


def forgetting(logits: Tensor, operated: Tensor, said: Tensor) -> Tensor:
    """Draw the network to what the operator makes of it, and the operator away from what was predicted.

    Args:
        logits: float [n, C], f of the deleted nodes.
        operated: float [n, C], g(f).
        said: int64 [n], what the original network predicted.
    """
    if len(said) == 0:
        return logits.new_zeros(())
    return distillation(logits, operated) - functional.cross_entropy(operated, said)


def holding(logits: Tensor, operated: Tensor, said: Tensor) -> Tensor:
    """Draw the operator to the network, and the network to what was predicted.

    Args:
        logits: float [n, C], f of the nodes of the high-influence neighbourhood.
        operated: float [n, C], g(f).
        said: int64 [n], what the original network predicted.
    """
    if len(said) == 0:
        return logits.new_zeros(())
    return distillation(operated, logits) + functional.cross_entropy(logits, said)
