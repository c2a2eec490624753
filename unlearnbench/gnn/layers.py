"""Layers of stacked networks: S weights in one tensor, each applied to its own network's data alone.

`num_networks` is S; `inputs` and `outputs` are widths without padding, and columns of a result are padded;
`raw` says that the rows are input features, whose columns are not.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn

from unlearnbench.gnn.features import Features
from unlearnbench.gnn.layout import Layout

# Fused Adam works on whole vectors and processes the rest of a tensor entry by entry, with other rounding.
# A network whose part of every tensor is a multiple of this gets the same bits at any position in a stack.
VECTOR = 16


def padded(width: int) -> int:
    """Round a width up to a multiple of `VECTOR`."""
    return -(-width // VECTOR) * VECTOR


def glorot_bound(shape: tuple[int, ...]) -> float:
    """Return the bound of Glorot and Bengio (2010) for a weight of this shape: sqrt(6 / (in + out))."""
    return math.sqrt(6 / (shape[0] + shape[1]))


class StackedLayer(nn.Module, ABC):
    """A layer of S networks.

    Args:
        num_networks: S.
        shapes: The true shape of each parameter in one network. Storage is padded and the
            padding stays zero, so that the padded columns of a layer's output are zero too.
        raw: The first dimension of `weight` counts input features, which are not padded.
        blocks: For parameters that consist of several blocks: which dimension counts the blocks.
            It is stored flattened with the dimension after it, block after block.
    """

    weight: Tensor
    bias: Tensor

    def __init__(
        self,
        num_networks: int,
        shapes: dict[str, tuple[int, ...]],
        raw: bool = False,
        blocks: Mapping[str, int] | None = None,
    ) -> None:
        super().__init__()
        self.shapes = shapes
        self._blocks = dict(blocks or {})
        for name, shape in shapes.items():
            stored = [padded(size) for size in shape]
            if raw and name == "weight":
                stored[0] = shape[0]
            if name in self._blocks:
                at = self._blocks[name]
                stored[at : at + 2] = [shape[at] * stored[at + 1]]
            self.register_parameter(name, nn.Parameter(torch.zeros(num_networks, *stored)))

    def own(self, network: int) -> dict[str, Tensor]:
        """Return views of one network's parameters, without padding."""
        views = {}
        for name, parameter in self.named_parameters(recurse=False):
            view = parameter.detach()[network]
            if name in self._blocks:
                view = view.unflatten(self._blocks[name], (self.shapes[name][self._blocks[name]], -1))
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
        """Return the bound of the uniform distribution that a parameter is drawn from; 0: it starts at zero."""


class Linear(StackedLayer):
    """A linear layer, initialised as `torch.nn.Linear`."""

    def __init__(self, num_networks: int, inputs: int, outputs: int, raw: bool = False) -> None:
        super().__init__(num_networks, {"weight": (inputs, outputs), "bias": (outputs,)}, raw)

    def bound(self, name: str) -> float:
        """Return 1 / sqrt(inputs) for weight and bias alike."""
        return 1 / math.sqrt(self.shapes["weight"][0])

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Return rows W + b."""
        return layout.linear(rows, self.weight) + layout.spread(self.bias)


class GCNConv(Linear):
    """Graph convolution D^-1/2 (A + I) D^-1/2 X W + b (Kipf and Welling, 2017, equation 2)."""

    def bound(self, name: str) -> float:
        """Return sqrt(6 / (inputs + outputs)) for the weight, 0 for the bias."""
        return glorot_bound(self.shapes["weight"]) if name == "weight" else 0.0

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Multiply by the weight, then propagate."""
        return layout.gcn @ layout.linear(rows, self.weight) + layout.spread(self.bias)


class SAGEConv(StackedLayer):
    """Mean of the neighbours' rows times one weight, the node's own times another (Hamilton et al., 2017).

    `weight` holds both, [inputs, 2, outputs], so that rows are multiplied once. Initialised as
    `torch.nn.Linear`.
    """

    def __init__(self, num_networks: int, inputs: int, outputs: int, raw: bool = False) -> None:
        shapes = {"weight": (inputs, 2, outputs), "bias": (outputs,)}
        super().__init__(num_networks, shapes, raw, {"weight": 1})

    def bound(self, name: str) -> float:
        """Return 1 / sqrt(inputs) for weight and bias alike."""
        return 1 / math.sqrt(self.shapes["weight"][0])

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Multiply by both weights, then average over incoming edges and add the node's own row."""
        products = layout.block_rows(layout.linear(rows, self.weight), 2)
        return layout.mean_and_own @ products + layout.spread(self.bias)


class GINConv(nn.Module):
    """MLP of the sum of a node's row and its neighbours' (Xu et al., 2019, equation 4.1 with epsilon 0).

    The first linear layer is applied before the sum, which is equivalent and sums fewer columns.
    """

    def __init__(self, num_networks: int, inputs: int, outputs: int, raw: bool = False) -> None:
        super().__init__()
        self.linear1 = Linear(num_networks, inputs, outputs, raw)
        self.linear2 = Linear(num_networks, outputs, outputs)

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Multiply, sum, then the rest of the MLP."""
        hidden = layout.total @ layout.linear(rows, self.linear1.weight) + layout.spread(self.linear1.bias)
        result: Tensor = self.linear2(torch.relu(hidden), layout)
        return result


class SGConv(Linear):
    """A linear layer of features propagated `steps` times (Wu et al., 2019), initialised as `torch.nn.Linear`.

    Args:
        num_networks: S.
        inputs: Columns in.
        outputs: Columns out.
        steps: Propagations.
        raw: The rows are input features.
    """

    def __init__(self, num_networks: int, inputs: int, outputs: int, steps: int, raw: bool = False) -> None:
        super().__init__(num_networks, inputs, outputs, raw)
        self.steps = steps

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Multiply and propagate, in the order that suits the rows."""
        return layout.propagated(rows, self.weight, self.steps) + layout.spread(self.bias)


class JumpingLinear(StackedLayer):
    """A linear layer of several layers' concatenated columns (Xu et al., 2018), initialised as `torch.nn.Linear`.

    Args:
        num_networks: S.
        parts: Number of layers.
        inputs: Columns of each.
        outputs: Columns out.
    """

    def __init__(self, num_networks: int, parts: int, inputs: int, outputs: int) -> None:
        shapes = {"weight": (parts, inputs, outputs), "bias": (outputs,)}
        super().__init__(num_networks, shapes, blocks={"weight": 0})

    def bound(self, name: str) -> float:
        """Return 1 / sqrt(all columns in) for weight and bias alike."""
        parts, inputs, _ = self.shapes["weight"]
        return 1 / math.sqrt(parts * inputs)

    def forward(self, parts: Sequence[Tensor], layout: Layout) -> Tensor:
        """Return [rows of all parts] W + b."""
        return layout.linear(layout.concatenate(parts), self.weight) + layout.spread(self.bias)
