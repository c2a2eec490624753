"""Likelihood ratios, one for each target: what its other worlds say about a world."""

from __future__ import annotations

import copy

import torch
from torch import Tensor

from unlearnbench.audits.leakage.attack import Attacker

# Each tenth of a target's worlds is scored by what the others show.
WORLD_FOLDS = 10
# Added to the variances of features, as a share of their mean: some features are nearly sums of others.
_RIDGE = 1e-3


class RatioAttacker:
    """Scores worlds by a likelihood ratio for each target.

    An attacker who simulates partitions with a target and without learns what is usual for this target. The
    simulated partitions are the target's other worlds. Of two worlds 2 k and 2 k + 1 one has the target; they are
    left out together, so that as many with it are known as without.

    There are two ratios. That of naive Bayes on which pairs of nodes around the target are in one shard is divided by
    the root of the number of pairs, as these depend on each other. That of linear discriminants on features has means
    by target and one covariance matrix. A logistic regression trained on the other targets' ratios and features
    weighs them.

    Args:
        together: bool [T, W, p].
        features: float64 [T, W, d], means over the worlds of a target subtracted.
        more: float64 [T, W, h], features that only the logistic regression uses; h may be 0.
        fold: int64 [T], folds of targets.
    """

    def __init__(self, together: Tensor, features: Tensor, more: Tensor, fold: Tensor) -> None:
        self._together, self._features = together.double(), features
        self._pairs = together.any(dim=1).sum(dim=1).clamp(min=1).double().sqrt()[:, None]
        covariance = torch.atleast_2d(features.flatten(0, 1).t().cov())
        ridge = _RIDGE * covariance.diag().mean() * torch.eye(len(covariance), dtype=torch.float64)
        self._precision = torch.linalg.pinv(covariance + ridge, hermitian=True)
        self._direct = torch.cat([features, more], dim=2)
        # By the bytes of `present`; attackers with the same worlds share them.
        self._known: dict[bytes, Tensor] = {}
        self._fold = fold.repeat_interleave(features.shape[1])

    def scores(self, present: Tensor) -> Tensor:
        """Return the log-odds of the presence of each target in each of its worlds, float64 [T * W].

        `present` is bool [T, W], exactly one of the worlds 2 k and 2 k + 1.
        """
        rows = torch.cat([self.ratios(present), self._direct], dim=2).flatten(0, 1)
        return Attacker(rows, self._fold).scores(present.flatten())

    def with_more(self, more: Tensor) -> RatioAttacker:
        """Return an attacker with other `more` features, who has the same ratios."""
        other = copy.copy(self)
        other._direct = torch.cat([self._features, more], dim=2)
        return other

    def ratios(self, present: Tensor) -> Tensor:
        """Return the two log-likelihood ratios, float64 [T, W, 2]."""
        key = present.numpy().tobytes()
        if key not in self._known:
            self._known[key] = self._ratios(present)
        return self._known[key]

    def _ratios(self, present: Tensor) -> Tensor:
        ratios = torch.zeros(*present.shape, 2, dtype=torch.float64)
        sides = [side.double()[:, None] for side in (present, ~present)]
        together, features = ([(side @ values)[:, 0] for side in sides] for values in (self._together, self._features))
        fold = torch.arange(present.shape[1]) // 2 % WORLD_FOLDS
        for number in torch.unique(fold).tolist():
            held = fold == number
            pairs, values = self._together[:, held], self._features[:, held]
            count = int((~held).sum()) // 2
            others = [side[:, :, held] for side in sides]
            # Laplace's rule of succession: nothing is certain after a few worlds.
            p, q = (
                (total - (side @ pairs)[:, 0] + 1) / (count + 2) for total, side in zip(together, others, strict=True)
            )
            yes, no = (p / q).log(), ((1 - p) / (1 - q)).log()
            ratios[:, held, 0] = _products(pairs, yes - no) + no.sum(dim=1, keepdim=True)
            upper, lower = (
                (total - (side @ values)[:, 0]) / count for total, side in zip(features, others, strict=True)
            )
            middle = (upper + lower)[:, None] / 2
            ratios[:, held, 1] = _products(values - middle, (upper - lower) @ self._precision)
        ratios[:, :, 0] /= self._pairs
        return ratios


def _products(rows: Tensor, weights: Tensor) -> Tensor:
    return (rows @ weights[:, :, None])[:, :, 0]
