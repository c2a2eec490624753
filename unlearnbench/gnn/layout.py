"""Layouts of the rows of S networks in one tensor.

Layers are written once, in terms of a layout's operations. `Ragged`: each network has its own
graph, and the rows of networks are concatenated. `Shared`: all networks use one graph, and a
node's row is the concatenation of the columns of all networks.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property
from itertools import accumulate

import torch
from torch import Tensor

from unlearnbench.gnn import sparse
from unlearnbench.gnn.dropout import Noise
from unlearnbench.gnn.edges import Edges
from unlearnbench.gnn.features import Features, RaggedFeatures
from unlearnbench.gnn.matrices import Matrices, normalised, propagated
from unlearnbench.gnn.ragged import owners, padded_places, padded_product, ragged_product, spread
from unlearnbench.graph import Graph


class Layout(ABC):
    """Operations on the rows of S networks.

    Args:
        num_networks: S.
        matrices: The matrices that propagate rows.
        noise: Source of dropout; None: evaluation, nothing is dropped.
    """

    features: Features

    def __init__(self, num_networks: int, matrices: Matrices, noise: Noise | None) -> None:
        self.num_networks = num_networks
        self.matrices = matrices
        self.edge_index, self.num_rows = matrices.edge_index, matrices.num_rows
        self.noise = noise

    @property
    def gcn(self) -> sparse.SparseMatrix:
        """D^-1/2 (A + I) D^-1/2: see `Matrices`."""
        return self.matrices.gcn

    @property
    def mean_and_own(self) -> sparse.SparseMatrix:
        """The mean over neighbours plus the node itself: see `Matrices`."""
        return self.matrices.mean_and_own

    @property
    def total(self) -> sparse.SparseMatrix:
        """A + I: see `Matrices`."""
        return self.matrices.total

    def edges(self, heads: int) -> Edges:
        """Return the edges of attention with so many heads: see `Matrices`."""
        return self.matrices.edges(heads)

    @abstractmethod
    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply each network's rows, or its input features, by its own weight [S, a, b]."""

    def propagated(self, rows: Tensor | Features, weight: Tensor, steps: int) -> Tensor:
        """Multiply as `linear` does, then `steps` times by `gcn`."""
        result = self.linear(rows, weight)
        for _ in range(steps):
            result = self.gcn @ result
        return result

    @abstractmethod
    def spread(self, values: Tensor) -> Tensor:
        """Broadcast each network's vector, [S, k], to the shape of its rows."""

    @abstractmethod
    def split(self, rows: Tensor, width: int | None) -> Sequence[Tensor]:
        """Return the first `width` columns of each network's rows, a tensor per network."""

    @abstractmethod
    def graphs(self) -> Sequence[Graph]:
        """Return each network's graph."""

    @abstractmethod
    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Combine the rows of networks: the inverse of `split`."""

    @abstractmethod
    def cut(self, rows: Tensor, count: int) -> Sequence[Tensor]:
        """Split each network's columns into `count` equal blocks."""

    @abstractmethod
    def block_rows(self, rows: Tensor, count: int) -> Tensor:
        """Return each of `count` equal blocks of a network's columns as a row of its own: row count * i + block."""

    @abstractmethod
    def concatenate(self, blocks: Sequence[Tensor]) -> Tensor:
        """Concatenate each network's columns of all blocks: the inverse of `cut`."""

    @abstractmethod
    def per_network(self, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Apply a function to rows none of which holds columns of two networks.

        Args:
            function: Takes as many tensors [n, ...] as `rows` and returns one.
            *rows: As `linear` returns them.
        """

    def dropout(self, rows: Tensor, rate: float) -> Tensor:
        """Drop entries at random in training and scale the rest by 1 / (1 - rate)."""
        return rows


class Ragged(Layout):
    """Each network has its own graph.

    Args:
        parts: The graphs, one per network.
        noise: Source of dropout.
        padded: Multiply padded batches instead of one product per network. Faster on CUDA; a
            network's bits then depend on the other networks.
        buffered: As in `RaggedFeatures`.
    """

    def __init__(
        self, parts: Sequence[Graph], noise: Noise | None = None, padded: bool | None = None, buffered: bool = True
    ) -> None:
        self._graphs = list(parts)
        self.sizes = [graph.num_nodes for graph in parts]
        edge_index = self._side_by_side([graph.edge_index for graph in parts])
        weight = _end_to_end([graph.edge_weight for graph in parts])
        super().__init__(len(parts), Matrices(edge_index, sum(self.sizes), weight), noise)
        self._padded = self.edge_index.is_cuda if padded is None else padded
        self._buffered = buffered
        self._places: dict[tuple[int, ...], tuple[Tensor, int]] = {}
        self._propagated: dict[int, RaggedFeatures] = {}

    @cached_property
    def features(self) -> Features:  # type: ignore[override]
        """The features of all networks."""
        return RaggedFeatures(self._graphs, buffered=self._buffered)

    @cached_property
    def _owner(self) -> Tensor:
        return owners(self.sizes, self.edge_index.device)

    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply each network's rows by its own weight."""
        if isinstance(rows, RaggedFeatures):
            return rows.times(weight, self._product)
        assert isinstance(rows, Tensor)
        return self._product(rows, weight, self.sizes)

    def propagated(self, rows: Tensor | Features, weight: Tensor, steps: int) -> Tensor:
        """Propagate dense features only once where they are multiplied repeatedly, in training.

        Dense rows remain dense when propagated, so that the product with the weight costs the same.
        Sparse rows would fill up: they are propagated after it. Each network's own features decide.
        """
        if self.noise is None or not isinstance(rows, RaggedFeatures) or steps == 0:
            return super().propagated(rows, weight, steps)
        if steps not in self._propagated:
            self._propagated[steps] = RaggedFeatures(
                self._graphs, lambda graph: propagated(graph, steps), self._buffered
            )
        result = self._propagated[steps].times(weight, self._product)
        if any(graph.sparse_rows is not None for graph in self._graphs):
            for _ in range(steps):
                result = self._gcn_of_sparse @ result
        return result

    @cached_property
    def _gcn_of_sparse(self) -> sparse.SparseMatrix:
        """`gcn` for networks with sparse features, the identity for the others."""
        count = [graph.num_edges if graph.sparse_rows is not None else 0 for graph in self._graphs]
        edges = [graph.edge_index[:, :first] for graph, first in zip(self._graphs, count, strict=True)]
        weights = [graph.weights_of(slice(first)) for graph, first in zip(self._graphs, count, strict=True)]
        return normalised(self._side_by_side(edges), self.num_rows, _end_to_end(weights))

    def _side_by_side(self, edges: Sequence[Tensor]) -> Tensor:
        starts = accumulate(self.sizes, initial=0)
        return torch.cat([edge_index + start for edge_index, start in zip(edges, starts, strict=False)], dim=1)

    def _product(self, rows: Tensor, weight: Tensor, sizes: Sequence[int]) -> Tensor:
        if not self._padded:
            return ragged_product(rows, weight, sizes)
        if tuple(sizes) not in self._places:
            self._places[tuple(sizes)] = padded_places(sizes, rows.device)
        return padded_product(rows, weight, *self._places[tuple(sizes)])

    def spread(self, values: Tensor) -> Tensor:
        """Repeat each network's vector for each of its rows."""
        return spread(values, self.sizes, self._owner)

    def split(self, rows: Tensor, width: int | None) -> Sequence[Tensor]:
        """Split between networks."""
        parts: Sequence[Tensor] = rows[:, :width].split(self.sizes)
        return parts

    def graphs(self) -> Sequence[Graph]:
        """Return each network's graph."""
        return self._graphs

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate rows."""
        return torch.cat(list(parts))

    def cut(self, rows: Tensor, count: int) -> Sequence[Tensor]:
        """Split columns."""
        blocks: Sequence[Tensor] = rows.chunk(count, dim=1)
        return blocks

    def block_rows(self, rows: Tensor, count: int) -> Tensor:
        """View the rows as more rows of fewer columns."""
        return rows.view(count * self.num_rows, -1)

    def concatenate(self, blocks: Sequence[Tensor]) -> Tensor:
        """Concatenate columns."""
        return torch.cat(list(blocks), dim=1)

    def per_network(self, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Call the function once: every row belongs to one network."""
        return function(*rows)

    def dropout(self, rows: Tensor, rate: float) -> Tensor:
        """Drop entries of each network by its own random stream."""
        if self.noise is None or rate == 0:
            return rows
        return rows * self.noise.keep(self.sizes, rows.shape[1], rate).mul_(1 / (1 - rate))


class Shared(Layout):
    """All networks use one graph; for evaluation.

    Args:
        graph: The graph.
        num_networks: S.
        matrices: Those of the graph, if they exist already.
    """

    def __init__(self, graph: Graph, num_networks: int, matrices: Matrices | None = None) -> None:
        own = matrices or Matrices(graph.edge_index, graph.num_nodes, graph.edge_weight)
        super().__init__(num_networks, own, None)
        self.features = Features()
        self._graph = graph

    @cached_property
    def _sparse(self) -> sparse.SparseMatrix | None:
        rows = self._graph.sparse_rows
        return None if rows is None else sparse.from_rows(rows)

    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply once by all concatenated weights, or each network's columns by its own."""
        if isinstance(rows, Features):
            concatenated = weight.transpose(0, 1).reshape(weight.shape[1], -1)
            return self._graph.x @ concatenated if self._sparse is None else self._sparse @ concatenated
        columns = rows.unflatten(1, (self.num_networks, -1)).transpose(0, 1)
        return torch.bmm(columns, weight).transpose(0, 1).flatten(1)

    def spread(self, values: Tensor) -> Tensor:
        """Concatenate the vectors."""
        return values.reshape(1, -1)

    def split(self, rows: Tensor, width: int | None) -> Sequence[Tensor]:
        """Split between the columns of networks."""
        parts: Sequence[Tensor] = rows.unflatten(1, (self.num_networks, -1))[:, :, :width].unbind(dim=1)
        return parts

    def only(self, rows: Tensor, at: Tensor) -> tuple[Tensor, Shared]:
        """Select the rows of some nodes.

        Args:
            rows: Outputs of a layer.
            at: int64 [m], positions in the graph.

        Returns:
            The rows, and a layout of them alone without edges, for layers that pass no messages.
        """
        return rows[at], Shared(self._graph.nodes_alone(at), self.num_networks)

    def graphs(self) -> Sequence[Graph]:
        """Return the one graph for each network."""
        return [self._graph] * self.num_networks

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Concatenate columns."""
        return torch.cat(list(parts), dim=1)

    def cut(self, rows: Tensor, count: int) -> Sequence[Tensor]:
        """Split the columns of each network."""
        blocks = rows.view(self.num_rows, self.num_networks, -1).chunk(count, dim=2)
        return [block.reshape(self.num_rows, -1) for block in blocks]

    def block_rows(self, rows: Tensor, count: int) -> Tensor:
        """Group the same block of all networks."""
        blocks = rows.view(self.num_rows, self.num_networks, count, -1).transpose(1, 2)
        return blocks.reshape(count * self.num_rows, -1)

    def concatenate(self, blocks: Sequence[Tensor]) -> Tensor:
        """Concatenate the columns of each network."""
        columns = [block.view(self.num_rows, self.num_networks, -1) for block in blocks]
        return torch.cat(columns, dim=2).reshape(self.num_rows, -1)

    def per_network(self, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Call the function once per network."""
        return self.join([function(*parts) for parts in zip(*(self.split(r, None) for r in rows), strict=True)])


def _end_to_end(weights: Sequence[Tensor | None]) -> Tensor | None:
    """Concatenate the edge weights of graphs of which all have some, or none."""
    present = [each for each in weights if each is not None]
    return torch.cat(present) if present else None
