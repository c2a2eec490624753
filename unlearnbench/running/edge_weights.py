"""Which models and methods take a graph whose edges have weights: the others are refused before any training."""

from __future__ import annotations

from unlearnbench.component import Spec
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph

_IGNORE = "leave weighted=true out, and all edges count 1"


def check_edge_weights(graph: Graph, dataset: str, model: Spec, method: Spec | None = None) -> None:
    """Check that a model, and a method, use the edge weights of a graph, if it has any.

    Raises:
        UsageError: One does not; names it, and what to do.
    """
    if graph.edge_weight is None:
        return
    if not getattr(model.cls, "supports_edge_weight", False):
        raise UsageError(
            f"The model {model.label} takes no edge weights, and {dataset} has some.",
            f"Use gcn, sage, appnp, gin, sgc, jknet or a network whose forward takes edge_weight; or {_IGNORE}.",
        )
    if method is not None and not method.build().supports_edge_weight:
        raise UsageError(
            f"{method.label} takes no edge weights, and {dataset} has some.",
            f"Leave it out; or {_IGNORE}.",
        )
