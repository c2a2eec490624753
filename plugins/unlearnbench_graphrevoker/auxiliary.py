"""The auxiliary losses of the aggregator (Zhang et al., WWW 2024, section 4.2), as functions of cosines."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

ContrastForm = Literal["per-node", "paper", "released"]
MarginSign = Literal["intended", "paper"]

# Keeps the direction of a zero vector, and its gradient, finite.
EPSILON = 1e-8


def directions(vectors: Tensor) -> Tensor:
    """Scale vectors [..., d] to length one; a zero vector remains zero."""
    length: Tensor = torch.linalg.vector_norm(vectors, dim=-1, keepdim=True)
    return vectors / length.clamp(min=EPSILON)


def cosines(left: Tensor, right: Tensor) -> Tensor:
    """Return the inner products of two stacks of directions, row by row: [..., d] to [...]."""
    return (left * right).sum(dim=-1)


def mean_where(values: Tensor, where: Tensor) -> Tensor:
    """Return the mean of the values in a mask; 0 if it is empty.

    Args:
        values: float [B].
        where: bool [B].
    """
    return torch.where(where, values, 0).sum() / where.sum().clamp(min=1)


def contrastive_loss(
    positive: Tensor, across: Tensor, within: Tensor, where: Tensor, temperature: float, form: ContrastForm
) -> Tensor:
    """Return L_contra: a node's local view should be similar to its global one, and another node's views dissimilar.

    With p, a, w the exponentials of the three cosines divided by the temperature, the loss of
    a node is -log(p / (p + a + w)).

    Args:
        positive: float [B], cosine of the global and the local view of u.
        across: float [B], cosine of the global views of u and v.
        within: float [B], cosine of the global view of u and the local view of v.
        where: bool [B], nodes that have a v.
        temperature: tau.
        form: `per-node`: the mean of the nodes' losses. `paper`: the printed fraction, which is
            inverted: its minimum makes positives dissimilar. `released`: cosines are averaged over
            the batch first, as in the public code.

    Returns:
        A scalar; 0 if no node has a v.
    """
    if form == "released":
        if not bool(where.any()):
            return positive.sum() * 0
        positive, across, within = (mean_where(value, where)[None] for value in (positive, across, within))
        where = where.new_ones(1)
    logits = torch.stack([positive, across, within]) / temperature
    losses = torch.logsumexp(logits, dim=0) - logits[0]
    return mean_where(-losses if form == "paper" else losses, where)


def reconstruction_loss(neighbour: Tensor, stranger: Tensor, where: Tensor, margin: float, sign: MarginSign) -> Tensor:
    """Return L_recon: a neighbour in another shard should be more similar to u than a non-neighbour.

    Args:
        neighbour: float [B], cosine of the global views of u and v+.
        stranger: float [B], cosine of the global views of u and v-.
        where: bool [B], nodes that have both.
        margin: The required difference.
        sign: `intended`: max(0, stranger - neighbour + margin). `paper`: the printed formula,
            with the cosines exchanged.

    Returns:
        A scalar; 0 if no node has both.
    """
    gap = stranger - neighbour if sign == "intended" else neighbour - stranger
    return mean_where((gap + margin).clamp(min=0), where)
