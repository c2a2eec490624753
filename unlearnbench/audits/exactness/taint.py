"""Whether a method still holds data of D: it is marked before the request and searched for afterwards."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import torch
from torch import Tensor

from unlearnbench.audits.exactness.counterfactuals import Check, make_check
from unlearnbench.audits.exactness.graph_access import listed
from unlearnbench.audits.exactness.reach import named_reachable_tensors
from unlearnbench.audits.exactness.run import Run, outcome
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.graph import Graph
from unlearnbench.graph.digest import raw_bytes
from unlearnbench.protocol import Request

# Not a class of any graph, and small: code that counts classes makes a table of this length.
_LEAST_LABEL = 10_007
_SHOWN = 5
_STORED: Final[Mapping[torch.layout, Mapping[str, Callable[[Tensor], Tensor]]]] = {
    torch.sparse_coo: {"indices": Tensor._indices, "values": Tensor._values},
    torch.sparse_csr: {"crow": Tensor.crow_indices, "col": Tensor.col_indices, "values": Tensor.values},
    torch.sparse_csc: {"ccol": Tensor.ccol_indices, "row": Tensor.row_indices, "values": Tensor.values},
}


def digests_of(root: Any) -> set[str]:
    """Return the digests of the tensors reachable from an object, except those that repeat a single value."""
    return {_digest(tensor) for _, tensor in held(root)}


@dataclass
class Search:
    """Searches a method for what it should no longer hold.

    Args:
        graph: The training graph as it was before it was marked.
        ids: int64 [t], the nodes of D, or those that lose features.
        known: Digests of what a run that never saw D holds, and of what the retained graph holds.

    Attributes:
        marked: Paths to marked values: the method refers to the former task.
        copies: Paths to feature rows that only a node of D has, with the nodes.
        others: Paths to other tensors that a run without D does not hold.
    """

    graph: Graph
    ids: Tensor
    known: set[str]
    marked: list[str] = field(default_factory=list)
    copies: list[str] = field(default_factory=list)
    others: list[str] = field(default_factory=list)

    def __call__(self, method: Any) -> None:
        """Search a method; more than once, paths are listed again."""
        rows, label = unique_rows(self.graph, self.ids), unused_label(self.graph)
        for path, tensor in held(method):
            if _digest(tensor) in self.known:
                continue
            if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
                what = "features" if self.graph.edge_weight is None else "features or weights"
                self.marked.append(f"{path} ({what})")
            elif tensor.dtype in (torch.int64, torch.int32) and bool((tensor == label).any()):
                self.marked.append(f"{path} (labels)")
            elif nodes := [node for node, row in rows.items() if contains_row(tensor, row)]:
                self.copies.append(f"{path} (features of {listed(nodes)})")
            else:
                self.others.append(f"{path} ({self._described(tensor)})")

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


def check_taint(unlearned: Run, trials: Trials, known: set[str], exact: bool) -> Check:
    """(c) Mark x and y of D just before the request: the result must be the same and hold nothing marked.

    Where edges have weights, those of its edges are marked too. Tensors are also compared with those that a run
    without D holds, whose digests are `known`: this finds copies and whatever was computed from them. Only if that run
    is `exact`, deploying the same bits, are tensors that merely differ informative.
    """
    search = Search(trials.subject.train_graph, trials.losers, set())

    def marked() -> Run:
        found = trials.apart(_marked, sorted(known))
        search.marked, search.copies, search.others = found["paths"]
        return Run.from_plain(found["run"])

    differences = outcome(marked, unlearned)
    differs = [f"with x and y of forgotten nodes overwritten: {differences[0]}"] if differences else []
    paths = [
        ("reaches the former task", search.marked),
        ("holds copies", search.copies),
        ("holds what a run without the forgotten nodes does not", search.others if exact else []),
    ]
    # After the request and after all queries: a path may be listed twice.
    differs += [f"{what}: {', '.join([*dict.fromkeys(some)][:_SHOWN])}" for what, some in paths if some]
    return make_check("taint", differs)


def _marked(trials: Trials, known: list[str]) -> dict[str, Any]:
    """Make the run whose data of D is overwritten, and search the method after the request and after all queries."""
    truth = trials.subject.train_graph
    weight = None if truth.edge_weight is None else truth.edge_weight.clone()
    x, y, edges, ids = (each.clone() for each in (truth.x, truth.y, truth.edge_index, truth.ids))
    own = Graph(x, y, edges, ids, truth.num_classes, edge_weight=weight)
    search = Search(truth, trials.losers, set(known))
    run = trials.unlearned(own, spoil=lambda graph: overwrite(graph, trials.request), inspect=search)
    return {"run": run.plain(), "paths": [search.marked, search.copies, search.others]}


def overwrite(graph: Graph, request: Request) -> None:
    """Overwrite, in place, the features of nodes with NaN and their labels with `unused_label`; or features alone.

    Edges that go have the weight NaN, if they have weights. On CUDA labels stay: a wrong one ends the process there.
    """
    if request.kind == "feature":
        graph.x.masked_fill_(request.feature_mask(graph), torch.nan)
    if graph.edge_weight is not None and request.kind != "feature":
        ends = graph.ids[graph.edge_index]
        goes = graph.copies(request.ids) if request.kind == "edge" else torch.isin(ends, request.ids).any(dim=0)
        graph.edge_weight.masked_fill_(goes, torch.nan)
    if request.kind != "node":
        return
    at = graph.positions(request.ids)
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
    else:
        for name, read in _STORED.get(tensor.layout, {"dense": Tensor.to_dense}).items():
            yield f".{name}", read(tensor)


def _digest(tensor: Tensor) -> str:
    # Without the shape, so that a reshaped copy is recognised.
    digest = hashlib.blake2b(f"{tensor.dtype}".encode(), digest_size=16)
    digest.update(raw_bytes(tensor))
    return digest.hexdigest()
