"""Importance of parameters: the diagonal of the Fisher information."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def importance(losses: Tensor, batches: Sequence[Tensor], parameters: list[Tensor]) -> list[Tensor]:
    """Return the diagonal of the Fisher information: the mean over batches of the squared gradient of their mean loss.

    Args:
        losses: float [n], of every node, with its graph.
        batches: Positions of the nodes of each batch.
        parameters: What to differentiate by.
    """
    sums = [torch.zeros_like(parameter) for parameter in parameters]
    for batch in batches:
        slopes = torch.autograd.grad(
            losses[batch].mean(), parameters, retain_graph=True, allow_unused=True, materialize_grads=True
        )
        for total, slope in zip(sums, slopes, strict=True):
            total += slope.square()
    return [total / len(batches) for total in sums]
