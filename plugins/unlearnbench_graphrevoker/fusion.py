"""Attentive fusion: projections of the members' embeddings, attention weights, and a classifier."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import torch
from torch import Tensor, nn

AttentionForm = Literal["layered", "paper"]
FusionForm = Literal["projected", "paper"]
MaskForm = Literal["softmax", "paper"]
Initial = Literal["glorot", "normal"]


@dataclass(frozen=True)
class Design:
    """The formulas of the fusion.

    Args:
        attention: `layered`: s_i = h^T relu(z_i Wa + ba). `paper`: s_i = h^T z_i.
        fused: `projected`: sum_i alpha_i z_i. `paper`: (1/S) sum_i alpha_i e_i, unprojected.
        local: How a mask m defines a local view. `softmax`: only members kept enter the softmax.
            `paper`: weights are multiplied by m and by S/|m|.
        temperature: Divides the scores before the softmax.
        projection_width: Columns of z.
        attention_width: Columns of Wa.
        initial: `glorot`, biases zero; or `normal`: every weight and projection bias from N(0, 0.01^2).
    """

    attention: AttentionForm = "layered"
    fused: FusionForm = "projected"
    local: MaskForm = "softmax"
    temperature: float = 2.0
    projection_width: int = 128
    attention_width: int = 16
    initial: Initial = "glorot"


class Fusion(nn.Module):
    """Fuses the embeddings of S members for a node into one, and classifies it.

    Args:
        num_members: S, without retired members.
        embedding_size: d.
        num_classes: C.
        design: The formulas.
        generator: Draws the initial weights.
    """

    def __init__(
        self, num_members: int, embedding_size: int, num_classes: int, design: Design, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.design = design
        width = design.projection_width
        self.projection = self._draw((num_members, embedding_size, width), generator)
        # The public code draws the biases of the projections like their weights.
        self.projection_bias = (
            self._draw((num_members, width), generator)
            if design.initial == "normal"
            else nn.Parameter(torch.zeros(num_members, width))
        )
        scored = width
        if design.attention == "layered":
            scored = design.attention_width
            self.attention = self._draw((width, scored), generator)
            self.attention_bias = nn.Parameter(torch.zeros(scored))
        self.score = self._draw((scored, 1), generator)
        fused = width if design.fused == "projected" else embedding_size
        self.classifier = self._draw((fused, num_classes), generator)
        self.classifier_bias = nn.Parameter(torch.zeros(num_classes))

    def _draw(self, shape: tuple[int, ...], generator: torch.Generator) -> nn.Parameter:
        weight = torch.empty(shape)
        if self.design.initial == "normal":
            return nn.Parameter(weight.normal_(0, 0.01, generator=generator))
        bound = math.sqrt(6 / (shape[-2] + shape[-1]))
        return nn.Parameter(weight.uniform_(-bound, bound, generator=generator))

    def scores(self, embeddings: Tensor) -> tuple[Tensor, Tensor]:
        """Project and score.

        Args:
            embeddings: float32 [S, n, d].

        Returns:
            float32 [S, n, p], the projections z; float32 [n, S], the scores, divided by the temperature.
        """
        projected = torch.baddbmm(self.projection_bias.unsqueeze(1), embeddings, self.projection).relu_()
        hidden = projected.flatten(end_dim=1)
        if self.design.attention == "layered":
            hidden = torch.addmm(self.attention_bias, hidden, self.attention).relu_()
        scores = (hidden @ self.score).view(projected.shape[:2]).t()
        return projected, scores / self.design.temperature

    def weights(self, scores: Tensor) -> Tensor:
        """Return the attention of the global view, alpha: float32 [n, S], rows sum to one."""
        return torch.softmax(scores, dim=1)

    def local_weights(self, scores: Tensor, mask: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Return the attention of a local view.

        Args:
            scores: float32 [n, S], -inf for members not allowed.
            mask: bool [n, S], members kept, at least one in each row.
            allowed: bool [n, S], members allowed; None: all. Where none of them is kept, all of them are.

        Returns:
            float32 [n, S], 0 for members not kept.
        """
        if allowed is not None:
            kept_and_allowed = mask & allowed
            mask = torch.where(kept_and_allowed.any(dim=1, keepdim=True), kept_and_allowed, allowed)
        if self.design.local == "softmax":
            return torch.softmax(scores.masked_fill(~mask, float("-inf")), dim=1)
        kept = mask.to(scores.dtype)
        count = mask.shape[1] if allowed is None else allowed.sum(dim=1, keepdim=True)
        return self.weights(scores) * kept * (count / kept.sum(dim=1, keepdim=True))

    def fuse(self, weights: Tensor, projected: Tensor, embeddings: Tensor) -> Tensor:
        """Return weighted sums of the members.

        Args:
            weights: float32 [n, k, S], for k views of each node.
            projected: float32 [S, n, p].
            embeddings: float32 [S, n, d].

        Returns:
            float32 [n, k, p], or [n, k, d] for the paper's form.
        """
        if self.design.fused == "projected":
            return torch.bmm(weights, projected.transpose(0, 1))
        return torch.bmm(weights, embeddings.transpose(0, 1)) / embeddings.shape[0]

    def classify(self, fused: Tensor) -> Tensor:
        """Return logits [n, C] of the global views [n, p]."""
        return torch.addmm(self.classifier_bias, fused, self.classifier)

    def forward(self, embeddings: Tensor, allowed: Tensor | None = None) -> Tensor:
        """Return logits: float32 [S, n, d] to [n, C]; `allowed` as in `masked`."""
        projected, scores = self.scores(embeddings)
        scores = masked(scores, allowed)
        return self.classify(self.fuse(self.weights(scores).unsqueeze(1), projected, embeddings).squeeze(1))

    def named(self) -> Mapping[str, Tensor]:
        """Return every parameter, detached."""
        return {name: value.detach() for name, value in self.named_parameters()}


def masked(scores: Tensor, allowed: Tensor | None) -> Tensor:
    """Set scores of members that are not allowed for a node to -inf, out of the softmax.

    Args:
        scores: float32 [n, S].
        allowed: bool [n, S], at least one in each row; None: all.
    """
    return scores if allowed is None else scores.masked_fill(~allowed, float("-inf"))
