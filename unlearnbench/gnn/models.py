"""Base classes of base models: plain modules of plugins and stacked networks."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar

import torch
from pydantic import Field
from torch import Tensor, nn

from unlearnbench.component import Component, ComponentParams
from unlearnbench.gnn.layers import Linear, StackedLayer
from unlearnbench.gnn.layout import Layout


class Model(Component, ABC):
    """A base model as an ordinary module per network.

    The module that `build` returns has `embed(x, edge_index) -> [n, d]`, the output of the last
    message-passing layer, and `head(h) -> [n, C]`, the logits.

    Attributes:
        supports_edge_weight: Whether `embed` takes the weights of the edges, float32 [E], as a third argument where
            edges have some; without it a graph with weights is refused.
    """

    kind = "model"
    supports_edge_weight: ClassVar[bool] = False

    @abstractmethod
    def build(self, num_features: int, num_classes: int, generator: torch.Generator) -> nn.Module:
        """Build one network. The global random state is set from `generator` during the call."""


class Stack(nn.Module, ABC):
    """S networks in lockstep. Subclasses define `embed` and `head` in terms of a `Layout`.

    Args:
        embedding_size: Columns of `embed`, without padding.
        num_classes: Columns of `head`, without padding.
    """

    def __init__(self, embedding_size: int, num_classes: int) -> None:
        super().__init__()
        self.embedding_size = embedding_size
        self.num_classes = num_classes

    @abstractmethod
    def embed(self, layout: Layout) -> Tensor:
        """Return the outputs of the last message-passing layer, float32, in the layout's rows.

        They are [rows of all graphs, d] in a `Ragged` layout and [n, S * d] in a `Shared` one; only the layout's
        operations tell networks apart.
        """

    @abstractmethod
    def head(self, rows: Tensor, layout: Layout) -> Tensor:
        """Return the logits, float32, C columns a network padded to a multiple of `layers.VECTOR`.

        Args:
            rows: What `embed` returned, or some of its rows.
            layout: Of these rows.
        """

    def layers(self) -> dict[str, StackedLayer]:
        """Return the layers by name."""
        return {name: module for name, module in self.named_modules() if isinstance(module, StackedLayer)}

    def convolutions(self) -> dict[str, int]:
        """Return the consecutive layers that pass messages one hop, each followed by an activation.

        Returns:
            The modules' names in order, each with its number of output columns, without padding. Empty
            for networks of another architecture.
        """
        return {}

    def draw(self, generators: Sequence[torch.Generator]) -> None:
        """Draw every network's initial parameters, each from its own generator."""
        for network, generator in enumerate(generators):
            for layer in self.layers().values():
                layer.draw(network, generator)

    def fresh(self) -> Stack:
        """Return the same networks without any state of modules other than their parameters."""
        return self

    def own(self, network: int) -> dict[str, Tensor]:
        """Return views of one network's parameters by name, such as `conv1.weight`."""
        return {
            f"{layer_name}.{name}": view
            for layer_name, layer in self.layers().items()
            for name, view in layer.own(network).items()
        }


class StackedModel(Component, ABC):
    """A base model that builds a stack of S networks.

    Attributes:
        supports_edge_weight: Whether its layers use the weights of edges; without it a graph with weights is refused.
    """

    kind = "model"
    supports_edge_weight: ClassVar[bool] = False

    @abstractmethod
    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""


class Sizes(ComponentParams):
    """Sizes and dropout of all built-in models."""

    hidden: int = Field(default=64, ge=1, description="Columns of each layer.")
    dropout: float = Field(default=0.5, ge=0, lt=1, description="Share of entries dropped after each layer.")


class Head(nn.Module):
    """Linear, ReLU, dropout, linear.

    Args:
        num_networks: S.
        hidden: Columns in and between.
        num_classes: Columns out.
        dropout: Rate.
    """

    def __init__(self, num_networks: int, hidden: int, num_classes: int, dropout: float) -> None:
        super().__init__()
        self.linear1 = Linear(num_networks, hidden, hidden)
        self.linear2 = Linear(num_networks, hidden, num_classes)
        self.dropout = dropout

    def forward(self, rows: Tensor, layout: Layout) -> Tensor:
        """Return the logits."""
        hidden = layout.dropout(torch.relu(self.linear1(rows, layout)), self.dropout)
        logits: Tensor = self.linear2(hidden, layout)
        return logits


class HeadedStack(Stack):
    """S networks with an MLP head.

    Args:
        num_networks: S.
        num_classes: C.
        params: Sizes and dropout.
        body: The layers before the head, by name. Initial parameters are drawn in this order, the
            head's last.
    """

    def __init__(self, num_networks: int, num_classes: int, params: Sizes, body: Mapping[str, nn.Module]) -> None:
        super().__init__(params.hidden, num_classes)
        self.dropout = params.dropout
        for name, layer in body.items():
            self.add_module(name, layer)
        self.mlp = Head(num_networks, params.hidden, num_classes, params.dropout)

    def head(self, rows: Tensor, layout: Layout) -> Tensor:
        """Return the logits."""
        logits: Tensor = self.mlp(rows, layout)
        return logits


class LayeredStack(HeadedStack):
    """S networks of consecutive layers, each followed by activation and dropout, and an MLP head.

    Args:
        num_networks: S.
        num_classes: C.
        params: Sizes and dropout.
        convolutions: The layers, `conv1`, `conv2`, ...; the last has `params.hidden` output columns.
        activation: Applied elementwise.
        others: Other modules before the head, by name.
    """

    def __init__(
        self,
        num_networks: int,
        num_classes: int,
        params: Sizes,
        convolutions: Sequence[nn.Module],
        activation: Callable[[Tensor], Tensor] = torch.relu,
        others: Mapping[str, nn.Module] | None = None,
    ) -> None:
        named = {f"conv{number}": convolution for number, convolution in enumerate(convolutions, 1)}
        super().__init__(num_networks, num_classes, params, {**named, **(others or {})})
        self._names = list(named)
        self._activation = activation

    def outputs(self, layout: Layout) -> list[Tensor]:
        """Return the outputs of each layer."""
        rows: list[Tensor] = []
        for name in self._names:
            convolved = self.get_submodule(name)(rows[-1] if rows else layout.features, layout)
            rows.append(layout.dropout(self._activation(convolved), self.dropout))
        return rows

    def embed(self, layout: Layout) -> Tensor:
        """Return the outputs of the last layer."""
        return self.outputs(layout)[-1]

    def convolutions(self) -> dict[str, int]:
        """Return all layers, or none where one of them passes no messages."""
        modules = {name: self.get_submodule(name) for name in self._names}
        if any(type(module) is Linear for module in modules.values()):
            return {}
        return {name: _columns(module) for name, module in modules.items()}


def _columns(module: nn.Module) -> int:
    *_, last = (part for part in module.modules() if isinstance(part, StackedLayer))
    return last.shapes["bias"][0]
