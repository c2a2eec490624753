"""Deletion operators: matrices applied after a layer to some nodes."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, MutableMapping
from dataclasses import dataclass

from torch import Tensor

from unlearnbench import Graph
from unlearnbench.gnn import Change


@dataclass(frozen=True, eq=False)
class Operator:
    """A matrix after one layer, for some nodes.

    Args:
        layer: The layer's name.
        ids: int64 [m], ids of the retained nodes whose rows it changes.
        weight: float32 [d, d].
    """

    layer: str
    ids: Tensor
    weight: Tensor


def applied(rows: Tensor, at: Tensor, weight: Tensor) -> Tensor:
    """Multiply some rows by a matrix and leave all others unchanged, bit for bit.

    Args:
        rows: float [n, d].
        at: int64 [m], positions, all distinct.
        weight: float [d, d].
    """
    return rows.index_copy(0, at, rows[at] @ weight)


def changes(
    layers: Iterable[str],
    operators: Iterable[Operator],
    graph: Graph,
    newest: Mapping[str, tuple[Tensor, Tensor]] | None = None,
    seen: MutableMapping[str, Tensor] | None = None,
) -> dict[str, Change]:
    """Return the changes to the outputs of a network's layers on a graph.

    Args:
        layers: Names of the layers.
        operators: Applied in order to those of their nodes that are in the graph.
        graph: The graph to pass messages over.
        newest: For each layer, positions and matrix of an operator to apply last.
        seen: Receives each layer's rows before the newest operator.

    Returns:
        A change for each layer, for `Networks.answers`.
    """
    placed: dict[str, list[tuple[Tensor, Tensor]]] = {layer: [] for layer in layers}
    for operator in operators:
        here = operator.ids[graph.contains(operator.ids)]
        placed[operator.layer].append((graph.positions(here), operator.weight))

    def change(layer: str) -> Change:
        def passed_on(rows: Tensor) -> Tensor:
            for at, weight in placed[layer]:
                rows = applied(rows, at, weight)
            if seen is not None:
                seen[layer] = rows
            return applied(rows, *newest[layer]) if newest else rows

        return passed_on

    return {layer: change(layer) for layer in placed}
