"""Influence updates: the nodes that a request affects, the change of the loss, and the step it calls for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench.component import ComponentParams, search
from unlearnbench.errors import RefusedError
from unlearnbench.gnn import Networks
from unlearnbench.graph import Graph
from unlearnbench.graph.neighbours import hop_distance
from unlearnbench.protocol import Request
from unlearnbench.task import Task
from unlearnbench.unlearning.neumann import Inverse, Solver, neumann, outermost

# A step smaller than this relative to the parameters has no measurable effect.
NOTHING = 1e-6
# Estimates of the largest eigenvalue are too small by up to this factor.
_MARGIN = 1.1


class InfluenceParams(ComponentParams):
    """Whose loss changes and how the Hessian is inverted."""

    hops: int | None = Field(
        default=None, ge=0, description="Hops around the request within which losses change; left out: by depth."
    )
    iterations: int = Field(
        default=100,
        ge=1,
        description="Terms of the Neumann series, at most.",
        json_schema_extra=search(2, 300, log=True),
    )
    scale: float | None = Field(
        default=None, gt=0, description="Divides the Hessian; left out: a little more than its largest eigenvalue."
    )
    damp: float | None = Field(
        default=None, ge=0, lt=1, description="Damping; left out: what negative eigenvalues need, 0 if there are none."
    )
    hessian: Literal["retained", "former"] = Field(
        default="retained", description="Of the loss on which graph: the retained one, or the paper's, the former."
    )
    penalty: bool = Field(default=True, description="Count the L2 penalty of weight decay to the loss.")


@dataclass(frozen=True)
class Step:
    """The step to add to the parameters.

    Args:
        parts: One tensor per parameter, zero in the padding.
        influenced: Number of retained nodes whose losses were computed on both graphs.
        inverse: Result of the series.
        scale: Divisor of the Hessian.
        damp: Damping.
    """

    parts: list[Tensor]
    influenced: int
    inverse: Inverse
    scale: float
    damp: float


def influence_step(
    network: Networks,
    task: Task,
    request: Request,
    retained: Task,
    params: InfluenceParams,
    solver: Solver = neumann,
) -> Step:
    """Return the step from the trained parameters towards those of a retraining (Wu et al., GIF, WWW 2023).

    With v the gradient of the loss of the removed nodes and of the nodes that the request influences on
    the former graph, minus that of the influenced nodes on the retained graph, the step is H^-1 v. A
    request of edges or features removes no node: it influences the nodes it is about and those around. For a network
    at its optimum v is the negative gradient of the retained loss, so that the step is Newton's on
    the retained loss; it equals a retraining exactly where the loss is quadratic.

    Args:
        network: A stack of one network; is not changed.
        task: What it was trained on.
        request: What to forget.
        retained: The task without it; its counts get `iterations`, `hessian_products`,
            `influenced`, `converged` and `last_term_ppm`.
        params: Parameters of the step.
        solver: What inverts the Hessian.

    Raises:
        RefusedError: The series diverges, the scale is below the largest eigenvalue, or the step
            is negligible relative to the parameters; the message gives the numbers.
    """
    parameters = network.parameters()
    decay = task.training.weight_decay if params.penalty else 0.0
    # Without features a node keeps its degree, and the ends of an edge change as neighbours of a forgotten node do:
    # both are one hop nearer.
    hops = params.hops if params.hops is not None else hops_of(task.model.params) - (request.kind != "node")
    # Only nodes with a label have a loss.
    influenced = task.seen.ids[within(task.seen, request, hops) & (task.seen.y >= 0)]
    change = _flat(gradient(network, task.seen, torch.cat([request.removed, influenced]), decay)) - _flat(
        gradient(network, retained.seen, influenced, decay)
    )
    curvature = Curvature(network, (retained if params.hessian == "retained" else task).seen, decay)
    scale, damp = choose(curvature, start_vector(network, retained), params)
    inverse = solver(curvature, change, scale, damp, params.iterations)
    retained.count(
        iterations=inverse.iterations,
        hessian_products=curvature.products,
        influenced=len(influenced),
        converged=int(inverse.converged),
        last_term_ppm=round(1e6 * inverse.last),
        node_epochs=(curvature.products + 1) * retained.graph.num_nodes,
    )
    moved, norm = float(inverse.value.norm()), float(_flat(parameters).detach().norm())
    if not moved > NOTHING * norm:
        raise RefusedError(
            f"no-op: {inverse.iterations} iterations with scale {scale:.4g} move the parameters by {moved:.2g}, which"
            f" is {moved / norm:.1g} of their norm.",
            "A smaller scale or more iterations take longer steps; if the request has no influence, there is no step.",
        )
    return Step(_shaped(inverse.value, parameters), len(influenced), inverse, scale, damp)


def hops_of(model: ComponentParams) -> int:
    """Return within how many hops of a removed node losses change: one more than the layers or propagations.

    One more because a graph convolution divides by degrees. A model whose parameters have neither
    `steps` nor `layers` is assumed to have two layers.
    """
    return 1 + int(getattr(model, "steps", getattr(model, "layers", 2)))


def within(graph: Graph, request: Request, hops: int) -> Tensor:
    """Return which nodes stay and are within so many hops of those of a request: bool [graph.num_nodes]."""
    near = hop_distance(graph.edge_index, torch.isin(graph.ids, request.nodes), hops) <= hops
    return near & ~torch.isin(graph.ids, request.removed)


def loss(network: Networks, graph: Graph, ids: Tensor, decay: float) -> Tensor:
    """Return the summed loss of some nodes, each with its share of the penalty, in evaluation mode.

    Training minimises the mean cross-entropy plus decay / 2 times the squared norm of the parameters:
    written as a sum, each node contributes its cross-entropy and the penalty.
    """
    ((_, logits),) = network.answers([graph])
    at = graph.positions(ids)
    entropy = functional.cross_entropy(logits[at], graph.y[at], reduction="sum")
    if decay == 0:
        return entropy
    square = torch.stack([parameter.square().sum() for parameter in network.parameters()]).sum()
    return entropy + len(ids) * decay / 2 * square


def gradient(network: Networks, graph: Graph, ids: Tensor, decay: float) -> list[Tensor]:
    """Return the gradient of `loss` with respect to the network's parameters."""
    value = loss(network, graph, ids, decay)
    return list(torch.autograd.grad(value, network.parameters(), allow_unused=True, materialize_grads=True))


class Curvature:
    """Products of a vector with the Hessian of the summed loss of all nodes of a graph that have a label.

    The gradient is computed once and kept with its graph; each product differentiates it again and
    keeps nothing, so that memory does not grow with the number of products.

    Args:
        network: A stack of one network.
        graph: Its nodes and edges.
        decay: Weight decay.
    """

    def __init__(self, network: Networks, graph: Graph, decay: float) -> None:
        self._parameters = network.parameters()
        value = loss(network, graph, graph.ids[graph.y >= 0], decay)
        self._gradient = _flat(
            torch.autograd.grad(value, self._parameters, create_graph=True, allow_unused=True, materialize_grads=True)
        )
        self.products = 0

    def __call__(self, vector: Tensor) -> Tensor:
        """Return H u: float [p]."""
        self.products += 1
        parts = torch.autograd.grad(
            self._gradient,
            self._parameters,
            vector,
            retain_graph=True,
            allow_unused=True,
            materialize_grads=True,
        )
        return _flat(parts)


def choose(product: Curvature, start: Tensor, params: InfluenceParams) -> tuple[float, float]:
    """Return scale and damping, chosen where they are not given so that the series converges.

    A non-convex loss has negative eigenvalues, along which the series grows. The damping adds twice
    the magnitude of the most negative one: it becomes positive with the same magnitude, and the step
    along it is as long as if the loss were curved upwards by as much.

    Returns:
        Scale and damping.

    Raises:
        RefusedError: The given scale is below the largest eigenvalue, or no eigenvalue is positive.
    """
    smallest, largest = outermost(product, start)
    if largest <= 0:
        raise RefusedError(
            "The loss is nowhere curved upwards at the trained parameters: its Hessian has no inverse to step along.",
            "Train longer, or with weight decay.",
        )
    if params.scale is not None and params.scale < largest:
        raise RefusedError(
            f"scale {params.scale:.4g} is below the largest eigenvalue of the Hessian, {largest:.4g}: the series would"
            " not converge.",
            f"Use at least {largest:.4g}, or leave scale out.",
        )
    lift = 2 * max(0.0, -smallest)
    scale = params.scale if params.scale is not None else _MARGIN * (largest + lift)
    return scale, params.damp if params.damp is not None else lift / scale


def start_vector(network: Networks, retained: Task) -> Tensor:
    """Draw a random vector that is zero in the padding, where products with the Hessian are zero."""
    entries = _flat(network.entries()).to(torch.float32)
    drawn = torch.randn(len(entries), generator=retained.generator("influence", "start"))
    return drawn.to(entries.device) * entries


def add(network: Networks, parts: Sequence[Tensor]) -> None:
    """Add tensors to the parameters in place."""
    with torch.no_grad():
        for parameter, part in zip(network.parameters(), parts, strict=True):
            parameter += part


def _flat(parts: Sequence[Tensor]) -> Tensor:
    return torch.cat([part.reshape(-1) for part in parts])


def _shaped(vector: Tensor, parameters: Sequence[Tensor]) -> list[Tensor]:
    parts = vector.split([parameter.numel() for parameter in parameters])
    return [part.view(parameter.shape) for part, parameter in zip(parts, parameters, strict=True)]
