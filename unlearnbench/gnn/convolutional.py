"""Base models made of convolutions without attention: `sage`, `jknet`, `gin`, and `mlp`, the control."""

from __future__ import annotations

from pydantic import Field
from torch import Tensor

from unlearnbench.gnn.layers import GCNConv, GINConv, JumpingLinear, Linear, SAGEConv
from unlearnbench.gnn.layout import Layout
from unlearnbench.gnn.models import LayeredStack, Sizes, Stack, StackedModel


class SAGE(StackedModel):
    """Two GraphSAGE layers with mean aggregation and an MLP head."""

    name = "sage"
    version = 1
    summary = "Two GraphSAGE layers of 64 with mean aggregation, MLP head."
    reference = "Hamilton, Ying and Leskovec, Inductive Representation Learning on Large Graphs, NeurIPS 2017"

    class Params(Sizes):
        """Sizes and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Make S networks with all parameters zero."""
        hidden = self.params.hidden
        convolutions = [SAGEConv(num_networks, num_features, hidden, raw=True), SAGEConv(num_networks, hidden, hidden)]
        return LayeredStack(num_networks, num_classes, self.params, convolutions)


class GIN(StackedModel):
    """Two graph isomorphism layers, each with a two-layer MLP, epsilon 0, no batch norm, and an MLP head."""

    name = "gin"
    version = 1
    summary = "Two graph isomorphism layers of 64 (sum, two-layer MLP), MLP head."
    reference = "Xu, Hu, Leskovec and Jegelka, How Powerful are Graph Neural Networks?, ICLR 2019"

    class Params(Sizes):
        """Sizes and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Make S networks with all parameters zero."""
        hidden = self.params.hidden
        convolutions = [GINConv(num_networks, num_features, hidden, raw=True), GINConv(num_networks, hidden, hidden)]
        return LayeredStack(num_networks, num_classes, self.params, convolutions)


class MLP(StackedModel):
    """Two linear layers and an MLP head: no edge is ever looked at, the control for what a graph adds."""

    name = "mlp"
    version = 1
    summary = "Two linear layers of 64, MLP head: no graph, the control."
    reference = "Goodfellow, Bengio and Courville, Deep Learning, MIT Press 2016, chapter 6"

    class Params(Sizes):
        """Sizes and dropout."""

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Make S networks with all parameters zero."""
        hidden = self.params.hidden
        convolutions = [Linear(num_networks, num_features, hidden, raw=True), Linear(num_networks, hidden, hidden)]
        return LayeredStack(num_networks, num_classes, self.params, convolutions)


class JKNet(StackedModel):
    """Three graph convolutions, their outputs side by side, one linear layer over them and an MLP head."""

    name = "jknet"
    version = 1
    summary = "Three graph convolutions of 64, concatenated, a linear layer to 64, MLP head."
    reference = "Xu et al., Representation Learning on Graphs with Jumping Knowledge Networks, ICML 2018"

    class Params(Sizes):
        """Sizes and dropout."""

        layers: int = Field(default=3, ge=1, description="Graph convolutions.")

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Make S networks with all parameters zero."""
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
        """Combine what all convolutions give."""
        rows: Tensor = self.jump(self.outputs(layout), layout)
        return rows
