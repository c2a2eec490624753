"""Whether a method still holds data of D: it is marked before the request and searched for afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from unlearnbench.audits.exactness.counterfactuals import Check, make_check
from unlearnbench.audits.exactness.graph_access import listed
from unlearnbench.audits.exactness.reach import named_reachable_tensors
from unlearnbench.audits.exactness.trials import Run, Trials, outcome
from unlearnbench.graph import Graph
from unlearnbench.graph.digest import raw_bytes

# Not a class of any graph, and small: code that counts classes makes a table of this length.
_LEAST_LABEL = 10_007
_SHOWN = 5


@dataclass
class Holdings:
    """Digests of the tensors reachable from a method, except those that repeat a single value."""

    digests: set[str] = field(default_factory=set)

    def add(self, root: Any) -> None:
        """Add all that is reachable from an object."""
        self.digests |= {_digest(tensor) for _, tensor in held(root)}


@dataclass
class Search:
    """Searches a method for what it should no longer hold.

    Args:
        graph: The training graph as it was before it was marked.
        ids: int64 [t], D.
        known: What a run that never saw D holds, and what the retained graph holds.

    Attributes:
        marked: Paths to marked values: the method refers to the former task.
        copies: Paths to feature rows that only a node of D has, with the nodes.
        others: Paths to other tensors that a run without D does not hold.
    """

    graph: Graph
    ids: Tensor
    known: Holdings
    marked: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def __call__(self, method: Any) -> None:
        """Search a method."""
        rows, label = unique_rows(self.graph, self.ids), unused_label(self.graph)
        for path, tensor in held(method):
            if _digest(tensor) in self.known.digests:
                continue
            if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
                _add(self.marked, f"{path} (features)")
            elif tensor.dtype in (torch.int64, torch.int32) and bool((tensor == label).any()):
                _add(self.marked, f"{path} (labels)")
            elif nodes := [node for node, row in rows.items() if contains_row(tensor, row)]:
                _add(self.copies, f"{path} (features of {listed(nodes)})")
            else:
                _add(self.others, f"{path} ({self._described(tensor)})")

    def _described(self, tensor: Tensor) -> str:
        text = f"{str(tensor.dtype).removeprefix('torch.')}, {tensor.numel()} numbers"
        if tensor.dtype is torch.int64:
            same = self.ids[torch.isin(self.ids, tensor)]
            if len(same):
                text += f", among them {listed(same.tolist())}, which are ids of forgotten nodes"
        return text


def held(root: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the dense tensors reachable from an object with their paths, except those that repeat a single value."""
    for path, tensor in named_reachable_tensors(root):
        for suffix, part in _parts(tensor):
            if part.numel() and bool((part != part.reshape(-1)[0]).any()):
                yield f"{path}{suffix}", part


def check_taint(unlearned: Run, trials: Trials, known: Holdings, exact: bool) -> Check:
    """(c) Mark x and y of D just before the request: the result must be the same and hold nothing marked.

    Tensors are also compared with those that a run without D holds, which finds copies and
    whatever was computed from them.

    Args:
        unlearned: The run without marks.
        trials: Runs the method.
        known: What a run without D holds.
        exact: Whether that run deploys the same bits; if not, tensors that merely differ are uninformative.
    """
    truth = trials.subject.train_graph
    own = Graph(truth.x.clone(), truth.y.clone(), truth.edge_index.clone(), truth.ids.clone(), truth.num_classes)
    search = Search(truth, trials.request.ids, known)
    differences = outcome(
        lambda: trials.unlearned(own, spoil=lambda graph: overwrite(graph, trials.request.ids), inspect=search),
        unlearned,
    )
    differs = [f"with x and y of forgotten nodes overwritten: {differences[0]}"] if differences else []
    paths = [
        ("reaches the former task", search.marked),
        ("holds copies", search.copies),
        ("holds what a run without the forgotten nodes does not", search.others if exact else []),
    ]
    differs += [f"{what}: {', '.join(some[:_SHOWN])}" for what, some in paths if some]
    return make_check("taint", differs)


def overwrite(graph: Graph, ids: Tensor) -> None:
    """Overwrite, in place, the features of nodes with NaN and their labels with `unused_label`.

    On CUDA labels stay: a wrong one ends the process there.
    """
    at = graph.positions(ids)
    graph.x[at] = torch.nan
    if not graph.y.is_cuda:
        graph.y[at] = unused_label(graph)


def unused_label(graph: Graph) -> int:
    """Return a number that is no class, position or id of a graph."""
    label = max(_LEAST_LABEL, graph.num_nodes, graph.num_classes)
    while bool((graph.ids == label).any()):
        label += 1
    return label


def unique_rows(graph: Graph, ids: Tensor) -> dict[int, Tensor]:
    """Return the feature rows of those nodes whose row is unique in the graph and not constant."""
    _, where, count = torch.unique(graph.x, dim=0, return_inverse=True, return_counts=True)
    at = graph.positions(ids)
    rows = {}
    for node, position in zip(ids.tolist(), at.tolist(), strict=True):
        row = graph.x[position]
        if int(count[where[position]]) == 1 and bool((row != row[0]).any()):
            rows[node] = row
    return rows


def contains_row(tensor: Tensor, row: Tensor) -> bool:
    """Whether the numbers of a row are consecutive in the memory of a tensor."""
    if not tensor.is_floating_point() or tensor.numel() < len(row):
        return False
    flat, wanted = tensor.reshape(-1), row.to(tensor.dtype)
    # Few candidates remain after the first non-zero number.
    columns = torch.nonzero(wanted)[:, 0].tolist()
    starts = torch.nonzero(flat == wanted[columns[0]])[:, 0] - columns[0]
    starts = starts[(starts >= 0) & (starts <= len(flat) - len(wanted))]
    for column in [*columns[1:], *torch.nonzero(wanted == 0)[:, 0].tolist()]:
        starts = starts[flat[starts + column] == wanted[column]]
        if not len(starts):
            return False
    return len(starts) > 0


def _parts(tensor: Tensor) -> Iterator[tuple[str, Tensor]]:
    if tensor.layout is torch.strided:
        yield "", tensor.detach()
    elif tensor.layout is torch.sparse_coo:
        yield ".indices", tensor._indices()
        yield ".values", tensor._values()
    elif tensor.layout is torch.sparse_csr:
        yield ".crow", tensor.crow_indices()
        yield ".col", tensor.col_indices()
        yield ".values", tensor.values()
    elif tensor.layout is torch.sparse_csc:
        yield ".ccol", tensor.ccol_indices()
        yield ".row", tensor.row_indices()
        yield ".values", tensor.values()
    else:
        yield ".dense", tensor.to_dense()


def _digest(tensor: Tensor) -> str:
    # Without the shape, so that a reshaped copy is recognised.
    digest = hashlib.blake2b(f"{tensor.dtype}".encode(), digest_size=16)
    digest.update(raw_bytes(tensor))
    return digest.hexdigest()


def _add(paths: list[str], path: str) -> None:
    if path not in paths:
        paths.append(path)
