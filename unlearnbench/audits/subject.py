"""`Subject`: a cell under audit, its data, and methods trained and queried on it."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.component import Spec, canonical_json
from unlearnbench.gnn import train_networks
from unlearnbench.gnn.trained import training_key
from unlearnbench.graph import Graph, Split
from unlearnbench.protocol import Request, protocol
from unlearnbench.running.cell import Cell
from unlearnbench.task import Query, Task, Training, View, make_query, surroundings
from unlearnbench.unlearning import PostHoc, Unlearner

Kept = TypeVar("Kept")
State = Mapping[str, Tensor]
Trained = MutableMapping[str, State]


class Memory:
    """Keeps what several cells of a run of audits share, above all predictions of retrained references.

    Args:
        folder: Where cells in processes of their own leave such values for each other; None: nowhere.
    """

    def __init__(self, folder: Path | None = None) -> None:
        self._held: dict[str, Any] = {}
        self._networks: dict[str, State] = {}
        self._place: Any = None
        self._folder = folder

    def get(self, key: Any, make: Callable[[], Kept]) -> Kept:
        """Return the value for a key of plain values; compute it first if it is missing."""
        text = canonical_json(key)
        if text not in self._held:
            self._held[text] = make()
        value: Kept = self._held[text]
        return value

    def get_plain(self, key: Any, make: Callable[[], Kept]) -> Kept:
        """As `get`, for tensors in dicts and lists, which processes of the same run compute once for all of them."""
        return self.get(key, lambda: self._read_or_make(key, make))

    def get_network(self, place: Any, key: str, make: Callable[[], State]) -> State:
        """As `get_plain`, for the parameters of a network; released when one is asked for in another place."""
        if place != self._place:
            self._networks.clear()
            self._place = place
        if key not in self._networks:
            self._networks[key] = self._read_or_make(key, make)
        return self._networks[key]

    def _read_or_make(self, key: Any, make: Callable[[], Kept]) -> Kept:
        if self._folder is None:
            return make()
        path = self._folder / f"{hashlib.sha256(canonical_json(key).encode()).hexdigest()}.pt"
        if path.exists():
            read: Kept = torch.load(path, weights_only=True)
            return read
        made = make()
        # Another process may make it at the same time, with the same bits: the last one stays. Without room
        # on the disk (torch raises a RuntimeError then) each makes its own.
        part = path.with_suffix(f".{os.getpid()}")
        with contextlib.suppress(OSError, RuntimeError):
            torch.save(made, part)
            os.replace(part, path)
        return made

    def forget(self) -> None:
        """Release everything: the next cells have another graph or split."""
        self._held.clear()
        self._networks.clear()


@dataclass(frozen=True, eq=False)
class Subject:
    """A cell under audit.

    Runs are numbered: run 0 has the seed of the cell itself, so that its networks are bit for bit
    those that `unlearnbench run` deploys; other runs have other seeds with the same split and
    request.

    Args:
        cell: The cell.
        graph: The dataset.
        device: Where methods compute.
        find: Looks up a method by its bracket: for references and controls.
        memory: What cells share.
    """

    cell: Cell
    graph: Graph
    device: torch.device
    find: Callable[[str], Spec] = field(repr=False)
    memory: Memory = field(default_factory=Memory, repr=False)

    @cached_property
    def repetition_data(self) -> protocol.RepetitionData:
        """The data of the cell's repetition."""
        cell = self.cell
        return protocol.repetition_data(cell.protocol, self.graph, cell.seed, cell.dataset_identity, cell.repetition)

    @property
    def split(self) -> Split:
        """The split of the cell's repetition."""
        return self.repetition_data.split

    @cached_property
    def request(self) -> Request:
        """The request of the cell's repetition, D, on the device."""
        drawn = self.repetition_data.request
        return Request(drawn.ids.to(self.device), drawn.kind)

    @cached_property
    def train_graph(self) -> Graph:
        """The subgraph of all training nodes, including D, on the device."""
        return self.repetition_data.graph.induced(self.split.train).to(self.device)

    @property
    def reference(self) -> Spec:
        """Retrain, the reference."""
        return self.find("retrain")

    def task(
        self, run: int = 0, side: str = "", training: Training | None = None, trained: Trained | None = None
    ) -> Task:
        """Return the task of a run, with all training nodes.

        Args:
            run: Number of the seed.
            side: Name of the side in a comparison: seeds of different sides are independent.
            training: How networks are trained; default: as in the cell.
            trained: As in `Task`, for runs that train in part the same.
        """
        cell = self.cell
        seed = protocol.task_seed(cell.seed, cell.dataset_identity, cell.repetition)
        if run or side:
            seed = seeds.seed(seed, "audit", side, run)
        outside = surroundings(self.repetition_data.graph, self.repetition_data.unlabelled, self.device)
        how = training or cell.training
        return Task(self.train_graph, cell.model, how, self.device, seed, surroundings=outside, trained=trained)

    def begun(self, method: Spec, task: Task) -> Task:
        """Return the task with a trained network, if the method begins with the one that Retrain trains on it.

        Post-hoc methods do. The network is trained once for all cells with this data, model, training and request.
        """
        # On CUDA the bits of a network depend on those trained with it.
        begins_alike = issubclass(method.cls, PostHoc) or method.canonical() == self.reference.canonical()
        if not begins_alike or task.device.type == "cuda":
            return task
        key = training_key(task, task.seen, 0, "member", {}, 0)
        known = {} if task.trained is None else task.trained
        if key not in known:
            blank = replace(task, trained=None)
            known[key] = self.memory.get_network(
                self.place(), key, lambda: train_networks(blank, [blank.seen], [0]).state(0)
            )
        return replace(task, trained=known)

    def fit(self, method: Spec, task: Task) -> Unlearner:
        """Build and train a method."""
        built: Unlearner = method.build()
        built.fit(task)
        return built

    def forget(self, method: Unlearner, task: Task, request: Request | None = None) -> Task:
        """Unlearn a request, by default the cell's, and return the retained task."""
        request = self.request if request is None else request
        retained = task.without(request)
        method.unlearn(request, retained)
        return retained

    def query(self, targets: Tensor, retained: Tensor, view: View = View.SHARD, unlink: bool = True) -> Query:
        """Return a query about nodes over the graph of the retained training nodes.

        Forgotten nodes may be among the targets, as unseen nodes.

        Args:
            targets: int64 [n], ids.
            retained: int64 [m], ids of the retained training nodes.
            view: Which graph messages pass over.
            unlink: Leave out the edges between two forgotten targets, so that each has only its edges
                to retained nodes.
        """
        targets, retained = targets.cpu(), retained.cpu()
        graph = self.repetition_data.graph
        if unlink:
            gone = torch.isin(graph.ids, self.split.train) & ~torch.isin(graph.ids, retained)
            source, target = graph.edge_index
            graph = graph.only_edges(~(gone[source] & gone[target]))
        return make_query(graph, retained, targets, view, self.device, self.repetition_data.unlabelled)

    def place(self) -> dict[str, Any]:
        """Return the cell's data, model, training and request as plain values: the first part of a key of `memory`."""
        return {name: value for name, value in self.cell.canonical().items() if name not in ("method", "audit")}

    def remembered(self, what: Any, make: Callable[[], Kept]) -> Kept:
        """Return a value computed before for the same data, model, training and request, else compute it.

        Args:
            what: Plain values that identify it; a method by its `canonical()`.
            make: Computes it.
        """
        return self.memory.get([self.place(), what], make)

    def remembered_plain(self, what: Any, make: Callable[[], Kept]) -> Kept:
        """As `remembered`, for tensors in dicts and lists that cells in processes of their own share too.

        Only for what no audited method computes, Retrain and the controls, or what its key describes to the bit.
        """
        return self.memory.get_plain([self.place(), what], make)

    def in_own_order(self, count: int) -> list[int]:
        """Return the numbers below `count` in an order that differs between cells.

        Cells that are computed at the same time and share results then seldom make the same one.
        """
        generator = seeds.generator(0, "order", canonical_json(self.cell.canonical()))
        order: list[int] = torch.randperm(count, generator=generator).tolist()
        return order

    @property
    def is_of_reference(self) -> bool:
        """Whether the method under audit is Retrain."""
        return self.cell.method.canonical() == self.reference.canonical()


def log_probabilities(predict: Callable[[Query], Tensor], queries: Mapping[str, Query]) -> dict[str, Tensor]:
    """Return a method's log-probabilities for several queries, float [n, C] on the CPU, by the queries' names."""
    with torch.no_grad():
        return {name: predict(query).cpu() for name, query in queries.items()}


class RetainedQuery(Query):
    """A query over the retained graph that a method that still holds forgotten nodes may answer."""

    @classmethod
    def of(cls, query: Query) -> RetainedQuery:
        """Return the same query in this form."""
        return cls(query.targets, query.view, query.graph, query.retained)

    def context(self, train_ids: Tensor) -> Graph:
        """Return the graph as `Query` does, for the retained nodes of `train_ids`."""
        return super().context(train_ids[torch.isin(train_ids, self.retained)])

    def contexts(self, train_ids: Tensor, group: Tensor, wanted: Sequence[int]) -> Iterator[Graph]:
        """Return the graphs as `Query` does, for the retained nodes of `train_ids`."""
        retained = torch.isin(train_ids, self.retained)
        return super().contexts(train_ids[retained], group[retained], wanted)
