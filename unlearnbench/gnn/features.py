"""Input features of a stack, multiplied as sparse or dense, which each network's own rows decide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unlearnbench.gnn import sparse
from unlearnbench.graph import Graph

FeatureProduct = Callable[[Tensor, Tensor, Sequence[int]], Tensor]


class Features:
    """The input features of a layout; only `Layout.linear` reads them."""


class RaggedFeatures(Features):
    """Features of networks with a graph each.

    Whether a network's features count as sparse is decided by its own rows: the two products round
    differently, and a network's bits must not depend on the other networks.

    Args:
        graphs: One per network.
        dense: Returns a network's features where they count as dense; default: those of the graph.
        buffered: Write a first derivative into the same memory in every backward pass: faster, but
            it must be used before the next one.
    """

    def __init__(
        self,
        graphs: Sequence[Graph],
        dense: Callable[[Graph], Tensor] = lambda graph: graph.x,
        buffered: bool = True,
    ) -> None:
        rows = {network: graph.sparse_rows for network, graph in enumerate(graphs)}
        thin = {network: sparse_rows for network, sparse_rows in rows.items() if sparse_rows is not None}
        self._sparse = list(thin)
        self._dense = [network for network in rows if network not in thin]
        self._sizes = [graphs[network].num_nodes for network in self._dense]
        parts = [dense(graphs[network]) for network in self._dense]
        self._x = None if not parts else parts[0] if len(parts) == 1 else torch.cat(parts)
        self._buffers: dict[int, Tensor] | None = {} if buffered else None
        if self._sparse:
            # Rows are the nodes of these networks; columns are the rows of the stacked weights of all networks.
            self._matrix = sparse.block_diagonal(list(thin.values()), self._sparse, len(graphs))
        if self._sparse and self._dense:
            self._order = _stack_order([graph.num_nodes for graph in graphs], [*self._sparse, *self._dense])
            self._order = self._order.to(graphs[0].ids.device)

    def times(self, weight: Tensor, product: FeatureProduct) -> Tensor:
        """Multiply each network's features by its own weight.

        Args:
            weight: float32 [S, F, k].
            product: Multiplies dense rows by stacked weights.

        Returns:
            float32 [rows of all networks, k].
        """
        if self._x is None:
            return self._sparse_rows(weight)
        if not self._sparse:
            return product(self._x, weight, self._sizes)
        chosen = torch.tensor(self._dense, device=weight.device)
        dense = product(self._x, weight.index_select(0, chosen), self._sizes)
        return torch.cat([self._sparse_rows(weight), dense]).index_select(0, self._order)

    def _sparse_rows(self, weight: Tensor) -> Tensor:
        table = weight.reshape(-1, weight.shape[2])
        if self._buffers is None:
            return self._matrix @ table
        if id(weight) not in self._buffers and torch.is_grad_enabled():
            # Zeros: an empty tensor may hold NaN, and 0 times NaN is NaN.
            self._buffers[id(weight)] = torch.zeros_like(table, requires_grad=False)
        rows: Tensor = _Product.apply(table, self._matrix, self._buffers.get(id(weight)))  # type: ignore[no-untyped-call]
        return rows


class _Product(torch.autograd.Function):
    """A sparse matrix times a large table; a gradient that is not differentiated is written to a buffer.

    Each use in one computation graph needs its own buffer, and a gradient must be used
    before the next backward pass.
    """

    @staticmethod
    def forward(ctx: Any, table: Tensor, matrix: sparse.SparseMatrix, buffer: Tensor | None) -> Tensor:
        ctx.matrix, ctx.buffer = matrix, buffer
        return table.new_zeros(matrix.shape[0], table.shape[1]).addmm_(matrix.csr, table, beta=0)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        grad = grads[0].contiguous()
        if torch.is_grad_enabled():
            return ctx.matrix.t() @ grad, None, None
        return ctx.buffer.addmm_(ctx.matrix.transposed, grad, beta=0), None, None


def _stack_order(sizes: Sequence[int], networks: Sequence[int]) -> Tensor:
    """Return the positions of the rows of networks 0, 1, ... in a concatenation in another order."""
    starts, at = {}, 0
    for network in networks:
        starts[network] = at
        at += sizes[network]
    return torch.cat([torch.arange(size) + starts[network] for network, size in enumerate(sizes)])
