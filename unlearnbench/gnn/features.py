"""The input features of a stack, multiplied as sparse or dense: each network by its own rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor

from unlearnbench.gnn import sparse
from unlearnbench.graph import Graph

Product = Callable[[Tensor, Tensor, Sequence[int]], Tensor]


class Features:
    """The input features of a layout: only `Layout.linear` looks inside."""


class RaggedFeatures(Features):
    """Features of networks that each have a graph of their own.

    Whether a network's features count as sparse is decided by its own rows: both products round
    differently, and a network's bits must not depend on its neighbours.

    Args:
        graphs: One a network.
        buffered: Write a first derivative into the same memory at every backward pass: faster, but
            it must be used before the next one.
    """

    def __init__(self, graphs: Sequence[Graph], buffered: bool = True) -> None:
        thin = [sparse.is_sparse_enough(graph.x) for graph in graphs]
        self._sparse = [network for network, is_thin in enumerate(thin) if is_thin]
        self._dense = [network for network, is_thin in enumerate(thin) if not is_thin]
        self._sizes = [graphs[network].num_nodes for network in self._dense]
        self._x = torch.cat([graphs[network].x for network in self._dense]) if self._dense else None
        self._buffers: dict[int, Tensor] | None = {} if buffered else None
        if self._sparse:
            self._matrix = _block_diagonal(graphs, self._sparse)
        if self._sparse and self._dense:
            self._order = _stack_order([graph.num_nodes for graph in graphs], [*self._sparse, *self._dense])
            self._order = self._order.to(graphs[0].x.device)

    def times(self, weight: Tensor, product: Product) -> Tensor:
        """Multiply each network's features with its own weight.

        Args:
            weight: float32 [S, F, k].
            product: Multiplies dense rows with stacked weights.

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
            # Zeros: what an empty tensor happens to hold may be no number, and 0 times that is none either.
            self._buffers[id(weight)] = torch.zeros_like(table, requires_grad=False)
        rows: Tensor = _Product.apply(table, self._matrix, self._buffers.get(id(weight)))  # type: ignore[no-untyped-call]
        return rows


class _Product(torch.autograd.Function):
    """A sparse matrix times a large table, whose gradient is written to a buffer where it is not differentiated.

    Each use in one graph of computation needs a buffer of its own, and a gradient must be used
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


def _block_diagonal(graphs: Sequence[Graph], networks: Sequence[int]) -> sparse.SparseMatrix:
    """Put the features of these networks in one matrix that multiplies the stacked weights of all.

    Returns:
        A row a node of these networks, in their order; a column a row of the stacked weights,
        network * F + feature.
    """
    x = torch.cat([graphs[network].x for network in networks])
    sizes = torch.tensor([graphs[network].num_nodes for network in networks], device=x.device)
    owner = torch.repeat_interleave(torch.tensor(networks, device=x.device), sizes)
    row, column = torch.nonzero(x, as_tuple=True)
    place = owner[row] * x.shape[1] + column
    return sparse.from_entries(row, place, x[row, column], (x.shape[0], len(graphs) * x.shape[1]))


def _stack_order(sizes: Sequence[int], networks: Sequence[int]) -> Tensor:
    """Say where the rows of networks 0, 1, ... lie when they were put together in another order."""
    starts, at = {}, 0
    for network in networks:
        starts[network] = at
        at += sizes[network]
    return torch.cat([torch.arange(size) + starts[network] for network, size in enumerate(sizes)])
