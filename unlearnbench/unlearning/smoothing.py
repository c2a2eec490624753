"""Smoothing of predictions over a graph, with known labels as anchors: nothing is trained."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.gnn import sparse
from unlearnbench.gnn.matrices import weighted_degree
from unlearnbench.graph.neighbours import hop_distance


def smooth(
    probabilities: Tensor,
    edge_index: Tensor,
    anchors: Tensor,
    anchor_labels: Tensor,
    share: float,
    rounds: int,
    targets: Tensor | None = None,
    edge_weight: Tensor | None = None,
) -> Tensor:
    """Smooth predictions over the edges of a graph (Huang et al., Correct and Smooth, ICLR 2021, equation 6).

    With T the predictions, one-hot labels in the rows of anchors, every round sets
    Z to share * D^-1/2 A D^-1/2 Z + (1 - share) T, starting at T.

    Args:
        probabilities: float [n, C], rows that sum to 1; those of anchors are not used.
        edge_index: int64 [2, E], source and target; a doubled edge counts twice.
        anchors: int64 [m], positions of the nodes whose labels are known.
        anchor_labels: int64 [m], their labels.
        share: Weight of the neighbours, in [0, 1).
        rounds: Number of rounds: a node is influenced by nodes within that many hops.
        targets: int64 [t], positions of the nodes to return; only the edges of their neighbourhood are used.
            Default: all nodes.
        edge_weight: float [E], the entries of A; None: all 1.

    Returns:
        float [t, C], rows that sum to 1.
    """
    truth = probabilities.clone()
    truth[anchors] = functional.one_hot(anchor_labels, probabilities.shape[1]).to(truth.dtype)
    weight = None if edge_weight is None else edge_weight.to(truth.dtype)
    if weight is None:
        scale = torch.bincount(edge_index[1], minlength=len(truth)).to(truth.dtype).clamp(min=1).rsqrt()
    else:
        total = weighted_degree(edge_index[1], len(truth), weight)
        scale = torch.where(total > 0, total, 1.0).rsqrt()
    wanted = torch.arange(len(truth), device=truth.device) if targets is None else targets
    if targets is not None:
        truth, scale, edge_index, wanted, inside = _neighbourhood(truth, scale, edge_index, targets, rounds)
        weight = None if weight is None else weight[inside]
    source, target = edge_index
    entries = share * scale[source] * scale[target]
    matrix = sparse.from_edges(edge_index, len(truth), entries if weight is None else entries * weight)
    smoothed = truth
    for _ in range(rounds):
        smoothed = matrix @ smoothed + (1 - share) * truth
    smoothed = smoothed[wanted]
    return smoothed / smoothed.sum(dim=1, keepdim=True)


def _neighbourhood(
    truth: Tensor, scale: Tensor, edge_index: Tensor, targets: Tensor, hops: int
) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
    """Return the rows, scales and edges that reach the targets within some hops.

    Then the targets' new positions, and which edges these are: bool [E].
    """
    origin = torch.zeros(len(truth), dtype=torch.bool, device=truth.device)
    origin[targets] = True
    distance = hop_distance(edge_index.flip(0), origin, hops, directed=True)
    nodes = torch.nonzero(distance <= hops)[:, 0]
    new = torch.empty(len(truth), dtype=torch.int64, device=truth.device)
    new[nodes] = torch.arange(len(nodes), device=truth.device)
    inside = distance[edge_index[1]] < hops
    return truth[nodes], scale[nodes], new[edge_index[:, inside]], new[targets], inside
