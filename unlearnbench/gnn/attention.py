"""Attention layers of stacked networks."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.gnn.features import Features
from unlearnbench.gnn.layers import StackedLayer, glorot_bound, padded
from unlearnbench.gnn.layout import Layout

NEGATIVE_SLOPE = 0.2


class AttentionConv(StackedLayer):
    """Base of both attention layers: heads and the layout of their rows.

    Args:
        num_networks: S.
        shapes: As in `StackedLayer`.
        raw: The rows are input features.
        blocks: As in `StackedLayer`.
        heads: H.
        channels: C, columns of each head; the result has H * C columns, padded.
    """

    def __init__(
        self,
        num_networks: int,
        shapes: dict[str, tuple[int, ...]],
        raw: bool,
        blocks: dict[str, int],
        heads: int,
        channels: int,
    ) -> None:
        super().__init__(num_networks, shapes, raw, blocks)
        self.heads = heads
        self.channels = channels

    def _by_head(self, rows: Tensor) -> Tensor:
        """Reshape to one row per head: [n, padded H * C] to [n * H, C]."""
        return rows[:, : self.heads * self.channels].reshape(-1, self.channels)

    def _together(self, rows: Tensor) -> Tensor:
        """Undo `_by_head`."""
        width = self.heads * self.channels
        missing = padded(width) - width
        return functional.pad(rows.view(-1, width), (0, missing)) if missing else rows.view(-1, width)


class GATConv(AttentionConv):
    """Graph attention (Velickovic et al., 2018, equations 1 to 5): concatenated heads; Glorot initialisation.

    `attention` is [2, H * C]: the vectors that score a head's row as a source and as a target.

    Args:
        num_networks: S.
        inputs: Columns in.
        heads: H.
        channels: C, columns of each head.
        raw: The rows are input features.
    """

    attention: Tensor
    _which_head: Tensor

    def __init__(self, num_networks: int, inputs: int, heads: int, channels: int, raw: bool = False) -> None:
        width = heads * channels
        shapes = {"weight": (inputs, width), "attention": (2, width), "bias": (width,)}
        super().__init__(num_networks, shapes, raw, {"attention": 0}, heads, channels)
        self._columns = padded(2 * heads) // 2
        which_head = torch.zeros(padded(width), 1, self._columns)
        column = torch.arange(width)
        which_head[column, 0, column // channels] = 1
        self.register_buffer("_which_head", which_head, persistent=False)

    def bound(self, name: str) -> float:
        """Return Glorot's bound for the weight and, of the shape [H, C], for the attention; 0 for the bias."""
        shapes = {"weight": self.shapes["weight"], "attention": (self.heads, self.channels)}
        return glorot_bound(shapes[name]) if name in shapes else 0.0

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Multiply with the weight, then sum the sources weighted by attention."""
        values = layout.linear(rows, self.weight)
        scores = layout.linear(values, self._score_weight())
        edges = layout.edges(self.heads)

        def attend(values: Tensor, scores: Tensor) -> Tensor:
            source = scores[:, : self.heads].reshape(-1)
            target = scores[:, self._columns : self._columns + self.heads].reshape(-1)
            score = functional.leaky_relu(edges.sources.take(source) + edges.targets.take(target), NEGATIVE_SLOPE)
            return self._together(edges.weighted_sum(edges.softmax(score), self._by_head(values)))

        return layout.per_network(attend, values, scores) + layout.spread(self.bias)

    def _score_weight(self) -> Tensor:
        """Arrange the attention so that one product yields both scores of each head: [S, H * C, 2 * columns]."""
        attention = self.attention.unflatten(1, (2, -1)).transpose(1, 2).unsqueeze(3)
        weight: Tensor = (attention * self._which_head).flatten(2)
        return weight


class GATv2Conv(AttentionConv):
    """Attention whose scores depend on the pair (Brody et al., 2022, equation 7): concatenated heads.

    `weight` [inputs, 2, H * C] and `linear_bias` [2, H * C] hold the parameters for the node as a
    source and as a target; `attention` is [1, H * C]. Glorot initialisation.

    Args:
        num_networks: S.
        inputs: Columns in.
        heads: H.
        channels: C, columns of each head.
        raw: The rows are input features.
    """

    attention: Tensor
    linear_bias: Tensor

    def __init__(self, num_networks: int, inputs: int, heads: int, channels: int, raw: bool = False) -> None:
        width = heads * channels
        shapes = {"weight": (inputs, 2, width), "linear_bias": (2, width), "attention": (width,), "bias": (width,)}
        super().__init__(num_networks, shapes, raw, {"weight": 1, "linear_bias": 0}, heads, channels)

    def bound(self, name: str) -> float:
        """Return Glorot's bounds, 1 / sqrt(inputs) for the bias of both products, 0 for that of the result."""
        inputs, _, width = self.shapes["weight"]
        bounds = {
            "weight": glorot_bound((inputs, width)),
            "linear_bias": 1 / math.sqrt(inputs),
            "attention": glorot_bound((self.heads, self.channels)),
        }
        return bounds.get(name, 0.0)

    def forward(self, rows: Tensor | Features, layout: Layout) -> Tensor:
        """Multiply with both weights, then sum the sources weighted by attention."""
        source, target = layout.cut(layout.linear(rows, self.weight) + layout.spread(self.linear_bias), 2)
        edges = layout.edges(self.heads)

        def attend(source: Tensor, target: Tensor, attention: Tensor) -> Tensor:
            values = self._by_head(source)
            both = edges.sources.take(values) + edges.targets.take(self._by_head(target))
            weight = edges.targets.take(self._by_head(attention))
            score = (functional.leaky_relu(both, NEGATIVE_SLOPE) * weight).sum(dim=1)
            return self._together(edges.weighted_sum(edges.softmax(score), values))

        # A layout may return one row for all rows; each needs its own here.
        attention = layout.spread(self.attention).expand(len(source), -1)
        return layout.per_network(attend, source, target, attention) + layout.spread(self.bias)
