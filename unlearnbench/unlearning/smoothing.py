"""Smoothing of predictions over a graph, with known labels as anchors: nothing is trained."""

from __future__ import annotations

import torch
from torch import Tensor
from torch.nn import functional
from torch_geometric.utils import degree

from unlearnbench.gnn import sparse
from unlearnbench.graph.neighbours import hop_distance


def smooth(
    probabilities: Tensor,
    edge_index: Tensor,
    anchors: Tensor,
    anchor_labels: Tensor,
    share: float,
    rounds: int,
    targets: Tensor | None = None,
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

    Returns:
        float [t, C], rows that sum to 1.
    """
    truth = probabilities.clone()
    truth[anchors] = functional.one_hot(anchor_labels, probabilities.shape[1]).to(truth.dtype)
    scale = degree(edge_index[1], len(truth), dtype=truth.dtype).clamp(min=1).rsqrt()
    wanted = torch.arange(len(truth), device=truth.device) if targets is None else targets
    if targets is not None:
        truth, scale, edge_index, wanted = _neighbourhood(truth, scale, edge_index, targets, rounds)
    source, target = edge_index
    matrix = sparse.from_edges(edge_index, len(truth), share * scale[source] * scale[target])
    smoothed = truth
    for _ in range(rounds):
        smoothed = matrix @ smoothed + (1 - share) * truth
    smoothed = smoothed[wanted]
    return smoothed / smoothed.sum(dim=1, keepdim=True)


def _neighbourhood(
    truth: Tensor, scale: Tensor, edge_index: Tensor, targets: Tensor, hops: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return the rows, scales and edges that reach the targets within some hops, and the targets' new positions."""
    origin = torch.zeros(len(truth), dtype=torch.bool, device=truth.device)
    origin[targets] = True
    distance = hop_distance(edge_index.flip(0), origin, hops, directed=True)
    nodes = torch.nonzero(distance <= hops)[:, 0]
    new = torch.empty(len(truth), dtype=torch.int64, device=truth.device)
    new[nodes] = torch.arange(len(nodes), device=truth.device)
    edges = edge_index[:, distance[edge_index[1]] < hops]
    return truth[nodes], scale[nodes], new[edges], new[targets]
