"""The attention network of RecEraser, with a linear head for classes."""

from __future__ import annotations

import math
from collections.abc import Mapping

import torch
from torch import Tensor, nn

# Truncating a normal distribution at two standard deviations leaves this share of its variance.
CUT = 2.0
LEFT = 0.7737413


class AttentionNetwork(nn.Module):
    """Maps the embeddings of S members into one space and classifies their attention-weighted sum.

    z_i = e_i W_i + b_i; a_i = softmax_i(relu(z_i Wa + ba) h); the logits are (sum_i a_i z_i) V + c.

    Args:
        num_members: S, without retired members.
        size: d.
        num_classes: C.
        generator: Draws the initial weights: W and b Glorot normal, Wa normal of variance
            2/(d + d/2) before truncation, ba zero, h 0.01 throughout; V Glorot uniform, c zero.
    """

    def __init__(self, num_members: int, size: int, num_classes: int, generator: torch.Generator) -> None:
        super().__init__()
        width = max(1, size // 2)
        self.map = nn.Parameter(_normal((num_members, size, size), 2 / (size + size) / LEFT, generator))
        self.map_bias = nn.Parameter(_normal((num_members, size), 2 / (num_members + size) / LEFT, generator))
        self.attention = nn.Parameter(_normal((size, width), 2 / (size + width), generator))
        self.attention_bias = nn.Parameter(torch.zeros(width))
        self.score = nn.Parameter(torch.full((width,), 0.01))
        bound = math.sqrt(6 / (size + num_classes))
        self.classifier = nn.Parameter(torch.empty(size, num_classes).uniform_(-bound, bound, generator=generator))
        self.classifier_bias = nn.Parameter(torch.zeros(num_classes))

    def fuse(self, embeddings: Tensor, mask: Tensor | None = None) -> tuple[Tensor, Tensor]:
        """Sum the members weighted by attention.

        Args:
            embeddings: float32 [S, n, d].
            mask: bool [n, S], members to use for each node, at least one; None: all.

        Returns:
            float32 [n, d], the sums; float32 [n, S], the attention, 0 for masked members.
        """
        mapped = torch.baddbmm(self.map_bias.unsqueeze(1), embeddings, self.map)
        scores = ((mapped @ self.attention + self.attention_bias).relu() @ self.score).t()
        if mask is not None:
            scores = scores.masked_fill(~mask, float("-inf"))
        weights = torch.softmax(scores, dim=1)
        return torch.einsum("ns,snd->nd", weights, mapped), weights

    def classify(self, fused: Tensor) -> Tensor:
        """Return logits [n, C] of the sums [n, d]."""
        return torch.addmm(self.classifier_bias, fused, self.classifier)

    def penalty(self) -> Tensor:
        """Return half the sum of squares of W and b."""
        return (self.map.square().sum() + self.map_bias.square().sum()) / 2

    def named(self) -> Mapping[str, Tensor]:
        """Return every parameter, detached."""
        return {name: value.detach() for name, value in self.named_parameters()}


def _normal(shape: tuple[int, ...], variance: float, generator: torch.Generator) -> Tensor:
    """Draw from a normal distribution of mean 0 and the given variance, truncated at two standard deviations."""
    deviation = math.sqrt(variance)
    drawn = torch.empty(shape)
    return nn.init.trunc_normal_(drawn, std=deviation, a=-CUT * deviation, b=CUT * deviation, generator=generator)
