"""Requests: what must be forgotten, and the graph without it."""

from __future__ import annotations

import decimal
import hashlib
import itertools
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, Literal, Self

import torch
from torch import Tensor

from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph

Kind = Literal["node", "edge", "feature"]
ALL_COLUMNS: Final = -1


@dataclass(frozen=True)
class Forget:
    """What the user asks to forget; exactly one of `ratio`, `count` and `ids` is set.

    Args:
        ratio: Share of all nodes of the graph, or of all adjacent pairs, 0 < ratio < 1, rounded
            half up (paper, section "Unlearning Efficiency Settings": 0.5 % of the node set).
        count: Number of nodes, or of pairs.
        ids: Permanent ids of training nodes, or adjacent pairs of them.
            An edge named in both directions is one edge, and is kept with the lower id first.
            Of features: ids of nodes, all of whose features are meant, or pairs of an id and a column.
        kind: What is forgotten. An edge is a pair of nodes, whatever its direction and however often it is
            stored. Features become zero; their nodes, labels and edges stay.
        stream: How many requests of this size are made, one after the other; None: one.
    """

    ratio: float | None = 0.005
    count: int | None = None
    ids: tuple[int, ...] | tuple[tuple[int, int], ...] | None = None
    kind: Kind = "node"
    stream: int | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("ratio", "count", "ids") if getattr(self, name) is not None]
        if len(given) != 1:
            raise UsageError(
                f"Specify what to forget in one way; given: {', '.join(given) or 'none'}.",
                "Use one of `forget_ratio`, `forget_count`, `forget`.",
            )
        if self.ratio is not None and not 0 < self.ratio < 1:
            raise UsageError(f"`forget_ratio` {self.ratio:g} is not between 0 and 1.", "5 % is 0.05.")
        if self.count is not None and self.count < 1:
            raise UsageError(
                f"`forget_count` {self.count} is not a positive number.", f"Name at least one {self.kind}."
            )
        if self.ids is not None and self.stream is not None:
            raise UsageError(
                "`forget` names one request, `stream` draws several.",
                "Leave one of them out; `forget_count` or `forget_ratio` is the size of each request of a stream.",
            )
        if self.ids is not None:
            self._check_ids()

    def _check_ids(self) -> None:
        assert self.ids is not None
        if not self.ids:
            raise UsageError(f"`forget` names no {self.kind}.", f"Name at least one {self.kind}, or leave it out.")
        # By types and as sets: a million ids are looked at in a fraction of a second.
        are_pairs = {issubclass(kind, tuple) for kind in set(map(type, self.ids))}
        if are_pairs != {self.kind == "edge"} and (self.kind != "feature" or len(are_pairs) > 1):
            example = {"node": "10,20", "edge": "10-20,20-37", "feature": "10,20, or 10:0,20:3"}[self.kind]
            raise UsageError(f"`forget` does not name {self.kind}s.", f"Example: `forget` {example}")
        if len(set(self.ids)) < len(self.ids):
            twice = Counter(self.ids).most_common(1)[0][0]
            joint = "-" if self.kind == "edge" else ":"
            shown = joint.join(map(str, twice)) if isinstance(twice, tuple) else twice
            raise UsageError(f"`forget` names {shown} twice.", "Leave one out.")
        pairs = [one for one in self.ids if isinstance(one, tuple)]
        if self.kind == "feature":
            for node, column in pairs:
                if not 0 <= column < 2**63:
                    raise UsageError(f"`forget` {node}:{column}: no such column.", "Columns are counted from 0.")
        loop = next((a for a, b in pairs if a == b and self.kind == "edge"), None)
        if loop is not None:
            raise UsageError(f"`forget` {loop}-{loop}: a self-loop is no edge between two nodes.", "Leave it out.")
        ends: Sequence[Any] = list(itertools.chain.from_iterable(pairs)) or self.ids
        invalid = next((end for end in (min(ends), max(ends)) if not -(2**63) <= end < 2**63), None)
        if invalid is not None:
            raise UsageError(f"`forget` {invalid}: not the id of a node.", "Ids are whole numbers of 64 bits.")
        if pairs and self.kind == "edge":
            lower_first = ((a, b) if a < b else (b, a) for a, b in pairs)
            object.__setattr__(self, "ids", tuple(dict.fromkeys(lower_first)))

    @cached_property
    def _sorted(self) -> list[Any]:
        return [list(one) if isinstance(one, tuple) else one for one in sorted(self.ids or ())]

    def number_of(self, total: int) -> int:
        """Return how many of `total` nodes or pairs, or how many features by name, each request asks for."""
        if self.ids is not None:
            return len(self.ids)
        return self.count if self.count is not None else rounded_half_up(self.ratio or 0.0, total)

    def canonical(self) -> dict[str, Any]:
        """Return the plain values that enter a cell's key."""
        if self.ids is not None:
            return {"kind": self.kind, "ids": self._sorted}
        amount = {"ratio": self.ratio} if self.count is None else {"count": self.count}
        return {"kind": self.kind, **amount, **({} if self.stream is None else {"stream": self.stream})}


@dataclass(frozen=True, eq=False)
class Request:
    """Nodes, edges or features to be forgotten, all at once.

    Args:
        ids: int64 [t], permanent ids of training nodes, ascending; of edges int64 [t, 2], the ids of
            the two ends of each pair, lower first, ascending; of features int64 [t, 2], a node's id and
            a column, `ALL_COLUMNS` for all of them, ascending.
        kind: What is forgotten.
    """

    ids: Tensor
    kind: Kind = "node"

    @classmethod
    def of_features(cls, nodes: Tensor) -> Self:
        """Return a request for all features of some nodes, int64 [t], ascending."""
        return cls(torch.stack([nodes, torch.full_like(nodes, ALL_COLUMNS)], dim=1), "feature")

    @property
    def ends(self) -> Tensor:
        """The node that each part of the request is about, int64 [t, 1], or the two ends of each edge, [t, 2]."""
        if self.kind == "node":
            return self.ids[:, None]
        return self.ids if self.kind == "edge" else self.ids[:, :1]

    @property
    def nodes(self) -> Tensor:
        """The nodes that the request is about, forgotten or not: int64 [m], ascending, each once."""
        nodes: Tensor = self.ends.unique()
        return nodes

    @property
    def removed(self) -> Tensor:
        """The ids of the nodes that are no longer there afterwards: int64 [m], none for edges and features."""
        return self.ids if self.kind == "node" else self.ids.new_empty(0)

    def feature_mask(self, graph: Graph) -> Tensor:
        """Return which features of a graph a request for features is about: bool [n, F]."""
        mask = torch.zeros(graph.num_nodes, graph.num_features, dtype=torch.bool, device=graph.ids.device)
        node, column = self.ids.to(mask.device).unbind(dim=1)
        at, single = graph.positions(node), column != ALL_COLUMNS
        mask[at[~single]] = True
        mask[at[single], column[single]] = True
        return mask

    def apply(self, graph: Graph) -> Graph:
        """Return the graph without the nodes of the request and their incident edges, or without its edges.

        Of features: the same nodes, labels and edges, with these features zero.

        Raises:
            UsageError: A node or an edge of the request is not in the graph: a request is served whole or
                not at all.
        """
        ids = self.ids.to(graph.ids.device)
        if self.kind == "edge":
            left = graph.unlinked(ids)
            missing = len(ids) - len(graph.pairs()) + len(left.pairs())
            if missing:
                raise UsageError(
                    f"{missing} edges of the request do not join training nodes.",
                    "Only edges between training nodes can be forgotten.",
                )
            return left
        nodes = self.ends[:, 0].to(ids.device)
        known = graph.contains(nodes)
        if not bool(known.all()):
            raise UsageError(
                f"{int((~known).sum())} nodes of the request are not training nodes,"
                f" the first is {int(nodes[~known][0])}.",
                "Only training nodes can be forgotten.",
            )
        if self.kind == "feature":
            return graph.with_features(graph.x.masked_fill(self.feature_mask(graph), 0))
        return graph.without(ids)

    def sha256(self) -> str:
        """Hash the ids."""
        return hashlib.sha256(self.ids.cpu().numpy().astype("<i8").tobytes()).hexdigest()


def joined(requests: Sequence[Request]) -> Request:
    """Return the one request of everything that several ask for."""
    return Request(torch.cat([request.ids for request in requests]).unique(dim=0), requests[0].kind)


def rounded_half_up(ratio: float, number: int) -> int:
    """Return `ratio * number` rounded half up, with the ratio as it is written: 0.145 of 100 is 15."""
    exact = decimal.Decimal(repr(ratio)) * number
    return int(exact.quantize(decimal.Decimal(1), rounding=decimal.ROUND_HALF_UP))
