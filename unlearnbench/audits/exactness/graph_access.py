"""Records which graphs a method reads, without changing a bit of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self, TypeVar

import numpy as np
import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import Query, Task

_READ = ("x", "y", "edge_index", "edge_weight")
_NAMED = 5
WithGraph = TypeVar("WithGraph", Task, Query)


@dataclass(frozen=True)
class GraphRead:
    """A graph whose contents a method read: ids of its nodes, int64 [n], and its edges as ids, int64 [2, E]."""

    ids: Tensor
    pairs: Tensor


class Log:
    """Log of the graphs that were read within a section.

    It stores bytes, so that a search of the tensors reachable from a watched graph does not find
    other graphs in its log.
    """

    def __init__(self) -> None:
        self._reads: dict[str, dict[tuple[bytes, bytes], None]] = {}
        self._section = ""

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Record what is read within the context under this name; an empty name: record nothing."""
        before, self._section = self._section, name
        try:
            yield
        finally:
            self._section = before

    def see(self, graph: WatchedGraph) -> None:
        """Record a graph, if within a section."""
        if not self._section:
            return
        with self.section(""):
            ids = graph.ids.cpu()
            pairs = ids[graph.edge_index.cpu()]
        self._reads.setdefault(self._section, {})[ids.numpy().tobytes(), pairs.numpy().tobytes()] = None

    def plain(self) -> dict[str, list[tuple[Tensor, Tensor]]]:
        """Return its sections as tensors: ids of nodes, and edges as ids, of each graph."""
        return {name: [(read.ids, read.pairs) for read in self.reads(name)] for name in self._reads}

    @classmethod
    def from_plain(cls, sections: Mapping[str, Sequence[tuple[Tensor, Tensor]]]) -> Self:
        """Return the log whose `plain` these are."""
        log = cls()
        log._reads = {
            name: dict.fromkeys((ids.numpy().tobytes(), pairs.numpy().tobytes()) for ids, pairs in graphs)
            for name, graphs in sections.items()
        }
        return log

    def reads(self, section: str) -> list[GraphRead]:
        """Return the graphs read in a section, each once."""
        return [GraphRead(_numbers(ids), _numbers(pairs).reshape(2, -1)) for ids, pairs in self._reads.get(section, {})]


@dataclass(frozen=True, eq=False)
class WatchedGraph(Graph):
    """A graph that records in a log when its features, labels or edges are read.

    Its subgraphs are watched too; taking a subgraph is not a read.
    """

    log: Log = field(default_factory=Log, repr=False)

    def __getattribute__(self, name: str) -> Any:
        if name in _READ:
            log: Log = object.__getattribute__(self, "log")
            log.see(self)
        return object.__getattribute__(self, name)

    def induced(self, ids: Tensor) -> Graph:
        """Return an induced subgraph, watched."""
        with self.log.section(""):
            return watched(super().induced(ids), self.log)

    def cut_out(self, at: Tensor, edge_index: Tensor, edge_weight: Tensor | None) -> Graph:
        """Return a subgraph with given edges, watched."""
        with self.log.section(""):
            return watched(super().cut_out(at, edge_index, edge_weight), self.log)

    def nodes_alone(self, at: Tensor) -> Graph:
        """Return a subgraph without edges, watched."""
        with self.log.section(""):
            return super().nodes_alone(at)

    def parts(self, ids: Tensor, group: Tensor, wanted: Sequence[int], common: Tensor | None = None) -> Iterator[Graph]:
        """Yield the subgraphs of groups, watched; made all at once, so that reads between them are recorded."""
        with self.log.section(""):
            return iter(list(super().parts(ids, group, wanted, common)))

    def extended(self, other: Graph, links: Tensor, link_weight: Tensor | None = None) -> Graph:
        """Return the graph with another after it, watched."""
        with self.log.section(""):
            return watched(super().extended(other, links, link_weight), self.log)

    def without_labels(self) -> Graph:
        """Return the same graph with every label -1, watched."""
        with self.log.section(""):
            return watched(super().without_labels(), self.log)

    def to(self, device: torch.device) -> Graph:
        """Move every tensor to a device."""
        with self.log.section(""):
            return super().to(device)


def watched(graph: Graph, log: Log) -> WatchedGraph:
    """Return a watched graph that shares the tensors of another."""
    return WatchedGraph(**{each.name: getattr(graph, each.name) for each in fields(Graph)}, log=log)


def with_watched_graph(whole: WithGraph, log: Log) -> WithGraph:
    """Return a task or query with a watched graph, and thus watched graphs of all tasks and queries made from it."""
    return replace(whole, graph=watched(whole.graph, log))


def faults(
    reads: Sequence[GraphRead], expected: Graph, request: Request, others: Sequence[GraphRead] = ()
) -> list[str]:
    """Describe what is wrong with graphs that were read after a request, naming nodes and edges.

    Args:
        reads: The graphs; they must have no node and no edge of D, and every other edge of `expected`.
        expected: The graph they must be subgraphs of: the retained graph, or that of a query.
        request: D.
        others: The graphs that a run that never saw D read: an edge that is missing there too is
            left out by the method itself.
    """
    forgotten = request.ids.cpu()
    gone = forgotten if request.kind == "node" else forgotten[:0, 0]
    both_ways = torch.cat([forgotten, forgotten.flip(1)]).t() if request.kind == "edge" else forgotten.new_empty(2, 0)
    pairs_gone = _as_set(both_ways)
    true_pairs = expected.ids.cpu()[expected.edge_index.cpu()]
    true_pairs = true_pairs[:, ~torch.isin(true_pairs, gone).any(dim=0)]
    nodes, of_gone, lost, surplus = (set[Any]() for _ in range(4))
    for read in reads:
        nodes |= set(read.ids[torch.isin(read.ids, gone)].tolist())
        touches = torch.isin(read.pairs, gone).any(dim=0)
        wanted, got = _as_set(_among(true_pairs, read.ids)), _as_set(read.pairs[:, ~touches])
        of_gone |= _as_set(read.pairs[:, touches]) | (got & pairs_gone)
        wanted, got = wanted - pairs_gone, got - pairs_gone
        lost |= wanted - got
        surplus |= got - wanted
    for other in others:
        lost -= _as_set(_among(true_pairs, other.ids)) - _as_set(other.pairs)
    kinds = [
        (nodes, "forgotten nodes are in it"),
        (of_gone, "edges of forgotten nodes are in it" if request.kind == "node" else "forgotten edges are in it"),
        (lost, "edges between retained nodes are missing"),
        (surplus, "edges are in it that the graph does not have"),
    ]
    return [f"{len(items)} {what}: {listed(items)}" for items, what in kinds if items]


def unlike(reads: Sequence[GraphRead], others: Sequence[GraphRead], orders: Sequence[Tensor]) -> list[str]:
    """Describe each set of nodes that one run read and another did not, beside the most similar set of the other.

    A set that consists of another set's positions taken for ids is described as such: `orders` are
    the ids of graphs in the order of positions, int64 [n] each.
    """
    known = [frozenset(other.ids.tolist()) for other in others]
    misread: dict[frozenset[int], frozenset[int]] = {}
    for order in orders:
        place = {node: at for at, node in enumerate(order.tolist())}
        for nodes in known:
            misread[frozenset({place[node] for node in nodes if node in place} & place.keys())] = nodes
    descriptions = []
    for nodes in dict.fromkeys(frozenset(read.ids.tolist()) for read in reads):
        if nodes in known or not known:
            continue
        if nodes in misread:
            descriptions.append(f"{listed(nodes)}, the positions of {listed(misread[nodes])} taken for ids")
            continue
        like = max(known, key=lambda other: len(nodes & other) / len(nodes | other))
        parts = [(nodes - like, "too many"), (like - nodes, "missing")]
        text = "; ".join(f"{what}: {listed(some)}" for some, what in parts if some)
        descriptions.append(f"a graph of {len(nodes)} nodes where the other run has one of {len(like)} ({text})")
    return descriptions


def listed(values: Any) -> str:
    """Format the first few of some ids or pairs of ids."""
    ordered = sorted(values)
    text = ", ".join(f"{value[0]}-{value[1]}" if isinstance(value, tuple) else str(value) for value in ordered[:_NAMED])
    return text + (", ..." if len(ordered) > _NAMED else "")


def _among(pairs: Tensor, ids: Tensor) -> Tensor:
    return pairs[:, torch.isin(pairs, ids).all(dim=0)]


def _as_set(pairs: Tensor) -> set[tuple[int, int]]:
    return set(zip(*pairs.tolist(), strict=True)) if pairs.shape[1] else set()


def _numbers(text: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(text, dtype=np.int64).copy())
