"""What methods with a linear model share: propagated features, the rows a request changes, and solvers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.errors import RefusedError
from unlearnbench.gnn import sparse
from unlearnbench.gnn.matrices import weighted_degree, with_loops
from unlearnbench.graph import Graph
from unlearnbench.graph.neighbours import hop_distance
from unlearnbench.protocol import Request
from unlearnbench.task import Task

LINEAR_MODEL = "sgc"
Normalisation = Literal["mean", "symmetric"]


def propagation_steps(task: Task, method: str) -> int:
    """Return the number of propagations of the base model `sgc`.

    Raises:
        RefusedError: The base model is another one.
    """
    if task.model.name != LINEAR_MODEL:
        raise RefusedError(
            f"{method} trains a linear model of propagated features and has no use for the model {task.model.name!r}.",
            f"Give it the model {LINEAR_MODEL!r}: the number of propagations is taken from there.",
        )
    steps: int = task.model.params.steps  # type: ignore[attr-defined]
    return steps


def propagated(graph: Graph, steps: int, normalisation: Normalisation, at: Tensor | None = None) -> Tensor:
    """Scale every node's features to length 1 and average them over neighbours, node included: float64 [n, F].

    Args:
        graph: A node's scaling depends on the node alone. Weights of edges count in the average and in degrees; a
            node's loop has weight 1, unless it has one of its own.
        steps: Number of propagations.
        normalisation: `mean`: D^-1 (A + I), which keeps rows no longer than 1. `symmetric`: D^-1/2 (A + I) D^-1/2.
        at: int64 [m], positions of the nodes whose rows are wanted; only nodes within `steps` of them are
            computed. None: all.
    """
    edges, weight = averaging(graph, normalisation)
    source, target = edges
    if at is None:
        x = graph.x
    else:
        wanted = torch.zeros_like(graph.ids, dtype=torch.bool)
        wanted[at] = True
        near = hop_distance(edges.flip(0), wanted, steps, directed=True) <= steps
        nodes, inside = torch.nonzero(near)[:, 0], near[source] & near[target]
        place = torch.cumsum(near, dim=0) - 1
        edges, weight, at = place[edges[:, inside]], weight[inside], place[at]
        x = graph.x[nodes] if graph.sparse_rows is None else graph.sparse_rows.take(nodes).dense()
    rows = unit_rows(x)
    matrix = sparse.from_edges(edges, len(x), weight)
    for _ in range(steps):
        rows = matrix @ rows
    return rows if at is None else rows[at]


def averaging(graph: Graph, normalisation: Normalisation) -> tuple[Tensor, Tensor]:
    """Return the edges of a propagation, with a self-loop for every node, and their weights: [2, E] and float64 [E].

    Args:
        graph: Weights of edges count as in `propagated`.
        normalisation: As in `propagated`; with `mean` the weights of the edges to a node sum to 1.
    """
    own = None if graph.edge_weight is None else graph.edge_weight.to(torch.float64)
    edges, own = with_loops(graph.edge_index, graph.num_nodes, own)
    source, target = edges
    if own is None:
        count = torch.bincount(target, minlength=graph.num_nodes).to(torch.float64)
    else:
        count = weighted_degree(target, graph.num_nodes, own)
    weight = 1 / count[target] if normalisation == "mean" else (count[source] * count[target]).rsqrt()
    return edges, weight if own is None else weight * own


def unit_rows(x: Tensor) -> Tensor:
    """Scale every row to length 1, but rows of zeros: float64 [n, F]."""
    x = x.to(torch.float64)
    rows: Tensor = x / x.norm(dim=1, keepdim=True).clamp(min=torch.finfo(torch.float64).tiny)
    return rows


def changed_rows(graph: Graph, request: Request, steps: int, normalisation: Normalisation) -> Tensor:
    """Return which propagated rows a request may change or remove: bool [n].

    Args:
        graph: The graph from before the request.
        request: An edge changes the rows of its two ends first, a node or its features those of its neighbours.
        steps: Number of propagations.
        normalisation: With `symmetric` a changed degree counts in the rows of the neighbours, one hop further.
    """
    degrees = normalisation == "symmetric" and request.kind != "feature"
    hops = steps + degrees - (request.kind == "edge")
    origin = torch.isin(graph.ids, request.nodes.to(graph.ids.device))
    if hops < 0:
        return torch.zeros_like(origin)
    return hop_distance(graph.edge_index, origin, hops, directed=True) <= hops


def softmax_regression(rows: Tensor, labels: Tensor, start: Tensor, penalty: float, steps: int) -> tuple[Tensor, int]:
    """Minimise the mean cross-entropy plus penalty / 2 times the square of the weights, by L-BFGS.

    A step is a combination of gradients, and these of rows: weights that start in the span of the rows stay there.

    Args:
        rows: float64 [n, F].
        labels: int64 [n].
        start: float64 [F, C].
        penalty: At least 0.
        steps: The largest number of steps.

    Returns:
        The weights, float64 [F, C], and the number of steps taken.
    """

    def loss(weights: Tensor) -> Tensor:
        return functional.cross_entropy(rows @ weights, labels) + penalty / 2 * weights.square().sum()

    return minimised(loss, start, steps, 1e-9)


def minimised(loss: Callable[[Tensor], Tensor], start: Tensor, steps: int, tolerance: float) -> tuple[Tensor, int]:
    """Minimise a smooth function of weights by L-BFGS.

    Args:
        loss: Float [F, C] to a scalar.
        start: float64 [F, C].
        steps: The largest number of steps.
        tolerance: The largest entry of the gradient at which to stop.

    Returns:
        The weights, float64 [F, C], and the number of steps taken.
    """
    weights = start.clone().requires_grad_()
    optimiser = torch.optim.LBFGS(
        [weights],
        max_iter=steps,
        tolerance_grad=tolerance,
        tolerance_change=0,
        history_size=20,
        line_search_fn="strong_wolfe",
    )

    def closure() -> Tensor:
        value = loss(weights)
        (weights.grad,) = torch.autograd.grad(value, weights)
        return value

    optimiser.step(closure)
    return weights.detach().clone(), int(optimiser.state[weights]["n_iter"])


def conjugate_gradients(product: Callable[[Tensor], Tensor], target: Tensor, tolerance: float, most: int) -> Tensor:
    """Solve A x = target for all columns side by side, by conjugate gradients from zero.

    Rounding may stop it before the tolerance is reached; the caller must check the residual where it matters.

    Args:
        product: Multiplies each column of a float64 [F, C] by its symmetric positive definite matrix.
        target: float64 [F, C].
        tolerance: Norm of the residual of a column relative to the column.
        most: The largest number of steps.
    """
    solved, residual = torch.zeros_like(target), target.clone()
    direction, square = residual.clone(), residual.square().sum(dim=0)
    goal = tolerance**2 * square
    for _ in range(most):
        active = square > goal
        if not bool(active.any()):
            break
        image = product(direction)
        length = torch.where(active, square / (direction * image).sum(dim=0), 0.0)
        solved += length * direction
        residual -= length * image
        former, square = square, residual.square().sum(dim=0)
        direction = residual + torch.where(active, square / former, 0.0) * direction
    return solved
