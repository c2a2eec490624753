"""The immutable `Graph`: features, labels, edges with or without weights, and ids."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property
from typing import Any

import torch
from torch import Tensor

from unlearnbench.errors import DataError
from unlearnbench.graph.edge_keys import pair_keys, unique_keys, without_loops
from unlearnbench.graph.groups import edges_by_group
from unlearnbench.graph.sparse_features import SparseRows, compressed, is_sparse_enough
from unlearnbench.graph.split import Split


@dataclass(frozen=True, eq=False, repr=False)
class Graph:
    """A graph with node labels: positions within, permanent ids to the outside.

    Args:
        x: float32 [n, F], features.
        y: int64 [n], labels in [0, num_classes), -1 where unknown.
        edge_index: int64 [2, E], positions of source and target; an undirected edge is stored
            in both directions.
        ids: int64 [n], the permanent ids of the nodes, all distinct.
        num_classes: How many classes there are, whether or not each occurs here.
        split: The split that a dataset comes with, if any; no subgraph has it, so that no
            method learns which nodes are validation or test nodes.
        edge_weight: float32 [E], positive and finite, the weight of each column of `edge_index`; None: no edge
            has a weight. The two directions of an undirected edge have one weight.

    Raises:
        ValueError: There are not as many weights as edges.
    """

    x: Tensor
    y: Tensor
    edge_index: Tensor
    ids: Tensor
    num_classes: int
    split: Split | None = None
    edge_weight: Tensor | None = None

    def __post_init__(self) -> None:
        # Not by attribute: a graph that is watched would take that for a read.
        edges, weight = self.__dict__["edge_index"], self.__dict__["edge_weight"]
        if weight is not None and weight.shape != edges.shape[1:]:
            raise ValueError(f"{list(weight.shape)} edge weights for {edges.shape[1]} edges.")

    def __repr__(self) -> str:
        sizes = f"{self.num_nodes} nodes, {self.num_edges} directed edges, {self.num_features} features"
        return f"Graph({sizes}, {self.num_classes} classes)"

    @property
    def num_nodes(self) -> int:
        """Number of nodes, isolated ones included."""
        return self.ids.shape[0]

    @property
    def num_features(self) -> int:
        """Number of columns of `x`."""
        return self.x.shape[1]

    @property
    def num_edges(self) -> int:
        """Number of columns of `edge_index`: an undirected edge counts twice."""
        return self.edge_index.shape[1]

    @cached_property
    def sparse_rows(self) -> SparseRows | None:
        """The features compressed by rows where a sparse product is faster, else None."""
        return compressed(self.x) if is_sparse_enough(self.x) else None

    @cached_property
    def _order(self) -> tuple[Tensor, Tensor]:
        sorted_ids, order = torch.sort(self.ids)
        return sorted_ids, order

    def contains(self, ids: Tensor) -> Tensor:
        """Return for each id whether it is a node of this graph: bool, shape of `ids`."""
        if self.num_nodes == 0:
            return torch.zeros_like(ids, dtype=torch.bool)
        sorted_ids, _ = self._order
        at = torch.searchsorted(sorted_ids, ids.contiguous()).clamp(max=self.num_nodes - 1)
        return sorted_ids[at] == ids

    def positions(self, ids: Tensor) -> Tensor:
        """Return the positions of ids: int64, shape of `ids`.

        Raises:
            DataError: An id is not a node of this graph.
        """
        present = self.contains(ids)
        if not bool(present.all()):
            missing = ids[~present]
            raise DataError(f"{len(missing)} ids are not nodes of the graph, the first is {int(missing[0])}.")
        if self.num_nodes == 0:
            return ids
        sorted_ids, order = self._order
        return order[torch.searchsorted(sorted_ids, ids.contiguous())]

    def induced(self, ids: Tensor) -> Graph:
        """Return the subgraph induced by these nodes, in the order of `ids`.

        Args:
            ids: int64 [m], all distinct, nodes of this graph.
        """
        at = self.positions(ids)
        new = torch.full((self.num_nodes,), -1, dtype=torch.int64, device=self.ids.device)
        new[at] = torch.arange(len(at), device=new.device)
        inside = new >= 0
        source, target = self.edge_index
        kept = torch.nonzero(inside[source] & inside[target]).squeeze(1)
        return self.cut_out(at, torch.stack([new[source[kept]], new[target[kept]]]), self.weights_of(kept))

    def parts(self, ids: Tensor, group: Tensor, wanted: Sequence[int], common: Tensor | None = None) -> Iterator[Graph]:
        """Yield the subgraphs induced by several groups of nodes, in one pass over the edges.

        Args:
            ids: int64 [m], all distinct, nodes of this graph.
            group: int64 [m], the group of each, counted from 0.
            wanted: The groups to yield.
            common: int64 [k], all distinct, nodes that every subgraph has, after its own nodes unless they are
                among those.

        Yields:
            For each wanted group what `induced` returns for its nodes, in the order of `ids`, and `common`.
        """
        at = self.positions(ids)
        shared = at[:0] if common is None else self.positions(common)
        owner = torch.full((self.num_nodes,), -1, dtype=torch.int32, device=at.device)
        owner[at] = group.to(torch.int32)
        everywhere = torch.zeros(self.num_nodes, dtype=torch.bool, device=at.device)
        everywhere[shared] = True
        both, of_group = edges_by_group(self.edge_index, owner, everywhere)
        new = torch.empty(self.num_nodes, dtype=torch.int64, device=at.device)
        for number in wanted:
            own = at[group == number]
            nodes = torch.cat([own, shared[owner[shared] != number]])
            new[nodes] = torch.arange(len(nodes), device=at.device)
            edges = torch.cat([both, of_group.get(number, both[:0])]).sort().values
            yield self.cut_out(nodes, new[self.edge_index[:, edges]], self.weights_of(edges))

    def cut_out(self, at: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Graph:
        """Return a subgraph of some nodes with the given edges, in the order of `at`.

        Args:
            at: int64 [m], positions in this graph, all distinct.
            edge_index: int64 [2, E], positions in the subgraph.
            edge_weight: float32 [E], their weights, from `weights_of`; None: this graph has none.
        """
        rest: dict[str, Any] = {
            "y": self.y[at],
            "edge_index": edge_index,
            "ids": self.ids[at],
            "num_classes": self.num_classes,
        }
        rest |= {"split": None, "edge_weight": edge_weight}
        if self.sparse_rows is None:
            return Graph(self.x[at], **rest)
        rows = self.sparse_rows.take(at)
        if not rows.is_sparse_enough():
            return Graph(rows.dense(), **rest)
        return _ThinGraph.of(rows, **rest)

    def nodes_alone(self, at: Tensor) -> Graph:
        """Return a subgraph of some nodes without any edge; `at` as for `cut_out`."""
        return self.cut_out(at, self.edge_index[:, :0], self.weights_of(slice(0)))

    def weights_of(self, columns: Tensor | slice) -> Tensor | None:
        """Return the weights of some columns of `edge_index`; None if edges have none."""
        return None if self.edge_weight is None else self.edge_weight[columns]

    def without(self, ids: Tensor) -> Graph:
        """Return the graph without these nodes and their incident edges."""
        gone = torch.isin(self.ids, ids)
        return self.induced(self.ids[~gone])

    def pairs(self) -> Tensor:
        """Return the distinct unordered pairs of adjacent nodes: int64 [p, 2], ids, lower first.

        An edge stored in both directions, or several times, is one pair; self-loops are left out.
        """
        sorted_ids, order = self._order
        rank = torch.empty_like(order)
        rank[order] = torch.arange(self.num_nodes, device=order.device)
        source, target = rank[self.edge_index[0]], rank[self.edge_index[1]]
        keys = pair_keys(torch.minimum(source, target), torch.maximum(source, target), self.num_nodes)
        keys = without_loops(unique_keys(keys), self.num_nodes)
        return torch.stack([sorted_ids[keys // self.num_nodes], sorted_ids[keys % self.num_nodes]], dim=1)

    def unlinked(self, pairs: Tensor) -> Graph:
        """Return the graph without any copy of these edges, in either direction; all nodes stay.

        Args:
            pairs: As for `copies`.
        """
        return self.only_edges(~self.copies(pairs))

    def copies(self, pairs: Tensor) -> Tensor:
        """Return which columns of `edge_index` are copies of these edges, in either direction: bool [E].

        Args:
            pairs: int64 [t, 2], ids of the two ends of each; pairs that are not adjacent here are ignored.
        """
        pairs = pairs.to(self.ids.device)
        pairs = pairs[self.contains(pairs).all(dim=1)]
        ends = self.positions(pairs).sort(dim=1).values
        gone = ends[:, 0] * self.num_nodes + ends[:, 1]
        low, high = self.edge_index.min(dim=0).values, self.edge_index.max(dim=0).values
        return torch.isin(low * self.num_nodes + high, gone)

    def extended(self, other: Graph, links: Tensor, link_weight: Tensor | None = None) -> Graph:
        """Return the graph with the nodes and edges of another after its own, and edges between the two.

        Args:
            other: A graph without a node of this one; its edges have weights if those of this one have.
            links: int64 [2, L], ids of source and target.
            link_weight: float32 [L], their weights, if edges have weights.
        """
        ids = torch.cat([self.ids, other.ids])
        joined = Graph(torch.cat([self.x, other.x]), torch.cat([self.y, other.y]), links, ids, self.num_classes)
        edges = torch.cat([self.edge_index, other.edge_index + self.num_nodes, joined.positions(links)], dim=1)
        weights = [each for each in (self.edge_weight, other.edge_weight, link_weight) if each is not None]
        return replace(joined, edge_index=edges, edge_weight=torch.cat(weights) if weights else None)

    def only_edges(self, columns: Tensor) -> Graph:
        """Return the same nodes with some of the edges: bool [E], or positions of columns of `edge_index`."""
        return self.with_edges(self.edge_index[:, columns], self.weights_of(columns))

    def with_edges(self, edge_index: Tensor, edge_weight: Tensor | None = None) -> Graph:
        """Return the same nodes with other edges, int64 [2, E], and the weights of these, float32 [E].

        Raises:
            ValueError: Edges have weights here and not there, or the reverse.
        """
        if (edge_weight is None) != (self.edge_weight is None):
            raise ValueError("Either all edges have weights or none.")
        other = replace(self, edge_index=edge_index, edge_weight=edge_weight)
        if "sparse_rows" in self.__dict__:
            # The features are the same, and so are their compressed rows.
            other.__dict__["sparse_rows"] = self.sparse_rows
        return other

    def with_features(self, x: Tensor) -> Graph:
        """Return the same nodes, labels and edges with other features, float32 [n, F]."""
        other = replace(self, x=x)
        if "sparse_rows" in self.__dict__:
            # Compressed here, as those of a subgraph are, so that no method is timed with it.
            _ = other.sparse_rows
        return other

    def with_labels(self, y: Tensor) -> Graph:
        """Return the same nodes, features and edges with other labels, int64 [n]."""
        return self._with(y=y)

    def without_labels(self) -> Graph:
        """Return the same graph with every label -1, and without its split."""
        return self._with(y=torch.full_like(self.y, -1), split=None)

    def to(self, device: torch.device) -> Graph:
        """Move every tensor to a device."""
        if device == self.ids.device:
            return self
        weights = {} if self.edge_weight is None else {"edge_weight": self.edge_weight.to(device)}
        edges = self.edge_index.to(device)
        return self._with(device, y=self.y.to(device), edge_index=edges, ids=self.ids.to(device), **weights)

    def _with(self, device: torch.device | None = None, **changes: Any) -> Graph:
        """Return the graph with other values in some of its fields, and its features on a device, if one is named."""
        return replace(self, x=self.x if device is None else self.x.to(device), **changes)

    def checksum(self) -> str:
        """Hash every tensor: sha256 in hexadecimal, the same on every machine of one byte order.

        Weights count if there are some: a graph without has the digest that it had before there were weights.
        """
        digest = hashlib.sha256()
        own = [] if self.split is None else [self.split.train, self.split.val, self.split.test]
        weights = [] if self.edge_weight is None else [self.edge_weight]
        for tensor in (self.x, self.y, self.edge_index, self.ids, *own, *weights):
            array = tensor.detach().cpu().contiguous().numpy()
            digest.update(f"{array.dtype.str}{array.shape}".encode())
            # Its own memory: a copy of the edges of a large graph takes gigabytes.
            digest.update(array.data)
        digest.update(str(self.num_classes).encode())
        return digest.hexdigest()


class _ThinGraph(Graph):
    """A subgraph that holds its sparse rows alone until `x` is read.

    Most subgraphs are only ever multiplied as sparse; copying their zeros would take most of the
    time of a prediction.
    """

    @classmethod
    def of(cls, rows: SparseRows, **values: Any) -> Graph:
        """Create it from sparse rows and values for all fields of `Graph` but `x`."""
        graph = object.__new__(cls)
        # Where cached properties keep their values: the rows are there, the dense features are not yet.
        graph.__dict__.update(sparse_rows=rows, **values)
        graph.__post_init__()
        return graph

    @cached_property
    def x(self) -> Tensor:
        """The dense features."""
        rows = self.sparse_rows
        assert rows is not None
        return rows.dense()

    # `dataclasses.replace` returns a graph of this class with an `x` of its own, which may not be sparse.

    @property
    def num_features(self) -> int:
        """Number of columns of `x`."""
        rows = self.sparse_rows
        return super().num_features if rows is None else rows.num_columns

    def _with(self, device: torch.device | None = None, **changes: Any) -> Graph:
        rows = self.sparse_rows
        if rows is None:
            return super()._with(device, **changes)
        values = {each.name: getattr(self, each.name) for each in fields(self) if each.name != "x"}
        return self.of(rows if device is None else rows.to(device), **{**values, **changes})
