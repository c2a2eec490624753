"""The normalised adjacency of graph convolutions, and features propagated by it."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from unlearnbench.gnn import sparse
from unlearnbench.graph import Graph


def normalised(edge_index: Tensor, num_rows: int) -> sparse.SparseMatrix:
    """Give D^-1/2 (A + I) D^-1/2 of exactly these edges (Kipf and Welling, 2017).

    A row without edges is that of the identity.
    """
    edges, weight = gcn_norm(edge_index, None, num_rows, dtype=torch.float32)
    return sparse.from_edges(edges, num_rows, weight)


def propagated(graph: Graph, steps: int) -> Tensor:
    """Give a graph's features, so many times propagated: float32 [n, F]."""
    matrix, x = normalised(graph.edge_index, graph.num_nodes), graph.x
    for _ in range(steps):
        x = matrix @ x
    return x
