"""Matrices that propagate rows over the edges of a graph, shared by layers and networks."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from unlearnbench.gnn import sparse
from unlearnbench.gnn.edges import Edges, attention_edges
from unlearnbench.graph import Graph


class Matrices:
    """The matrices of a graph, each built at first use.

    Args:
        edge_index: int64 [2, E], positions among the rows of a propagation.
        num_rows: Rows of a propagation.
    """

    def __init__(self, edge_index: Tensor, num_rows: int) -> None:
        self.edge_index = edge_index
        self.num_rows = num_rows
        self._edges: dict[int, Edges] = {}

    @cached_property
    def gcn(self) -> sparse.SparseMatrix:
        """D^-1/2 (A + I) D^-1/2 of exactly these edges (Kipf and Welling, 2017)."""
        return normalised(self.edge_index, self.num_rows)

    @cached_property
    def mean_and_own(self) -> sparse.SparseMatrix:
        """The matrix [n, 2 n] that averages even rows over incoming edges and adds the node's own odd row.

        Row 2 i is for node i as a neighbour, row 2 i + 1 for the node itself, as `block_rows` returns
        them. The average over no edges is zero.
        """
        source, target = self.edge_index
        degree = torch.bincount(target, minlength=self.num_rows)
        node = torch.arange(self.num_rows, device=target.device)
        row, column = torch.cat([target, node]), torch.cat([2 * source, 2 * node + 1])
        value = torch.cat([1 / degree[target].to(torch.float32), torch.ones(self.num_rows, device=target.device)])
        return sparse.from_entries(row, column, value, (self.num_rows, 2 * self.num_rows))

    @cached_property
    def total(self) -> sparse.SparseMatrix:
        """A + I: the matrix that sums over incoming edges and the node itself."""
        node = torch.arange(self.num_rows, device=self.edge_index.device)
        return sparse.from_edges(torch.cat([self.edge_index, node.expand(2, -1)], dim=1), self.num_rows)

    def edges(self, heads: int) -> Edges:
        """Return the edges of attention with so many heads, for rows of one network each."""
        if heads not in self._edges:
            self._edges[heads] = attention_edges(self.edge_index, self.num_rows, heads)
        return self._edges[heads]


def normalised(edge_index: Tensor, num_rows: int) -> sparse.SparseMatrix:
    """Return D^-1/2 (A + I) D^-1/2 of exactly these edges (Kipf and Welling, 2017).

    The row of a node without edges is that of the identity.
    """
    edges, weight = gcn_norm(edge_index, None, num_rows, dtype=torch.float32)
    return sparse.from_edges(edges, num_rows, weight)


def propagated(graph: Graph, steps: int) -> Tensor:
    """Return a graph's features after `steps` propagations: float32 [n, F]."""
    matrix, x = normalised(graph.edge_index, graph.num_nodes), graph.x
    for _ in range(steps):
        x = matrix @ x
    return x
