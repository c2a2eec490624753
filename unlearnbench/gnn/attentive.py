"""Base models with attention: `gat` and `gatv2`."""

from __future__ import annotations

from typing import Self

from pydantic import Field, model_validator

from unlearnbench.gnn.attention import GATConv, GATv2Conv
from unlearnbench.gnn.elu import elu
from unlearnbench.gnn.models import LayeredStack, Sizes, Stack, StackedModel


class AttentionSizes(Sizes):
    """Sizes, heads and dropout."""

    heads: int = Field(default=8, ge=1, description="Heads of the first layer, side by side; the second has one.")

    @model_validator(mode="after")
    def _heads_divide_hidden(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} cannot be shared among heads={self.heads} equally")
        return self


class GAT(StackedModel):
    """Two attention layers, eight heads side by side and then one, and an MLP head."""

    name = "gat"
    version = 1
    summary = "Attention with 8 heads of 8, then one head of 64, MLP head."
    reference = "Velickovic et al., Graph Attention Networks, ICLR 2018"

    class Params(AttentionSizes):
        """Sizes, heads and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Make S networks with all parameters zero."""
        hidden, heads = self.params.hidden, self.params.heads
        convolutions = [
            GATConv(num_networks, num_features, heads, hidden // heads, raw=True),
            GATConv(num_networks, hidden, 1, hidden),
        ]
        return LayeredStack(num_networks, num_classes, self.params, convolutions, elu)


class GATv2(StackedModel):
    """As `gat`, with scores that depend on source and target together."""

    name = "gatv2"
    version = 1
    summary = "Attention of the second kind with 8 heads of 8, then one head of 64, MLP head."
    reference = "Brody, Alon and Yahav, How Attentive are Graph Attention Networks?, ICLR 2022"

    class Params(AttentionSizes):
        """Sizes, heads and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Make S networks with all parameters zero."""
        hidden, heads = self.params.hidden, self.params.heads
        convolutions = [
            GATv2Conv(num_networks, num_features, heads, hidden // heads, raw=True),
            GATv2Conv(num_networks, hidden, 1, hidden),
        ]
        return LayeredStack(num_networks, num_classes, self.params, convolutions, elu)
