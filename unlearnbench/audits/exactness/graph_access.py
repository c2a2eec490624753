"""Watches which graphs a method asks for, without changing a bit of them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import Query, Task

_READ = ("x", "y", "edge_index")
_NAMED = 5


@dataclass(frozen=True)
class GraphRead:
    """One graph whose contents a method read.

    Args:
        ids: int64 [n], its nodes.
        pairs: int64 [2, E], its edges, as ids.
    """

    ids: Tensor
    pairs: Tensor


class Log:
    """Collects what was read, while somebody watches.

    What it holds are bytes, so that a search through whatever holds a watched graph does not
    find the graphs of others in it.
    """

    def __init__(self) -> None:
        self._found: dict[str, dict[tuple[bytes, bytes], None]] = {}
        self._section = ""

    @contextmanager
    def section(self, name: str) -> Iterator[None]:
        """Put what is read inside under this name; an empty name: do not watch."""
        before, self._section = self._section, name
        try:
            yield
        finally:
            self._section = before

    def see(self, graph: WatchedGraph) -> None:
        """Note a graph, if somebody watches."""
        if not self._section:
            return
        with self.section(""):
            ids = graph.ids.cpu()
            pairs = ids[graph.edge_index.cpu()]
        self._found.setdefault(self._section, {})[ids.numpy().tobytes(), pairs.numpy().tobytes()] = None

    def reads(self, section: str) -> list[GraphRead]:
        """Give what was read under a name, each graph once."""
        return [GraphRead(_numbers(ids), _numbers(pairs).reshape(2, -1)) for ids, pairs in self._found.get(section, {})]


@dataclass(frozen=True, eq=False)
class WatchedGraph(Graph):
    """A graph that tells a log when its features, labels or edges are read.

    What is cut from it is watched too; cutting alone is no reading.
    """

    log: Log = field(default_factory=Log, repr=False)

    def __getattribute__(self, name: str) -> Any:
        if name in _READ:
            log: Log = object.__getattribute__(self, "log")
            log.see(self)
        return object.__getattribute__(self, name)

    def induced(self, ids: Tensor) -> Graph:
        """Cut out a subgraph, watched."""
        with self.log.section(""):
            return watched(super().induced(ids), self.log)

    def cut_out(self, at: Tensor, edge_index: Tensor) -> Graph:
        """Cut out a part of a subgraph, watched."""
        with self.log.section(""):
            return watched(super().cut_out(at, edge_index), self.log)

    def parts(self, ids: Tensor, group: Tensor, wanted: Sequence[int], common: Tensor | None = None) -> Iterator[Graph]:
        """Cut out the subgraphs of groups, watched; all at once, so that what is read in between is seen."""
        with self.log.section(""):
            return iter(list(super().parts(ids, group, wanted, common)))

    def without_labels(self) -> Graph:
        """Give the same graph with every label -1, watched."""
        with self.log.section(""):
            return watched(super().without_labels(), self.log)

    def to(self, device: torch.device) -> Graph:
        """Move every tensor to a device."""
        with self.log.section(""):
            return super().to(device)


def watched(graph: Graph, log: Log) -> WatchedGraph:
    """Watch a graph.

    Args:
        graph: Its tensors are shared.
        log: What is told.
    """
    return WatchedGraph(**{each.name: getattr(graph, each.name) for each in fields(Graph)}, log=log)


def watched_task(task: Task, log: Log) -> Task:
    """Watch the graph of a task, and so that of every task and query made from it."""
    return replace(task, graph=watched(task.graph, log))


def watched_query(query: Query, log: Log) -> Query:
    """Watch the graph of a query."""
    return replace(query, graph=watched(query.graph, log))


def faults(reads: Sequence[GraphRead], right: Graph, request: Request, others: Sequence[GraphRead] = ()) -> list[str]:
    """Say what is wrong with graphs that were read after a request.

    Args:
        reads: The graphs.
        right: All they may be cut from: the retained graph, or that of a query.
        request: D.
        others: What a run that never saw D read: an edge that is missing there too is left out by
            the method's own choice.

    Returns:
        Sentences that name nodes and edges; none: no node and no edge of D is in a graph, and
        every other edge is.
    """
    gone = request.ids.cpu()
    true_ids = right.ids.cpu()
    true_pairs = true_ids[right.edge_index.cpu()]
    true_pairs = true_pairs[:, ~torch.isin(true_pairs, gone).any(dim=0)]
    nodes, of_gone, lost, strange = (set[Any]() for _ in range(4))
    for sight in reads:
        nodes |= set(sight.ids[torch.isin(sight.ids, gone)].tolist())
        touches = torch.isin(sight.pairs, gone).any(dim=0)
        of_gone |= _as_set(sight.pairs[:, touches])
        wanted, got = _as_set(_among(true_pairs, sight.ids)), _as_set(sight.pairs[:, ~touches])
        lost |= wanted - got
        strange |= got - wanted
    for other in others:
        lost -= _as_set(_among(true_pairs, other.ids)) - _as_set(other.pairs)
    said = [
        (nodes, "forgotten nodes are in it"),
        (of_gone, "edges of forgotten nodes are in it"),
        (lost, "edges between retained nodes are missing"),
        (strange, "edges are in it that the graph does not have"),
    ]
    return [f"{len(found)} {what}: {listed(found)}" for found, what in said if found]


def unlike(reads: Sequence[GraphRead], others: Sequence[GraphRead], orders: Sequence[Tensor]) -> list[str]:
    """Say which sets of nodes were read that another run did not read.

    Args:
        reads: What one run read.
        others: What the other run read.
        orders: Each int64 [n], the ids of a graph in the order of its positions: a set that is
            what another set's positions are, taken for ids, is called that.

    Returns:
        One sentence a set, beside the set of the other run that is most like it.
    """
    known = [frozenset(other.ids.tolist()) for other in others]
    misread: dict[frozenset[int], frozenset[int]] = {}
    for order in orders:
        place = {node: at for at, node in enumerate(order.tolist())}
        for nodes in known:
            misread[frozenset({place[node] for node in nodes if node in place} & place.keys())] = nodes
    told = []
    for nodes in dict.fromkeys(frozenset(sight.ids.tolist()) for sight in reads):
        if nodes in known or not known:
            continue
        if nodes in misread:
            told.append(f"{listed(nodes)}, the positions of {listed(misread[nodes])} taken for ids")
            continue
        like = max(known, key=lambda other: len(nodes & other) / len(nodes | other))
        parts = [(nodes - like, "too many"), (like - nodes, "missing")]
        text = "; ".join(f"{what}: {listed(some)}" for some, what in parts if some)
        told.append(f"a graph of {len(nodes)} nodes where the other run has one of {len(like)} ({text})")
    return told


def listed(values: Any) -> str:
    """Write the first few of some ids or pairs of ids."""
    ordered = sorted(values)
    text = ", ".join(f"{value[0]}-{value[1]}" if isinstance(value, tuple) else str(value) for value in ordered[:_NAMED])
    return text + (", ..." if len(ordered) > _NAMED else "")


def _among(pairs: Tensor, ids: Tensor) -> Tensor:
    return pairs[:, torch.isin(pairs, ids).all(dim=0)]


def _as_set(pairs: Tensor) -> set[tuple[int, int]]:
    return set(zip(*pairs.tolist(), strict=True)) if pairs.shape[1] else set()


def _numbers(text: bytes) -> Tensor:
    return torch.from_numpy(np.frombuffer(text, dtype=np.int64).copy())
