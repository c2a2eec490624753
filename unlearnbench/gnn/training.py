"""Trains S networks at once: one loop for stacked models and plain modules alike."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import accumulate

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.gnn.layout import Layout, Ragged
from unlearnbench.gnn.models import Stack
from unlearnbench.gnn.noise import Noise
from unlearnbench.graph import Graph
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
    descent = _Descent(stack, training)
    share = _shares([graph.num_nodes for graph in layout.graphs()], labels.device)
    for epoch in epochs:
        if layout.noise is not None:
            layout.noise.step = epoch
        descent.step(stack.head(stack.embed(layout), layout), labels, share)
    descent.finish()


def train_on_batches(
    stack: Stack, batches: Iterable[Sequence[tuple[Graph, int]]], noise: Noise, training: Training
) -> int:
    """Train in place as `train` does, each step on a batch of each network.

    Args:
        stack: The networks, freshly drawn.
        batches: For each step the subgraph of each network and how many of its first nodes count in the loss;
            the others only pass messages.
        noise: Drives dropout.
        training: Learning rate and weight decay.

    Returns:
        The nodes of all subgraphs.
    """
    descent, rows = _Descent(stack, training), 0
    for noise.step, batch in enumerate(batches):
        layout = Ragged([graph for graph, _ in batch], noise)
        starts = accumulate(layout.sizes, initial=0)
        counted = [torch.arange(count) + start for (_, count), start in zip(batch, starts, strict=False)]
        # A head passes no messages: only the nodes that count need one.
        seeds = [graph.cut_out(torch.arange(count), graph.edge_index[:, :0]) for graph, count in batch]
        # A layer of PyG that keeps the first adjacency it sees would keep that of another batch.
        fresh = stack.fresh().train()
        embedded = fresh.embed(layout)[torch.cat(counted).to(noise.device)]
        labels = torch.cat([graph.y for graph in seeds])
        descent.step(fresh.head(embedded, Ragged(seeds, noise)), labels, _shares([n for _, n in batch], noise.device))
        rows += layout.num_rows
    descent.finish()
    return rows


class _Descent:
    """Adam on a stack in training."""

    def __init__(self, stack: Stack, training: Training) -> None:
        self._stack = stack.train()
        self._parameters = [parameter for parameter in stack.parameters() if parameter.requires_grad]
        self._optimiser = torch.optim.Adam(
            self._parameters, lr=training.lr, weight_decay=training.weight_decay, fused=True
        )

    def step(self, rows: Tensor, labels: Tensor, share: Tensor) -> None:
        """Go down once: `rows` are logits, `share` is what each counts."""
        losses = functional.cross_entropy(rows[:, : self._stack.num_classes], labels, reduction="none")
        # The gradients are taken, not accumulated: the first layer's is written to one buffer
        # again and again, and accumulating would copy it.
        gradients = torch.autograd.grad((losses * share).sum(), self._parameters, allow_unused=True)
        for parameter, gradient in zip(self._parameters, gradients, strict=True):
            parameter.grad = _laid_out(gradient, parameter)
        self._optimiser.step()

    def finish(self) -> None:
        """Leave no gradient behind."""
        self._stack.eval()
        for parameter in self._parameters:
            parameter.grad = None


def _shares(counts: Sequence[int], device: torch.device) -> Tensor:
    return torch.cat([torch.full((count,), 1 / count, device=device) for count in counts])


def _laid_out(gradient: Tensor | None, parameter: Tensor) -> Tensor | None:
    # Fused Adam takes a gradient to lie in memory as its parameter does: on a CPU it would read a
    # transposed one (what einsum in a plugin's module may give) in the wrong order without a word.
    if gradient is None or gradient.stride() == parameter.stride():
        return gradient
    return torch.empty_like(parameter).copy_(gradient)
