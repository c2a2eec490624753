"""Layers of stacked networks: S weights in one tensor, each network's data meets its own alone."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod

import torch
from torch import Tensor, nn

from unlearnbench.gnn.features import Features
from unlearnbench.gnn.layout import Layout

# Fused Adam works on whole vectors and finishes the rest of a tensor one by one, with other rounding.
# A network whose share of every tensor is a multiple of this gets the same bits at any place in a stack.
VECTOR = 16


def padded(width: int) -> int:
    """Round a width up to a multiple of `VECTOR`."""
    return -(-width // VECTOR) * VECTOR


def glorot_bound(shape: tuple[int, ...]) -> float:
    """Give the bound of Glorot and Bengio (2010) for a weight of this shape: sqrt(6 / (in + out))."""
    return math.sqrt(6 / (shape[0] + shape[1]))


class StackedLayer(nn.Module, ABC):
    """A layer of S networks.

    Args:
        num_networks: S.
        shapes: The true shape of each parameter in one network. Storage is padded and the
            padding stays zero, so that the padded columns a layer gives are zero too.
        raw: The first dimension of `weight` counts input features, which are not padded.
    """

    weight: Tensor
    bias: Tensor

    def __init__(self, num_networks: int, shapes: dict[str, tuple[int, ...]], raw: bool) -> None:
        super().__init__()
        self.shapes = shapes
        for name, shape in shapes.items():
            stored = [padded(size) for size in shape]
            if raw and name == "weight":
                stored[0] = shape[0]
            self.register_parameter(name, nn.Parameter(torch.zeros(num_networks, *stored)))

    def own(self, network: int) -> dict[str, Tensor]:
        """Give views of one network's parameters, without padding."""
        views = {}
        for name, parameter in self.named_parameters(recurse=False):
            view = parameter.detach()[network]
            for dimension, size in enumerate(self.shapes[name]):
                view = view.narrow(dimension, 0, size)
            views[name] = view
        return views

    def draw(self, network: int, generator: torch.Generator) -> None:
        """Draw one network's initial parameters."""
        for name, view in self.own(network).items():
            bound = self.bound(name)
            drawn = torch.empty(view.shape)
            view.copy_(drawn.uniform_(-bound, bound, generator=generator) if bound else drawn.zero_())

    @abstractmethod
    def bound(self, name: str) -> float:
        """Give the bound of the uniform distribution a parameter starts from; 0: it starts at zero."""


class Linear(StackedLayer):
    """A linear layer; starts as `torch.nn.Linear` does.

    Args:
        num_networks: S.
        inputs: Columns in.
        outputs: Columns out; the result has them padded.
        raw: The rows are input features.
    """

    def __init__(self, num_networks: int, inputs: int, outputs: int, raw: bool = False) -> None:
        super().__init__(num_networks, {"weight": (inputs, outputs), "bias": (outputs,)}, raw)

    def bound(self, name: str) -> float:
        """Give 1 / sqrt(inputs) for weight and bias alike."""
        return 1 / math.sqrt(self.shapes["weight"][0])

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Give rows W + b."""
        return layout.linear(rows, self.weight) + layout.spread(self.bias)


class GCNConv(Linear):
    """Graph convolution D^-1/2 (A + I) D^-1/2 X W + b (Kipf and Welling, 2017, equation 2); Glorot start."""

    def bound(self, name: str) -> float:
        """Give sqrt(6 / (inputs + outputs)) for the weight, 0 for the bias."""
        return glorot_bound(self.shapes["weight"]) if name == "weight" else 0.0

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Multiply with the weight, then propagate."""
        return layout.gcn @ layout.linear(rows, self.weight) + layout.spread(self.bias)
