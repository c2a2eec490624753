"""How the rows of S networks lie in one tensor: the one place that knows.

Layers are written once, in terms of a layout's operations. `Ragged`: each network has a
graph of its own, rows lie one network after the other. `Shared`: all networks look at one
graph, a node's row holds the columns of all networks side by side.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor
from torch_geometric.nn.conv.gcn_conv import gcn_norm

from unlearnbench.gnn import sparse
from unlearnbench.gnn.edges import Edges, attention_edges
from unlearnbench.gnn.features import Features, RaggedFeatures
from unlearnbench.gnn.noise import Noise
from unlearnbench.gnn.ragged import owners, padded_places, padded_product, ragged_product, spread
from unlearnbench.graph import Graph


class Layout(ABC):
    """Operations on the rows of S networks.

    Args:
        num_networks: S.
        edge_index: int64 [2, E], positions among the rows of a propagation.
        num_rows: Rows of a propagation.
        noise: Where dropout comes from; None: evaluation, nothing is dropped.
    """

    features: Features

    def __init__(self, num_networks: int, edge_index: Tensor, num_rows: int, noise: Noise | None) -> None:
        self.num_networks = num_networks
        self.edge_index = edge_index
        self.num_rows = num_rows
        self.noise = noise
        self._edges: dict[int, Edges] = {}

    @cached_property
    def gcn(self) -> sparse.SparseMatrix:
        """Give D^-1/2 (A + I) D^-1/2 of exactly the edges at hand (Kipf and Welling, 2017)."""
        edges, weight = gcn_norm(self.edge_index, None, self.num_rows, dtype=torch.float32)
        return sparse.from_edges(edges, self.num_rows, weight)

    @cached_property
    def mean_and_own(self) -> sparse.SparseMatrix:
        """Give the matrix [n, 2 n] that averages even rows over incoming edges and adds the node's own odd row.

        Row 2 i is for node i as a neighbour, row 2 i + 1 for itself: what `block_rows` gives. The
        average over no edge is zero.
        """
        source, target = self.edge_index
        degree = torch.bincount(target, minlength=self.num_rows)
        node = torch.arange(self.num_rows, device=target.device)
        row, column = torch.cat([target, node]), torch.cat([2 * source, 2 * node + 1])
        value = torch.cat([1 / degree[target].to(torch.float32), torch.ones(self.num_rows, device=target.device)])
        return sparse.from_entries(row, column, value, (self.num_rows, 2 * self.num_rows))

    @cached_property
    def total(self) -> sparse.SparseMatrix:
        """Give A + I: the matrix that sums over incoming edges and the node itself."""
        node = torch.arange(self.num_rows, device=self.edge_index.device)
        return sparse.from_edges(torch.cat([self.edge_index, node.expand(2, -1)], dim=1), self.num_rows)

    def edges(self, heads: int) -> Edges:
        """Give the edges of attention with so many heads, for networks whose rows are their own."""
        if heads not in self._edges:
            self._edges[heads] = attention_edges(self.edge_index, self.num_rows, heads)
        return self._edges[heads]

    @abstractmethod
    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply each network's rows, or its input features, with its own weight [S, a, b]."""

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
        starts = torch.tensor([0, *self.sizes]).cumsum(dim=0).tolist()
        shifted = [graph.edge_index + start for graph, start in zip(parts, starts, strict=False)]
        super().__init__(len(parts), torch.cat(shifted, dim=1), starts[-1], noise)
        self._padded = self.edge_index.is_cuda if padded is None else padded
        self._buffered = buffered
        self._places: dict[tuple[int, ...], tuple[Tensor, int]] = {}

    @cached_property
    def features(self) -> Features:  # type: ignore[override]
        """Give the features of all networks."""
        return RaggedFeatures(self._graphs, self._buffered)

    @cached_property
    def _owner(self) -> Tensor:
        return owners(self.sizes, self.edge_index.device)

    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply each network's rows with its own weight."""
        if isinstance(rows, RaggedFeatures):
            return rows.times(weight, self._product)
        assert isinstance(rows, Tensor)
        return self._product(rows, weight, self.sizes)

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
    """

    def __init__(self, graph: Graph, num_networks: int) -> None:
        super().__init__(num_networks, graph.edge_index, graph.num_nodes, None)
        self.features = Features()
        self._graph = graph

    @cached_property
    def _sparse(self) -> sparse.SparseMatrix | None:
        x = self._graph.x
        return sparse.from_dense(x) if sparse.is_sparse_enough(x) else None

    def linear(self, rows: Tensor | Features, weight: Tensor) -> Tensor:
        """Multiply once with all weights side by side, or each network's columns with its own."""
        if isinstance(rows, Features):
            together = weight.transpose(0, 1).reshape(weight.shape[1], -1)
            return self._graph.x @ together if self._sparse is None else self._sparse @ together
        columns = rows.view(self.num_rows, self.num_networks, -1).transpose(0, 1)
        return torch.bmm(columns, weight).transpose(0, 1).reshape(self.num_rows, -1)

    def spread(self, values: Tensor) -> Tensor:
        """Lay the vectors side by side."""
        return values.reshape(1, -1)

    def split(self, rows: Tensor, width: int | None) -> Sequence[Tensor]:
        """Cut between the columns of networks."""
        return rows.view(self.num_rows, self.num_networks, -1)[:, :, :width].unbind(dim=1)

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
