"""Requests: what must be forgotten, how it was drawn, and what is left afterwards."""

from __future__ import annotations

import decimal
import hashlib
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph


@dataclass(frozen=True)
class Forget:
    """How much to forget, as the user said it; exactly one of the three is set.

    Args:
        ratio: Share of all nodes of the graph, 0 < ratio < 1, rounded half up (paper, section
            "Unlearning Efficiency Settings": 0.5 % of the node set).
        count: Number of nodes.
        ids: Permanent ids of training nodes.
    """

    ratio: float | None = 0.005
    count: int | None = None
    ids: tuple[int, ...] | None = None

    def __post_init__(self) -> None:
        given = [name for name in ("ratio", "count", "ids") if getattr(self, name) is not None]
        if len(given) != 1:
            raise UsageError(
                f"Say what to forget in one way; given: {', '.join(given) or 'none'}.",
                "Use one of --forget-ratio, --forget-count, --forget.",
            )
        if self.ratio is not None and not 0 < self.ratio < 1:
            raise UsageError(f"--forget-ratio {self.ratio:g} is not between 0 and 1.", "5 % is 0.05.")
        if self.count is not None and self.count < 1:
            raise UsageError(f"--forget-count {self.count} is not a positive number.", "Name at least one node.")
        if self.ids is not None:
            twice = sorted({i for i in self.ids if self.ids.count(i) > 1})
            if not self.ids or twice:
                raise UsageError(
                    f"--forget names {twice[0] if twice else 'no node'} twice." if twice else "--forget names no node."
                )

    def number_of(self, num_nodes: int) -> int:
        """Give how many nodes of a graph with `num_nodes` are to be forgotten."""
        if self.ids is not None:
            return len(self.ids)
        return self.count if self.count is not None else rounded_half_up(self.ratio or 0.0, num_nodes)

    def canonical(self) -> dict[str, Any]:
        """Give the plain values a cell's key is made of."""
        if self.ids is not None:
            return {"kind": "node", "ids": sorted(self.ids)}
        return (
            {"kind": "node", "count": self.count} if self.count is not None else {"kind": "node", "ratio": self.ratio}
        )


@dataclass(frozen=True, eq=False)
class Request:
    """Nodes to be forgotten, all at once.

    Args:
        ids: int64 [t], permanent ids of training nodes, ascending.
        kind: What is forgotten: `node`.
    """

    ids: Tensor
    kind: str = "node"

    def apply(self, graph: Graph) -> Graph:
        """Give the graph without the nodes of the request and their incident edges.

        Raises:
            UsageError: A node of the request is not in the graph: a request is served whole or
                not at all.
        """
        ids = self.ids.to(graph.ids.device)
        known = graph.contains(ids)
        if not bool(known.all()):
            raise UsageError(
                f"{int((~known).sum())} nodes of the request are not training nodes,"
                f" the first is {int(ids[~known][0])}.",
                "Only training nodes can be forgotten.",
            )
        return graph.without(ids)

    def sha256(self) -> str:
        """Hash the ids."""
        return hashlib.sha256(self.ids.cpu().numpy().astype("<i8").tobytes()).hexdigest()


def draw(forget: Forget, train_ids: Tensor, num_nodes: int, generator: torch.Generator) -> Request:
    """Draw a request uniformly from the training nodes, or take the nodes named.

    Args:
        forget: How much, or which.
        train_ids: int64 [m], ids of the training nodes.
        num_nodes: Nodes of the whole graph: what a ratio is a share of.
        generator: Where chance comes from.

    Raises:
        UsageError: The request would be empty, would be larger than the training set, or names
            a node that is not a training node.
    """
    if forget.ids is not None:
        ids = torch.tensor(forget.ids, dtype=torch.int64)
        strange = ids[~torch.isin(ids, train_ids)]
        if len(strange):
            raise UsageError(
                f"--forget {int(strange[0])}: not a training node of this repetition.",
                "Only training nodes can be forgotten; other repetitions have other training nodes (--seeds).",
            )
        _check_room(len(ids), train_ids)
        return Request(ids.sort().values)
    count = forget.number_of(num_nodes)
    if count == 0:
        raise UsageError(
            f"--forget-ratio {forget.ratio} of {num_nodes} nodes rounds to none.",
            "Use a larger ratio or --forget-count.",
        )
    _check_room(count, train_ids)
    chosen = torch.randperm(len(train_ids), generator=generator)[:count]
    return Request(train_ids[chosen].sort().values)


def rounded_half_up(ratio: float, number: int) -> int:
    """Give `ratio * number` rounded half up, of the ratio as it is written: 0.145 of 100 is 15."""
    exact = decimal.Decimal(repr(ratio)) * number
    return int(exact.quantize(decimal.Decimal(1), rounding=decimal.ROUND_HALF_UP))


def _check_room(count: int, train_ids: Tensor) -> None:
    if count >= len(train_ids):
        raise UsageError(
            f"The request of {count} nodes leaves none of the {len(train_ids)} training nodes.", "Forget fewer nodes."
        )
