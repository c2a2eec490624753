"""The input features of a stack, multiplied as sparse or dense: each network by its own rows alone."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from unlearnbench.gnn import sparse
from unlearnbench.gnn.ragged import gather_rows
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
    """

    def __init__(self, graphs: Sequence[Graph]) -> None:
        thin = [sparse.is_sparse_enough(graph.x) for graph in graphs]
        self._num_networks = len(graphs)
        self._sparse = [network for network, is_thin in enumerate(thin) if is_thin]
        self._dense = [network for network, is_thin in enumerate(thin) if not is_thin]
        self._sizes = [graphs[network].num_nodes for network in self._dense]
        self._x = torch.cat([graphs[network].x for network in self._dense]) if self._dense else None
        self._buffers: dict[int, Tensor] = {}
        if self._sparse:
            self._matrix, self._occurring = _compact(graphs, self._sparse)
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
        if id(weight) not in self._buffers:
            self._buffers[id(weight)] = torch.zeros_like(table, requires_grad=False)
        return self._matrix @ gather_rows(table, self._occurring, self._buffers[id(weight)])


def _compact(graphs: Sequence[Graph], networks: Sequence[int]) -> tuple[sparse.SparseMatrix, Tensor]:
    """Keep of each network's features only the columns that occur in its rows.

    Returns:
        The matrix of all rows of these networks, and for each of its columns the row of the
        stacked weights, network * F + feature, that it multiplies.
    """
    x = torch.cat([graphs[network].x for network in networks])
    sizes = torch.tensor([graphs[network].num_nodes for network in networks], device=x.device)
    owner = torch.repeat_interleave(torch.tensor(networks, device=x.device), sizes)
    row, column = torch.nonzero(x, as_tuple=True)
    occurring, place = torch.unique(owner[row] * x.shape[1] + column, return_inverse=True)
    return sparse.from_entries(row, place, x[row, column], (x.shape[0], len(occurring))), occurring


def _stack_order(sizes: Sequence[int], networks: Sequence[int]) -> Tensor:
    """Say where the rows of networks 0, 1, ... lie when they were put together in another order."""
    starts, at = {}, 0
    for network in networks:
        starts[network] = at
        at += sizes[network]
    return torch.cat([torch.arange(size) + starts[network] for network, size in enumerate(sizes)])
