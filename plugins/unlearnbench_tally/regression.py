"""The two ways to a head: from sums that rows are subtracted from, or anew from the retained rows."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench import Request, Task, UnlearnbenchError
from unlearnbench.gnn import SparseRows, sparse
from unlearnbench_tally.features import Features
from unlearnbench_tally.held import Held
from unlearnbench_tally.hops import GraphNeighbourhood, Hops, ball
from unlearnbench_tally.solve import Head, from_rows, from_sums
from unlearnbench_tally.sums import Sums
from unlearnbench_tally.whole import check_bound

# More columns make a Gram matrix more expensive than products with rows.
MOST_COLUMNS = 1024


@dataclass(frozen=True)
class Penalty:
    """How the head is solved for.

    Args:
        ridge: The penalty of rows of length one; None: by generalised cross-validation.
        balanced: Whether all classes that occur have the same weight.
    """

    ridge: float | None
    balanced: bool


class Regression(ABC):
    """A head and what it was computed from."""

    head: Head

    def __init__(self, features: Features, hops: Hops, penalty: Penalty) -> None:
        self.features, self.hops, self.penalty = features, hops, penalty

    @abstractmethod
    def fit(self, task: Task) -> None:
        """Compute the head from all nodes of a task."""

    @abstractmethod
    def unlearn(self, request: Request, retained: Task) -> None:
        """Compute the head without what is to be forgotten."""

    @abstractmethod
    def anchors(self) -> tuple[Tensor, Tensor]:
        """Return the ids of the retained nodes, int64 [n], and their labels, int64 [n]."""

    def state(self) -> Mapping[str, Tensor]:
        """Return what the head is computed from, apart from rows."""
        return {}

    def _probe(self, task: Task, width: int) -> Tensor:
        signs = torch.randint(2, (width,), generator=task.generator("tally", "probe"))
        return (2 * signs - 1).to(task.device, torch.float64)


class FromSums(Regression):
    """Keeps exact sums, and copies of the rows to subtract from them."""

    def fit(self, task: Task) -> None:
        """Copy all rows and add them up."""
        graph, counts = task.graph, self.hops.count
        check_bound(graph.num_nodes, self.hops.bits)
        with task.phase("rows"):
            self._held = Held(graph, self.features, with_neighbours=counts > 0)
        with task.phase("sums"):
            width = self._held.blocks[0].rows.shape[1] * (counts + 1 if self.hops.mode == "all" else 1)
            self._sums = Sums(width, graph.num_classes, self.hops.bits, self.penalty.balanced, task.device)
            if counts:
                every = torch.arange(graph.num_nodes, device=task.device)
                source = GraphNeighbourhood(graph, self.features, counts)
                self._sums.add(self.hops.rows(source, every), graph.y)
            else:
                for block in self._held.blocks:
                    self._sums.add(block.rows, block.labels)
        self._solve(task)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Subtract the rows that are gone, and exchange those that change; fit again if these are most of all.

        Where features are forgotten their nodes stay, and rows within `hops` of them change.

        Raises:
            UnlearnbenchError: The nodes that are left are not those of the retained task.
        """
        with retained.phase("locate"):
            gone, nodes, others = self._located(request)
            radius = self.hops.count if request.kind == "feature" else self.hops.radius
            changed = ball(self._held, nodes, radius) if len(nodes) else nodes
            reach = torch.cat([gone, changed]).unique()
        if not len(reach):
            return
        if 2 * len(reach) > self._sums.count:
            self.fit(retained)
            return
        with retained.phase("update"):
            self._add(reach, -1)
            if request.kind == "feature":
                at = retained.graph.positions(nodes)
                self._held.exchange(nodes, self.features.dense(retained.graph, at))
            else:
                self._held.unlink(nodes, others)
                self._held.drop(gone)
            self._add(reach[~torch.isin(reach, gone)])
        if self._sums.count != retained.graph.num_nodes:
            raise UnlearnbenchError(
                f"After the request {self._sums.count} nodes are left, the retained task has"
                f" {retained.graph.num_nodes}.",
                "Pass the task as it is without the nodes of this request and of all before it.",
            )
        self._solve(retained)

    def anchors(self) -> tuple[Tensor, Tensor]:
        """Return ids and labels."""
        blocks = self._held.blocks
        return torch.cat([block.ids for block in blocks]), torch.cat([block.labels for block in blocks])

    def state(self) -> Mapping[str, Tensor]:
        """Return the sums."""
        return {"sums": self._sums.matrices.clone()}

    def _located(self, request: Request) -> tuple[Tensor, Tensor, Tensor]:
        """Return the nodes to drop, int64 [t], and which node loses which neighbour, int64 [k] each.

        Of features: which nodes lose them, and no neighbour.
        """
        ids = request.ids.to(self._sums.matrices.device)
        none = ids[:0].reshape(-1)
        if request.kind == "feature":
            return none, request.nodes.to(ids.device), none
        if request.kind == "edge":
            both = torch.cat([ids, ids.flip(1)]) if self.hops.count else ids[:0]
            return none, both[:, 0], both[:, 1]
        if not self.hops.count:
            return ids, none, none
        counts, adjacent = self._held.lists(ids)
        stays = ~torch.isin(adjacent, ids)
        return ids, adjacent[stays], torch.repeat_interleave(ids, counts)[stays]

    def _add(self, nodes: Tensor, sign: int = 1) -> None:
        if len(nodes):
            self._sums.add(self.hops.rows(self._held, nodes), self._held.labels(nodes), sign)

    def _solve(self, task: Task) -> None:
        with task.phase("solve"):
            probe = self._probe(task, self._sums.width)
            self.head = from_sums(self._sums.weighted(), self._sums.width, self.hops.bits, self.penalty.ridge, probe)


class FromRows(Regression):
    """Keeps no rows: every request solves anew from those of the retained task."""

    def fit(self, task: Task) -> None:
        """Solve."""
        graph, scale = task.graph, 2.0**-self.hops.bits
        self._anchors = graph.ids.clone(), graph.y.clone()
        with task.phase("rows"):
            rows: Tensor | SparseRows
            if self.hops.count:
                every = torch.arange(graph.num_nodes, device=task.device)
                rows = self.hops.rows(GraphNeighbourhood(graph, self.features, self.hops.count), every)
            else:
                rows = self.features.rows(graph)
            if isinstance(rows, SparseRows):
                thin = SparseRows(rows.starts, rows.columns, rows.values * scale, rows.num_columns)
                matrix: Tensor | sparse.SparseMatrix = sparse.from_rows(thin)
            else:
                matrix = sparse.from_dense(rows * scale) if sparse.is_sparse_enough(rows) else rows * scale
        with task.phase("solve"):
            ridge, probe = self.penalty.ridge, self._probe(task, matrix.shape[1])
            assert ridge is not None
            self.head = from_rows(matrix, graph.y, graph.num_classes, self.penalty.balanced, ridge, probe)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Solve anew; without hops no row depends on an edge."""
        if request.kind != "edge" or self.hops.count:
            self.fit(retained)

    def anchors(self) -> tuple[Tensor, Tensor]:
        """Return ids and labels."""
        return self._anchors
