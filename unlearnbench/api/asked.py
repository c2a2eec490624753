"""What a user asks to be forgotten, read as a request that fits a graph."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence, Sized
from typing import Any

import torch
from torch import Tensor

from unlearnbench.component import Spec
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, Request
from unlearnbench.protocol.drawing import draw, draw_edges, draw_features
from unlearnbench.protocol.requests import Kind


def request_for(
    spec: Spec, asked: Mapping[Kind, Any], train: Graph, graph: Graph, served: Sequence[Request]
) -> Request:
    """Return the request for what one of several arguments lists.

    Args:
        spec: The method that is asked.
        asked: What is listed for each kind; all but one are None.
        train: The training graph that is left.
        graph: The whole graph that is left.
        served: Requests that were served before.

    Raises:
        UsageError: More or less than one kind is asked for, the method does not forget it, or what is listed is not
            there to be forgotten.
    """
    given = {kind: listed for kind, listed in asked.items() if listed is not None}
    if len(given) != 1:
        raise UsageError("forget() takes nodes, edges or features.", "Example: forget([3, 7]), forget(edges=[(3, 7)]).")
    ((kind, listed),) = given.items()
    if kind not in spec.innermost().cls.forgets:
        raise UsageError(f"{spec.label} does not forget {kind}s.", "Its page says what it forgets.")
    if served and served[0].kind != kind:
        raise UsageError(f"{served[0].kind}s were forgotten before.", "Forget one kind.")
    train = train.to(torch.device("cpu"))
    listed = listed.tolist() if isinstance(listed, Tensor) else listed
    if kind == "edge":
        pairs = _pairs(listed, "An edge has two ends.", "forget(edges=[(3, 7)])")
        check_known(pairs.flatten(), graph, served)
        return draw_edges(Forget(None, ids=_tuples(pairs), kind=kind), train, 0, torch.Generator())
    if kind == "feature" and any(isinstance(one, Sized) and getattr(one, "ndim", 1) for one in listed):
        pairs = _pairs(listed, "A feature is a node and a column.", "forget(features=[(3, 0)])")
        ids, named = pairs[:, 0], _tuples(pairs)
    else:
        ids = ids_of(listed)
        named = tuple(ids.tolist())
    check_known(ids, graph, served)
    strange = ids[~train.contains(ids)]
    if len(strange):
        raise UsageError(
            f"Node {int(strange[0])} is not a training node.",
            "Only training nodes can be forgotten: task.split.train lists them.",
        )
    forget = Forget(None, ids=named, kind=kind)
    if kind == "feature":
        return draw_features(forget, train.ids, 0, train.num_features, torch.Generator())
    return draw(forget, train.ids, 0, torch.Generator())


def check_known(ids: Tensor, graph: Graph, served: Sequence[Request]) -> None:
    """Check that ids name nodes of a graph.

    Raises:
        UsageError: One does not, or was forgotten.
    """
    forgotten = [request.removed for request in served]
    gone = ids[torch.isin(ids, torch.cat([ids[:0], *forgotten]))]
    if len(gone):
        raise UsageError(f"Node {int(gone[0])} was forgotten: it is not in the graph any more.", "Leave it out.")
    strange = ids[~graph.contains(ids)]
    if len(strange):
        raise UsageError(f"Node {int(strange[0])} is not in the graph.", "Nodes are named by their ids.")


def ids_of(values: Iterable[int] | Tensor) -> Tensor:
    """Return ids as int64 [n].

    Raises:
        UsageError: Anything else is listed, or nothing.
    """
    try:
        given = values.tolist() if isinstance(values, Tensor) else list(values)
        if any(isinstance(value, bool) for value in given):
            raise UsageError(
                "A mask does not name nodes.", "Give ids; of data without `ids`: mask.nonzero().flatten()."
            )
        listed = [operator.index(value) for value in given]
    except TypeError:
        raise UsageError(f"{values!r} does not list ids of nodes.", "Give whole numbers: [3, 7].") from None
    if not listed:
        raise UsageError("No node is named.", "Name at least one: [3, 7].")
    if not all(-(2**63) <= value < 2**63 for value in listed):
        raise UsageError("An id does not fit into 64 bits.", "Nodes are named by their ids.")
    return torch.tensor(listed, dtype=torch.int64)


def _pairs(listed: Iterable[Any], problem: str, example: str) -> Tensor:
    """Return pairs of whole numbers as int64 [t, 2]."""
    rows = [tuple(one) if isinstance(one, Iterable) else (one,) for one in listed]
    if any(len(row) != 2 for row in rows):
        raise UsageError(problem, f"Example: {example}.")
    return ids_of([number for row in rows for number in row]).reshape(-1, 2)


def _tuples(pairs: Tensor) -> tuple[tuple[int, int], ...]:
    return tuple((first, second) for first, second in pairs.tolist())
