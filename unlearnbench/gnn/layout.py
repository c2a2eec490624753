"""How the rows of S networks lie in one tensor: the one place that knows.

Layers are written once, in terms of a layout's operations. `Ragged`: each network has a
graph of its own, rows lie one network after the other. `Shared`: all networks look at one
graph, a node's row holds the columns of all networks side by side.
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
        matrices: What propagates the rows.
        noise: Where dropout comes from; None: evaluation, nothing is dropped.
    """

    features: Features

    def __init__(self, num_networks: int, matrices: Matrices, noise: Noise | None) -> None:
        self.num_networks = num_networks
        self.matrices = matrices
        self.edge_index, self.num_rows = matrices.edge_index, matrices.num_rows
        self.noise = noise

    @property
    def gcn(self) -> sparse.SparseMatrix:
        """Give D^-1/2 (A + I) D^-1/2: see `Matrices`."""
        return self.matrices.gcn

    @property
    def mean_and_own(self) -> sparse.SparseMatrix:
        """Give the mean over neighbours beside the node itself: see `Matrices`."""
        return self.matrices.mean_and_own

    @property
    def total(self) -> sparse.SparseMatrix:
        """Give A + I: see `Matrices`."""
        return self.matrices.total

    def edges(self, heads: int) -> Edges:
        """Give the edges of attention with so many heads: see `Matrices`."""
        return self.matrices.edges(heads)

    @abstractmethod
    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply each network's rows, or its input features, with its own weight [S, a, b]."""

    def propagated(self, rows: Tensor | Features, weight: Tensor, steps: int) -> Tensor:
        """Multiply as `linear` does, then so many times with `gcn`."""
        result = self.linear(rows, weight)
        for _ in range(steps):
            result = self.gcn @ result
        return result

    @abstractmethod
    def spread(self, values: Tensor) -> Tensor:
        """Shape each network's vector, [S, k], so that it adds to its rows."""

    @abstractmethod
    def split(self, rows: Tensor, width: int | None) -> Sequence[Tensor]:
        """Give each network's rows by themselves, and of those the first `width` columns."""

    @abstractmethod
    def graphs(self) -> Sequence[Graph]:
        """Give each network's graph."""

    @abstractmethod
    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Put each network's rows together: the inverse of `split`."""

    @abstractmethod
    def cut(self, rows: Tensor, count: int) -> Sequence[Tensor]:
        """Cut each network's columns into so many equal blocks."""

    @abstractmethod
    def block_rows(self, rows: Tensor, count: int) -> Tensor:
        """Give each of so many equal blocks of a network's columns a row of its own: row count * i + block."""

    @abstractmethod
    def beside(self, blocks: Sequence[Tensor]) -> Tensor:
        """Put each network's columns of all blocks side by side: the inverse of `cut`."""

    @abstractmethod
    def apart(self, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Apply a function to rows in which no row holds columns of two networks.

        Args:
            function: Takes as many tensors [n, ...] as `rows` and gives one.
            *rows: As `linear` gives them.
        """

    def dropout(self, rows: Tensor, rate: float) -> Tensor:
        """Drop entries at random in training and scale the rest by 1 / (1 - rate)."""
        return rows


class Ragged(Layout):
    """Each network has a graph of its own.

    Args:
        parts: The graphs, one a network.
        noise: Where dropout comes from.
        padded: Multiply padded batches instead of one product a network. Faster on CUDA; a
            network's bits then depend on its neighbours.
        buffered: As `RaggedFeatures` takes it.
    """

    def __init__(
        self, parts: Sequence[Graph], noise: Noise | None = None, padded: bool | None = None, buffered: bool = True
    ) -> None:
        self._graphs = list(parts)
        self.sizes = [graph.num_nodes for graph in parts]
        edge_index = self._side_by_side([graph.edge_index for graph in parts])
        super().__init__(len(parts), Matrices(edge_index, sum(self.sizes)), noise)
        self._padded = self.edge_index.is_cuda if padded is None else padded
        self._buffered = buffered
        self._places: dict[tuple[int, ...], tuple[Tensor, int]] = {}
        self._propagated: dict[int, RaggedFeatures] = {}

    @cached_property
    def features(self) -> Features:  # type: ignore[override]
        """Give the features of all networks."""
        return RaggedFeatures(self._graphs, buffered=self._buffered)

    @cached_property
    def _owner(self) -> Tensor:
        return owners(self.sizes, self.edge_index.device)

    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply each network's rows with its own weight."""
        if isinstance(rows, RaggedFeatures):
            return rows.times(weight, self._product)
        assert isinstance(rows, Tensor)
        return self._product(rows, weight, self.sizes)

    def propagated(self, rows: Tensor | Features, weight: Tensor, steps: int) -> Tensor:
        """Propagate dense features once and for all where they are multiplied again and again, in training.

        Dense rows stay as they are when they are propagated, so that the product with the weight
        costs the same. Sparse rows fill up: theirs come after it. Each network's own features decide.
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
        """Give `gcn` for networks with sparse features, and the identity for the others."""
        parts = [
            graph.edge_index if graph.sparse_rows is not None else graph.edge_index[:, :0] for graph in self._graphs
        ]
        return normalised(self._side_by_side(parts), self.num_rows)

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
        """Cut at the borders of networks."""
        parts: Sequence[Tensor] = rows[:, :width].split(self.sizes)
        return parts

    def graphs(self) -> Sequence[Graph]:
        """Give each network's graph."""
        return self._graphs

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Stack below each other."""
        return torch.cat(list(parts))

    def cut(self, rows: Tensor, count: int) -> Sequence[Tensor]:
        """Cut between columns."""
        blocks: Sequence[Tensor] = rows.chunk(count, dim=1)
        return blocks

    def block_rows(self, rows: Tensor, count: int) -> Tensor:
        """Look at the same numbers as more rows of fewer columns."""
        return rows.view(count * self.num_rows, -1)

    def beside(self, blocks: Sequence[Tensor]) -> Tensor:
        """Put columns side by side."""
        return torch.cat(list(blocks), dim=1)

    def apart(self, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Call it once: every row is of one network."""
        return function(*rows)

    def dropout(self, rows: Tensor, rate: float) -> Tensor:
        """Drop entries of each network by its own stream."""
        if self.noise is None or rate == 0:
            return rows
        return rows * self.noise.keep(self.sizes, rows.shape[1], rate).mul_(1 / (1 - rate))


class Shared(Layout):
    """All networks look at one graph; for evaluation.

    Args:
        graph: The graph.
        num_networks: S.
        matrices: Those of the graph, if they are there already.
    """

    def __init__(self, graph: Graph, num_networks: int, matrices: Matrices | None = None) -> None:
        super().__init__(num_networks, matrices or Matrices(graph.edge_index, graph.num_nodes), None)
        self.features = Features()
        self._graph = graph

    @cached_property
    def _sparse(self) -> sparse.SparseMatrix | None:
        rows = self._graph.sparse_rows
        return None if rows is None else sparse.from_rows(rows)

    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply once with all weights side by side, or each network's columns with its own."""
        if isinstance(rows, Features):
            together = weight.transpose(0, 1).reshape(weight.shape[1], -1)
            return self._graph.x @ together if self._sparse is None else self._sparse @ together
        columns = rows.unflatten(1, (self.num_networks, -1)).transpose(0, 1)
        return torch.bmm(columns, weight).transpose(0, 1).flatten(1)

    def spread(self, values: Tensor) -> Tensor:
        """Lay the vectors side by side."""
        return values.reshape(1, -1)

    def split(self, rows: Tensor, width: int | None) -> Sequence[Tensor]:
        """Cut between the columns of networks."""
        parts: Sequence[Tensor] = rows.unflatten(1, (self.num_networks, -1))[:, :, :width].unbind(dim=1)
        return parts

    def only(self, rows: Tensor, at: Tensor) -> tuple[Tensor, Shared]:
        """Pick the rows of some nodes.

        Args:
            rows: As the layers give them.
            at: int64 [m], positions in the graph.

        Returns:
            The rows, and a layout of them alone, without an edge: where no message passes.
        """
        return rows[at], Shared(self._graph.cut_out(at, self.edge_index[:, :0]), self.num_networks)

    def graphs(self) -> Sequence[Graph]:
        """Give the one graph for each network."""
        return [self._graph] * self.num_networks

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """Put side by side."""
        return torch.cat(list(parts), dim=1)

    def cut(self, rows: Tensor, count: int) -> Sequence[Tensor]:
        """Cut between the columns of each network."""
        blocks = rows.view(self.num_rows, self.num_networks, -1).chunk(count, dim=2)
        return [block.reshape(self.num_rows, -1) for block in blocks]

    def block_rows(self, rows: Tensor, count: int) -> Tensor:
        """Bring the same block of all networks together."""
        blocks = rows.view(self.num_rows, self.num_networks, count, -1).transpose(1, 2)
        return blocks.reshape(count * self.num_rows, -1)

    def beside(self, blocks: Sequence[Tensor]) -> Tensor:
        """Put the columns of each network side by side."""
        columns = [block.view(self.num_rows, self.num_networks, -1) for block in blocks]
        return torch.cat(columns, dim=2).reshape(self.num_rows, -1)

    def apart(self, function: Callable[..., Tensor], *rows: Tensor) -> Tensor:
        """Call it once a network."""
        return self.join([function(*parts) for parts in zip(*(self.split(r, None) for r in rows), strict=True)])
