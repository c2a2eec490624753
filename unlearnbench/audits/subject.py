"""What an audit works with: a cell, its data, and methods trained and asked on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.component import Spec, canonical_json
from unlearnbench.graph import Graph, Split
from unlearnbench.protocol import Request, protocol
from unlearnbench.running.cell import Cell
from unlearnbench.task import Query, Task, Training, View, make_query
from unlearnbench.unlearning import Unlearner

Kept = TypeVar("Kept")


class Memory:
    """Keeps what several cells of one run of audits need: above all the answers of retrained references."""

    def __init__(self) -> None:
        self._held: dict[str, Any] = {}

    def get(self, key: Any, make: Callable[[], Kept]) -> Kept:
        """Give what is held under a key of plain values; make it first if it is not there."""
        text = canonical_json(key)
        if text not in self._held:
            self._held[text] = make()
        found: Kept = self._held[text]
        return found

    def forget(self) -> None:
        """Let everything go: the next cells are of another graph or split."""
        self._held.clear()


@dataclass(frozen=True, eq=False)
class Subject:
    """A cell under audit.

    Runs are numbered: run 0 has the seed of the cell itself, so its networks are bit for bit
    those that `unlearnbench run` deploys; other runs have other seeds and the same split and
    request.

    Args:
        cell: What is audited.
        graph: The dataset.
        device: Where methods compute.
        find: Looks a method up by its bracket: for references and controls.
        memory: What cells share.
    """

    cell: Cell
    graph: Graph
    device: torch.device
    find: Callable[[str], Spec] = field(repr=False)
    memory: Memory = field(default_factory=Memory, repr=False)

    @cached_property
    def setting(self) -> protocol.RepetitionData:
        """Give the data of the cell's repetition."""
        cell = self.cell
        return protocol.repetition_data(cell.protocol, self.graph, cell.seed, cell.dataset_identity, cell.repetition)

    @property
    def split(self) -> Split:
        """Give the split of the cell's repetition."""
        return self.setting.split

    @cached_property
    def request(self) -> Request:
        """Give the request of the cell's repetition: D, on the device."""
        drawn = self.setting.request
        return Request(drawn.ids.to(self.device), drawn.kind)

    @cached_property
    def train_graph(self) -> Graph:
        """Give the subgraph of all training nodes, D among them, on the device."""
        return self.setting.graph.induced(self.split.train).to(self.device)

    @property
    def reference(self) -> Spec:
        """Give Retrain."""
        return self.find("retrain")

    def task(self, run: int = 0, side: str = "", training: Training | None = None) -> Task:
        """Make the task of a run: all training nodes.

        Args:
            run: Which seed.
            side: Seeds of two sides that are compared must be independent: name the side.
            training: How networks are trained, if not as the cell says.
        """
        cell = self.cell
        seed = protocol.task_seed(cell.seed, cell.dataset_identity, cell.repetition)
        if run or side:
            seed = seeds.seed(seed, "audit", side, run)
        return Task(self.train_graph, cell.model, training or cell.training, self.device, seed)

    def fit(self, method: Spec, task: Task) -> Unlearner:
        """Build and train a method."""
        built: Unlearner = method.build()
        built.fit(task)
        return built

    def forget(self, method: Unlearner, task: Task, request: Request | None = None) -> Task:
        """Tell a method to forget; give the retained task."""
        request = self.request if request is None else request
        retained = task.without(request)
        method.unlearn(request, retained)
        return retained

    def query(self, targets: Tensor, retained: Tensor, view: View = View.SHARD, unlink: bool = True) -> Query:
        """Ask about nodes over the graph of the retained training nodes.

        Forgotten nodes may be among the targets: they are asked about as strangers.

        Args:
            targets: int64 [n], ids.
            retained: int64 [m], ids of the training nodes that are left.
            view: Which graph messages pass over.
            unlink: Leave out the edges between two targets that are forgotten nodes, so that each is
                asked about with the edges it had to retained nodes alone.
        """
        targets, retained = targets.cpu(), retained.cpu()
        graph = self.setting.graph
        if unlink:
            gone = torch.isin(graph.ids, self.split.train) & ~torch.isin(graph.ids, retained)
            source, target = graph.edge_index
            graph = graph.with_edges(graph.edge_index[:, ~(gone[source] & gone[target])])
        return make_query(graph, retained, targets, view, self.device)

    def place(self) -> dict[str, Any]:
        """Name what the cell's data, model, training and request are: the front of a key of `memory`."""
        canonical = self.cell.canonical()
        left = ("method", "audit")
        return {name: value for name, value in canonical.items() if name not in left}

    def remembered(self, what: Any, make: Callable[[], Kept]) -> Kept:
        """Give what was made before for the same data, model, training and request; else make it.

        Args:
            what: Plain values that name it; a method by its `canonical()`.
            make: Makes it.
        """
        return self.memory.get([self.place(), what], make)


def log_probabilities(method: Unlearner, queries: Mapping[str, Query]) -> dict[str, Tensor]:
    """Ask a method several queries: log-probabilities, float [n, C] on the CPU, by the queries' names."""
    with torch.no_grad():
        return {name: method.predict(query).cpu() for name, query in queries.items()}


class RetainedQuery(Query):
    """A question over the graph that is left, to a method that still holds what has left it: that is not refused."""

    def context(self, train_ids: Tensor) -> Graph:
        """Cut the graph as `Query` does, of those of `train_ids` that are left."""
        return super().context(train_ids[torch.isin(train_ids, self.retained)])

    def contexts(self, train_ids: Tensor, group: Tensor, wanted: Sequence[int]) -> Iterator[Graph]:
        """Cut the graphs as `Query` does, of those of `train_ids` that are left."""
        left = torch.isin(train_ids, self.retained)
        return super().contexts(train_ids[left], group[left], wanted)
