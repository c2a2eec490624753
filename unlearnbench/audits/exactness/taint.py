"""Does a method still hold data of D? Marks it before the request, and searches what can be reached afterwards."""

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

# No class of any graph, and small: whatever counts classes makes a table of this length.
_LEAST_LABEL = 10_007
_SHOWN = 5


@dataclass
class Holdings:
    """What can be reached from a method: digests of tensors that hold more than one value over and over."""

    digests: set[str] = field(default_factory=set)

    def add(self, root: Any) -> None:
        """Add all that can be reached from an object."""
        self.digests |= {_digest(tensor) for _, tensor in held(root)}


@dataclass
class Search:
    """Searches a method for what it should no longer hold.

    Args:
        graph: The training graph as it was before it was marked.
        ids: int64 [t], D.
        known: What a run holds that never saw D, and what can be made of the retained graph.

    Attributes:
        marked: Ways to marked values: the method refers to the former task.
        copies: Ways to rows of features that only a node of D has, with the nodes.
        others: Ways to other tensors that a run without D does not hold.
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
        for way, tensor in held(method):
            if _digest(tensor) in self.known.digests:
                continue
            if tensor.is_floating_point() and bool(torch.isnan(tensor).any()):
                _add(self.marked, f"{way} (features)")
            elif tensor.dtype in (torch.int64, torch.int32) and bool((tensor == label).any()):
                _add(self.marked, f"{way} (labels)")
            elif found := [node for node, row in rows.items() if contains_row(tensor, row)]:
                _add(self.copies, f"{way} (features of {listed(found)})")
            else:
                _add(self.others, f"{way} ({self._described(tensor)})")

    def _described(self, tensor: Tensor) -> str:
        text = f"{str(tensor.dtype).removeprefix('torch.')}, {tensor.numel()} numbers"
        if tensor.dtype is torch.int64:
            same = self.ids[torch.isin(self.ids, tensor)]
            if len(same):
                text += f", among them {listed(same.tolist())}, which are ids of forgotten nodes"
        return text


def held(root: Any) -> Iterator[tuple[str, Tensor]]:
    """Yield the dense tensors that can be reached from an object, with the way; none that is one value throughout."""
    for way, tensor in named_reachable_tensors(root):
        for suffix, part in _parts(tensor):
            if part.numel() and bool((part != part.reshape(-1)[0]).any()):
                yield f"{way}{suffix}", part


def check_taint(unlearned: Run, trials: Trials, known: Holdings, exact: bool) -> Check:
    """(c) Mark x and y of D just before the request: nothing comes out otherwise, nothing marked is held afterwards.

    Tensors are also compared with those that a run without D holds: so that copies and whatever
    was computed from them are found, too.

    Args:
        unlearned: The run without marks.
        trials: Runs the method.
        known: What a run without D holds.
        exact: Whether that run deploys the same bits; if not, tensors that merely differ tell nothing.
    """
    truth = trials.subject.train_graph
    own = Graph(truth.x.clone(), truth.y.clone(), truth.edge_index.clone(), truth.ids.clone(), truth.num_classes)
    search = Search(truth, trials.request.ids, known)
    found = outcome(
        lambda: trials.unlearned(own, spoil=lambda graph: overwrite(graph, trials.request.ids), inspect=search),
        unlearned,
    )
    differs = [f"with x and y of forgotten nodes overwritten: {found[0]}"] if found else []
    ways = [
        ("reaches the former task", search.marked),
        ("holds copies", search.copies),
        ("holds what a run without the forgotten nodes does not", search.others if exact else []),
    ]
    differs += [f"{what}: {', '.join(some[:_SHOWN])}" for what, some in ways if some]
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
    """Give a number that is no class, position or id of a graph."""
    overwrite = max(_LEAST_LABEL, graph.num_nodes, graph.num_classes)
    while bool((graph.ids == overwrite).any()):
        overwrite += 1
    return overwrite


def unique_rows(graph: Graph, ids: Tensor) -> dict[int, Tensor]:
    """Give the features of those nodes whose row no other node of the graph has, and that are not one value."""
    _, where, count = torch.unique(graph.x, dim=0, return_inverse=True, return_counts=True)
    at = graph.positions(ids)
    rows = {}
    for node, position in zip(ids.tolist(), at.tolist(), strict=True):
        row = graph.x[position]
        if int(count[where[position]]) == 1 and bool((row != row[0]).any()):
            rows[node] = row
    return rows


def contains_row(tensor: Tensor, row: Tensor) -> bool:
    """Tell whether the numbers of a row stand one after the other in the memory of a tensor."""
    if not tensor.is_floating_point() or tensor.numel() < len(row):
        return False
    flat, wanted = tensor.reshape(-1), row.to(tensor.dtype)
    # Few places are left after the first number that is not zero.
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
    content = tensor.detach().cpu().contiguous().reshape(-1)
    digest = hashlib.blake2b(f"{content.dtype}".encode(), digest_size=16)
    digest.update(content.view(torch.uint8).numpy().tobytes())
    return digest.hexdigest()


def _add(ways: list[str], way: str) -> None:
    if way not in ways:
        ways.append(way)
