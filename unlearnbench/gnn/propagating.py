"""Base models whose propagation has no parameters: `appnp` and `sgc`."""

from __future__ import annotations

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench.gnn.layers import Linear, SGConv
from unlearnbench.gnn.layout import Layout
from unlearnbench.gnn.models import HeadedStack, Sizes, Stack, StackedModel
from unlearnbench.gnn.pagerank import pagerank


class APPNP(StackedModel):
    """Two linear layers, personalised PageRank and an MLP head; no edge is dropped."""

    name = "appnp"
    version = 1
    summary = "Two linear layers of 64, ten steps of personalised PageRank, MLP head."
    reference = "Gasteiger, Bojchevski and Günnemann, Predict then Propagate, ICLR 2019"

    class Params(Sizes):
        """Sizes, dropout and propagation."""

        steps: int = Field(default=10, ge=0, description="Propagation steps K.")
        alpha: float = Field(default=0.1, ge=0, le=1, description="Probability to go back to the start.")

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Make S networks with all parameters zero."""
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
        """Give the propagated rows; neither activation nor dropout follows."""
        rows = layout.dropout(torch.relu(self.linear1(layout.features, layout)), self.dropout)
        return pagerank(layout.gcn, self.linear2(rows, layout), self._steps, self._alpha)


class SGC(StackedModel):
    """Features propagated twice, one linear layer, without activation, and an MLP head."""

    name = "sgc"
    version = 2
    summary = "Features propagated twice, one linear layer to 64, MLP head."
    reference = "Wu et al., Simplifying Graph Convolutional Networks, ICML 2019"

    class Params(Sizes):
        """Sizes, dropout and propagation."""

        steps: int = Field(default=2, ge=0, description="Propagation steps K.")

    def stack(self, num_networks: int, num_features: int, num_classes: int) -> Stack:
        """Make S networks with all parameters zero."""
        return SGCStack(num_networks, num_features, num_classes, self.params)


class SGCStack(HeadedStack):
    """S simplified graph convolutions."""

    conv1: SGConv

    def __init__(self, num_networks: int, num_features: int, num_classes: int, params: SGC.Params) -> None:
        conv1 = SGConv(num_networks, num_features, params.hidden, params.steps, raw=True)
        super().__init__(num_networks, num_classes, params, {"conv1": conv1})

    def embed(self, layout: Layout) -> Tensor:
        """Give the linear rows; neither activation nor dropout follows."""
        rows: Tensor = self.conv1(layout.features, layout)
        return rows
