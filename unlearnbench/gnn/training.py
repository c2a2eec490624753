"""Trains S networks at once: one loop for stacked models and plain modules alike."""

from __future__ import annotations

from collections.abc import Iterable

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.gnn.layout import Layout
from unlearnbench.gnn.models import Stack
from unlearnbench.task import Training


def train(stack: Stack, layout: Layout, labels: Tensor, training: Training, epochs: Iterable[int]) -> None:
    """Train in place: Adam on the sum of the networks' mean cross-entropies.

    The sum has, for each network, the gradient of its own mean: no parameter of one network
    meets data of another.

    Args:
        stack: The networks, freshly drawn.
        layout: Their graphs; its noise drives dropout.
        labels: int64, one a row of the layout.
        training: Learning rate and weight decay.
        epochs: Their numbers, from 0 on.
    """
    parameters = [parameter for parameter in stack.parameters() if parameter.requires_grad]
    optimiser = torch.optim.Adam(parameters, lr=training.lr, weight_decay=training.weight_decay, fused=True)
    share = torch.cat(
        [torch.full((graph.num_nodes,), 1 / graph.num_nodes, device=labels.device) for graph in layout.graphs()]
    )
    stack.train()
    for epoch in epochs:
        if layout.noise is not None:
            layout.noise.step = epoch
        rows = stack.head(stack.embed(layout), layout)
        losses = functional.cross_entropy(rows[:, : stack.num_classes], labels, reduction="none")
        loss = (losses * share).sum()
        # The gradients are taken, not accumulated: the first layer's is written to one buffer
        # again and again, and accumulating would copy it.
        gradients = torch.autograd.grad(loss, parameters, allow_unused=True)
        for parameter, gradient in zip(parameters, gradients, strict=True):
            parameter.grad = _laid_out(gradient, parameter)
        optimiser.step()
    stack.eval()
    for parameter in parameters:
        parameter.grad = None


def _laid_out(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    # Fused Adam takes a gradient to lie in memory as its parameter does: on a CPU it would read a
    # transposed one (what einsum in a plugin's module may give) in the wrong order without a word.
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
