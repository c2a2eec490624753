"""Matrices that propagate rows over the edges of a graph, shared by layers and networks."""

from __future__ import annotations

from functools import cached_property

import torch
from torch import Tensor

from unlearnbench.errors import RefusedError
from unlearnbench.gnn import sparse
from unlearnbench.gnn.edges import Edges, attention_edges
from unlearnbench.graph import Graph


class Matrices:
    """The matrices of a graph, each built at first use.

    Args:
        edge_index: int64 [2, E], positions among the rows of a propagation.
        num_rows: Rows of a propagation.
        edge_weight: float32 [E]; None: every edge counts 1.
    """

    def __init__(self, edge_index: Tensor, num_rows: int, edge_weight: Tensor | None = None) -> None:
        self.edge_index = edge_index
        self.num_rows = num_rows
        self.edge_weight = edge_weight
        self._edges: dict[int, Edges] = {}

    @cached_property
    def gcn(self) -> sparse.SparseMatrix:
        """D^-1/2 (A + I) D^-1/2 of exactly these edges (Kipf and Welling, 2017)."""
        return normalised(self.edge_index, self.num_rows, self.edge_weight)

    @cached_property
    def mean_and_own(self) -> sparse.SparseMatrix:
        """The matrix [n, 2 n] that averages even rows over incoming edges and adds the node's own odd row.

        Row 2 i is for node i as a neighbour, row 2 i + 1 for the node itself, as `block_rows` returns
        them. The average is weighted by the edges' weights; over no edges it is zero.
        """
        source, target = self.edge_index
        node = torch.arange(self.num_rows, device=target.device)
        row, column = torch.cat([target, node]), torch.cat([2 * source, 2 * node + 1])
        if self.edge_weight is None:
            share = 1 / torch.bincount(target, minlength=self.num_rows)[target].to(torch.float32)
        else:
            share = self.edge_weight / weighted_degree(target, self.num_rows, self.edge_weight)[target]
        value = torch.cat([share, torch.ones(self.num_rows, device=target.device)])
        return sparse.from_entries(row, column, value, (self.num_rows, 2 * self.num_rows))

    @cached_property
    def total(self) -> sparse.SparseMatrix:
        """A + I: the matrix that sums over incoming edges, each times its weight, and the node itself."""
        node = torch.arange(self.num_rows, device=self.edge_index.device)
        edges, weight = torch.cat([self.edge_index, node.expand(2, -1)], dim=1), self.edge_weight
        if weight is not None:
            weight = torch.cat([weight, weight.new_ones(self.num_rows)])
        return sparse.from_edges(edges, self.num_rows, weight)

    def edges(self, heads: int) -> Edges:
        """Return the edges of attention with so many heads, for rows of one network each.

        Raises:
            RefusedError: Edges have weights, which attention does not take.
        """
        if self.edge_weight is not None:
            raise RefusedError("Attention over edges takes no edge weights.", "Use a model that does.")
        if heads not in self._edges:
            self._edges[heads] = attention_edges(self.edge_index, self.num_rows, heads)
        return self._edges[heads]


def normalised(edge_index: Tensor, num_rows: int, edge_weight: Tensor | None = None) -> sparse.SparseMatrix:
    """Return D^-1/2 (A + I) D^-1/2 of exactly these edges (Kipf and Welling, 2017).

    The row of a node without edges is that of the identity. With weights, A holds them and D their sums; a node's
    loop has weight 1, unless it has one of its own.
    """
    edges, own = with_loops(edge_index, num_rows, edge_weight)
    source, target = edges
    weight = torch.ones(edges.shape[1], device=edges.device) if own is None else own
    scale = weighted_degree(target, num_rows, weight).pow_(-0.5)
    scale.masked_fill_(scale.isinf(), 0)
    return sparse.from_edges(edges, num_rows, scale[source] * weight * scale[target])


def with_loops(edge_index: Tensor, num_rows: int, edge_weight: Tensor | None = None) -> tuple[Tensor, Tensor | None]:
    """Give every row exactly one loop, behind the other edges.

    Args:
        edge_index: int64 [2, E]; loops among them are left out, but their weight counts.
        num_rows: Rows.
        edge_weight: float [E] or None. A loop that is new has weight 1; of several at one row, one decides.

    Returns:
        int64 [2, F] and float [F] or None.
    """
    is_loop = edge_index[0] == edge_index[1]
    loops = torch.arange(num_rows, device=edge_index.device).expand(2, -1)
    edges = torch.cat([edge_index[:, ~is_loop], loops], dim=1)
    if edge_weight is None:
        return edges, None
    of_loops = edge_weight.new_ones(num_rows)
    of_loops[edge_index[0, is_loop]] = edge_weight[is_loop]
    return edges, torch.cat([edge_weight[~is_loop], of_loops])


def weighted_degree(end: Tensor, num_rows: int, edge_weight: Tensor) -> Tensor:
    """Return the total weight of the edges at each row's end: float [num_rows].

    Args:
        end: int64 [E], one end of each edge.
        num_rows: Rows.
        edge_weight: float [E].
    """
    return edge_weight.new_zeros(num_rows).index_add_(0, end, edge_weight)


def propagated(graph: Graph, steps: int) -> Tensor:
    """Return a graph's features after `steps` propagations: float32 [n, F]."""
    matrix, x = normalised(graph.edge_index, graph.num_nodes, graph.edge_weight), graph.x
    for _ in range(steps):
        x = matrix @ x
    return x
