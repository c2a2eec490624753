"""The built-in base models."""

from __future__ import annotations

from typing import Self

import torch
from pydantic import Field, model_validator
from torch import Tensor

from unlearnbench.gnn.attention import GATConv, GATv2Conv
from unlearnbench.gnn.functional import elu, pagerank
from unlearnbench.gnn.layers import GCNConv, GINConv, JumpingLinear, Linear, SAGEConv, SGConv
from unlearnbench.gnn.layout import Layout
from unlearnbench.gnn.models import HeadedStack, LayeredStack, Sizes, Stack, StackedModel


class AttentionSizes(Sizes):
    """Sizes, heads and dropout."""

    heads: int = Field(default=8, ge=1, description="Heads of the first layer, side by side; the second has one.")

    @model_validator(mode="after")
    def _heads_divide_hidden(self) -> Self:
        if self.hidden % self.heads:
            raise ValueError(f"hidden={self.hidden} cannot be shared among heads={self.heads} equally")
        return self


class GAT(StackedModel):
    """Two attention layers, eight concatenated heads and then one, and an MLP head."""

    name = "gat"
    version = 1
    summary = "Attention with 8 heads of 8, then one head of 64, MLP head."
    reference = "Velickovic et al., Graph Attention Networks, ICLR 2018"

    class Params(AttentionSizes):
        """Sizes, heads and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        hidden, heads = self.params.hidden, self.params.heads
        convolutions = [
            GATConv(num_networks, num_features, heads, hidden // heads, raw=True),
            GATConv(num_networks, hidden, 1, hidden),
        ]
        return LayeredStack(num_networks, num_classes, self.params, convolutions, elu)


class GATv2(StackedModel):
    """Like `gat`, with scores that depend on source and target jointly."""

    name = "gatv2"
    version = 1
    summary = "Attention of the second kind with 8 heads of 8, then one head of 64, MLP head."
    reference = "Brody, Alon and Yahav, How Attentive are Graph Attention Networks?, ICLR 2022"

    class Params(AttentionSizes):
        """Sizes, heads and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        hidden, heads = self.params.hidden, self.params.heads
        convolutions = [
            GATv2Conv(num_networks, num_features, heads, hidden // heads, raw=True),
            GATv2Conv(num_networks, hidden, 1, hidden),
        ]
        return LayeredStack(num_networks, num_classes, self.params, convolutions, elu)


class SAGE(StackedModel):
    """Two GraphSAGE layers with mean aggregation and an MLP head."""

    name = "sage"
    version = 1
    summary = "Two GraphSAGE layers of 64 with mean aggregation, MLP head."
    reference = "Hamilton, Ying and Leskovec, Inductive Representation Learning on Large Graphs, NeurIPS 2017"
    supports_edge_weight = True

    class Params(Sizes):
        """Sizes and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        hidden = self.params.hidden
        convolutions = [SAGEConv(num_networks, num_features, hidden, raw=True), SAGEConv(num_networks, hidden, hidden)]
        return LayeredStack(num_networks, num_classes, self.params, convolutions)


class GIN(StackedModel):
    """Two graph isomorphism layers, each with a two-layer MLP, epsilon 0, no batch norm, and an MLP head."""

    name = "gin"
    version = 1
    summary = "Two graph isomorphism layers of 64 (sum, two-layer MLP), MLP head."
    reference = "Xu, Hu, Leskovec and Jegelka, How Powerful are Graph Neural Networks?, ICLR 2019"
    supports_edge_weight = True

    class Params(Sizes):
        """Sizes and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        hidden = self.params.hidden
        convolutions = [GINConv(num_networks, num_features, hidden, raw=True), GINConv(num_networks, hidden, hidden)]
        return LayeredStack(num_networks, num_classes, self.params, convolutions)


class MLP(StackedModel):
    """Two linear layers and an MLP head: it uses no edges, as the control for what a graph adds."""

    name = "mlp"
    version = 1
    summary = "Two linear layers of 64, MLP head: no graph, the control."
    reference = "Goodfellow, Bengio and Courville, Deep Learning, MIT Press 2016, chapter 6"
    # Without messages a weight has no meaning: nothing of it is ignored.
    supports_edge_weight = True

    class Params(Sizes):
        """Sizes and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        hidden = self.params.hidden
        convolutions = [Linear(num_networks, num_features, hidden, raw=True), Linear(num_networks, hidden, hidden)]
        return LayeredStack(num_networks, num_classes, self.params, convolutions)


class JKNet(StackedModel):
    """Three graph convolutions, one linear layer of their concatenated outputs and an MLP head."""

    name = "jknet"
    version = 1
    summary = "Three graph convolutions of 64, concatenated, a linear layer to 64, MLP head."
    reference = "Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, ICML 2018"
    supports_edge_weight = True

    class Params(Sizes):
        """Sizes and dropout."""

        layers: int = Field(default=3, ge=1, description="Graph convolutions.")

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        return JKNetStack(num_networks, num_features, num_classes, self.params)


class JKNetStack(LayeredStack):
    """S jumping knowledge networks."""

    jump: JumpingLinear

    def __init__(self, num_networks: int, num_features: int, num_classes: int, params: JKNet.Params) -> None:
        hidden = params.hidden
        convolutions = [GCNConv(num_networks, num_features, hidden, raw=True)]
        convolutions += [GCNConv(num_networks, hidden, hidden) for _ in range(params.layers - 1)]
        jump = JumpingLinear(num_networks, params.layers, hidden, hidden)
        super().__init__(num_networks, num_classes, params, convolutions, others={"jump": jump})

    def embed(self, layout: Layout) -> Tensor:
        """Combine the outputs of all convolutions."""
        rows: Tensor = self.jump(self.outputs(layout), layout)
        return rows


class APPNP(StackedModel):
    """Two linear layers, personalised PageRank and an MLP head; no edge is dropped."""

    name = "appnp"
    version = 1
    summary = "Two linear layers of 64, ten steps of personalised PageRank, MLP head."
    reference = "Gasteiger, Bojchevski and Günnemann, Predict then Propagate, ICLR 2019"
    supports_edge_weight = True

    class Params(Sizes):
        """Sizes, dropout and propagation."""

        steps: int = Field(default=10, ge=0, description="Propagation steps K.")
        alpha: float = Field(default=0.1, ge=0, le=1, description="Probability to go back to the start.")

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        return APPNPStack(num_networks, num_features, num_classes, self.params)


class APPNPStack(HeadedStack):
    """S networks that predict, then propagate."""

    linear1: Linear
    linear2: Linear

    def __init__(self, num_networks: int, num_features: int, num_classes: int, params: APPNP.Params) -> None:
        linear1 = Linear(num_networks, num_features, params.hidden, raw=True)
        linear2 = Linear(num_networks, params.hidden, params.hidden)
        super().__init__(num_networks, num_classes, params, {"linear1": linear1, "linear2": linear2})
        self._steps, self._alpha = params.steps, params.alpha

    def embed(self, layout: Layout) -> Tensor:
        """Return the propagated rows; neither activation nor dropout follows."""
        rows = layout.dropout(torch.relu(self.linear1(layout.features, layout)), self.dropout)
        return pagerank(layout.gcn, self.linear2(rows, layout), self._steps, self._alpha)


class SGC(StackedModel):
    """Features propagated twice, one linear layer, without activation, and an MLP head."""

    name = "sgc"
    version = 2
    summary = "Features propagated twice, one linear layer to 64, MLP head."
    reference = "Wu et al., Simplifying Graph Convolutional Networks, ICML 2019"
    supports_edge_weight = True

    class Params(Sizes):
        """Sizes, dropout and propagation."""

        steps: int = Field(default=2, ge=0, description="Propagation steps K.")

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        return SGCStack(num_networks, num_features, num_classes, self.params)


class SGCStack(HeadedStack):
    """S simplified graph convolutions."""

    conv1: SGConv

    def __init__(self, num_networks: int, num_features: int, num_classes: int, params: SGC.Params) -> None:
        conv1 = SGConv(num_networks, num_features, params.hidden, params.steps, raw=True)
        super().__init__(num_networks, num_classes, params, {"conv1": conv1})

    def embed(self, layout: Layout) -> Tensor:
        """Return the linear layer's output; neither activation nor dropout follows."""
        rows: Tensor = self.conv1(layout.features, layout)
        return rows


class GCN(StackedModel):
    """Two graph convolutions and an MLP head (GraphRevoker paper, section "General Settings")."""

    name = "gcn"
    version = 1
    summary = "Two graph convolutions of 64, MLP head."
    reference = "Kipf and Welling, Semi-Supervised Classification with Graph Convolutional Networks, ICLR 2017"
    supports_edge_weight = True

    class Params(Sizes):
        """Sizes and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Build S networks with all parameters zero."""
        hidden = self.params.hidden
        convolutions = [GCNConv(num_networks, num_features, hidden, raw=True), GCNConv(num_networks, hidden, hidden)]
        return LayeredStack(num_networks, num_classes, self.params, convolutions)
