"""The gradient of the retained nodes, from those of few nodes (Yang et al., 2025, Rectify)."""

from __future__ import annotations

from torch import Tensor


def retained_gradient(
    whole: list[Tensor],
    removed: list[Tensor],
    before: list[Tensor],
    after: list[Tensor],
    sizes: tuple[int, int, int],
) -> list[Tensor]:
    """Return the gradient of the mean loss of what is retained, without a pass over all of it.

    Only the losses of the removed nodes are gone, and only those of their neighbourhood have changed:

        n_retained g_retained = n g - n_removed g_removed - n_near g_near + n_near g'_near

    Exact if all gradients are taken at the same parameters and no node beyond the neighbourhood has another loss.

    Args:
        whole: g, of the mean loss of all nodes on the former graph, one tensor per parameter.
        removed: g_removed, of the removed nodes on the former graph.
        before: g_near, of the neighbourhood on the former graph.
        after: g'_near, of the neighbourhood on the retained graph.
        sizes: n, n_removed and n_near.
    """
    total, gone, changed = sizes
    return [
        (total * a - gone * b - changed * c + changed * d) / (total - gone)
        for a, b, c, d in zip(whole, removed, before, after, strict=True)
    ]
