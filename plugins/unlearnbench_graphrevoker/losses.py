"""The partition losses of GraphRevoker in sparse form.

With P [N, S] the probabilities of the shards (rows sum to one) and the directed edges of the
graph, the losses need only expectations that cost O(|E| S + N S): no N x N matrix is formed.
Source: Zhang et al., WWW 2024, section 4.1 and the appendix on the partition loss.
"""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor

from unlearnbench.gnn import SparseMatrix, sparse

TimeForm = Literal["normalised", "paper", "released"]
SemanticSign = Literal["intended", "paper"]
SemanticForm = Literal["mean", "released"]

# Added to logarithms and denominators of (nearly) empty shards, so that values and gradients are finite.
EPSILON = 1e-8


def adjacency_matrix(
    edge_index: Tensor, num_nodes: int, dtype: torch.dtype = torch.float32, edge_weight: Tensor | None = None
) -> SparseMatrix:
    """Return A of the losses, without self-loops, since no partition can cut them.

    Args:
        edge_index: int64 [2, E]; a duplicate edge counts twice.
        num_nodes: N.
        dtype: Of the entries.
        edge_weight: float [E], the entries; None: all 1. With weights all that the losses count is weight.

    Returns:
        [N, N]; row v holds the sources of the edges into v.
    """
    kept = edge_index[0] != edge_index[1]
    edge_index = edge_index[:, kept]
    if edge_weight is None:
        weight = torch.ones(edge_index.shape[1], dtype=dtype, device=edge_index.device)
    else:
        weight = edge_weight[kept].to(dtype)
    return sparse.from_edges(edge_index, num_nodes, weight)


def label_matrix(labels: Tensor, num_classes: int, dtype: torch.dtype = torch.float32) -> SparseMatrix:
    """Return Y^T [C, N], the transposed one-hot labels; a node without label (-1) has no entry.

    Args:
        labels: int64 [N].
        num_classes: C.
        dtype: Of the entries.
    """
    node = torch.nonzero(labels >= 0).squeeze(1)
    value = torch.ones(len(node), dtype=dtype, device=labels.device)
    return sparse.from_entries(labels[node], node, value, (num_classes, len(labels)))


def expected_edges(assignment: Tensor, adjacency: SparseMatrix) -> Tensor:
    """Return e_k, the expected number of directed edges with both ends in shard k: [S].

    Args:
        assignment: float [N, S], P.
        adjacency: [N, N].
    """
    return (assignment * (adjacency @ assignment)).sum(dim=0)


def expected_volumes(assignment: Tensor, out_degree: Tensor) -> Tensor:
    """Return vol_k, the expected number of directed edges that start in shard k: [S].

    Args:
        assignment: float [N, S], P.
        out_degree: float [N].
    """
    return out_degree @ assignment


def time_loss(nodes: Tensor, edges: Tensor, num_nodes: int, num_edges: float, form: TimeForm) -> Tensor:
    """Return L_time, the expected retraining time of the shard of a random node.

    Args:
        nodes: float [S], expected nodes n_k.
        edges: float [S], expected directed edges e_k.
        num_nodes: N.
        num_edges: |E|, directed, or the total weight of the edges.
        form: `paper`: sum_k n_k e_k / N, which grows with the graph. `normalised`: the same
            divided by |E|, in [0, 1]. `released`: sum_k of the cube root of (n_k/N)^2 e_k/|E|, as in
                the public code; it is concave and does not favour balance.

    Returns:
        A scalar; 0 (up to epsilon) for a graph without edges.
    """
    share = nodes / num_nodes
    if form == "paper":
        return (share * edges).sum()
    edge_share = edges / (num_edges or 1)
    if form == "normalised":
        return (share * edge_share).sum()
    # The derivative of the cube root is infinite at 0.
    return (share.square() * edge_share).clamp(min=EPSILON**2).pow(1 / 3).sum()


def structure_loss(edges: Tensor, volumes: Tensor) -> Tensor:
    """Return L_struct, the normalised cut: sum_k (vol_k - e_k) / vol_k, where 0/0 counts as 0.

    Args:
        edges: float [S], expected directed edges e_k.
        volumes: float [S], expected volumes vol_k.

    Returns:
        A scalar in [0, S].
    """
    # Written as 1 - e/vol: the gradient of this form is bounded when a shard empties.
    return ((volumes > 0).to(edges.dtype) - edges / volumes.clamp(min=EPSILON)).sum()


def label_entropies(assignment: Tensor, labels: SparseMatrix) -> Tensor:
    """Return H_k, the entropy in nats of the expected label distribution of shard k: [S].

    Args:
        assignment: float [N, S], P.
        labels: [C, N], from `label_matrix`.
    """
    counts = labels @ assignment
    share = counts / counts.sum(dim=0).clamp(min=EPSILON)
    return -(share * (share + EPSILON).log()).sum(dim=0)


def semantic_loss(entropies: Tensor, num_classes: int, sign: SemanticSign, form: SemanticForm) -> Tensor:
    """Return L_sem from the label entropies of the shards.

    Args:
        entropies: float [S], H_k.
        num_classes: C.
        sign: `intended`: minimising the loss makes shards diverse in labels, as the text of the
            paper intends. `paper`: the printed formula, whose minimum is shards of one label each.
        form: `mean` over the shards (the paper's), or `released`: sum over shards divided by C.

    Returns:
        A scalar.
    """
    size = entropies.mean() if form == "mean" else entropies.sum() / num_classes
    return -size if sign == "intended" else size
