"""GNNDelete: the network is frozen, and matrices after its layers are trained for nodes near a deletion."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import torch
from pydantic import Field
from torch import Tensor
from typing_extensions import override

from unlearnbench import Claim, ComponentParams, Graph, Paper, PostHoc, RefusedError, Request, Task, search
from unlearnbench.gnn import Networks, blank_networks
from unlearnbench_gnndelete.losses import deleted_edge_consistency, neighbourhood_influence
from unlearnbench_gnndelete.operators import Operator, applied, changes
from unlearnbench_gnndelete.targets import Messages, targets

Losses = list[dict[str, float]]


class GNNDelete(PostHoc):
    """Learns, for each message-passing layer, a matrix that makes deleted edges look like non-edges.

    Forgetting nodes means deleting all their edges. The deployed state holds which retained nodes
    are near a deletion, but no forgotten id.
    """

    name = "gnndelete"
    title = "GNNDelete"
    version = 1
    summary = "A frozen network with trained operators on the rows near what was deleted."
    reference = "Cheng et al., GNNDelete: A General Strategy for Unlearning in Graph Neural Networks, ICLR 2023"
    paper = Paper(
        "Cheng, Jiali and Dasoulas, George and He, Huan and Agarwal, Chirag and Zitnik, Marinka",
        "GNNDelete: A General Strategy for Unlearning in Graph Neural Networks",
        "International Conference on Learning Representations",
        2023,
        "https://arxiv.org/abs/2302.13406",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge"})

    class Params(ComponentParams):
        """How the operators are trained."""

        epochs: int = Field(
            default=100,
            ge=1,
            description="Steps of Adam for each layer's operator.",
            json_schema_extra=search(50, 300, log=True),
        )
        lr: float = Field(
            default=0.01, gt=0, description="Learning rate.", json_schema_extra=search(0.001, 0.03, log=True)
        )
        alpha: float = Field(
            default=0.5,
            ge=0,
            le=1,
            description="Weight of deleted edge consistency; the rest is neighbourhood's.",
            json_schema_extra=search(0.01, 0.9, log=True),
        )
        initial: float = Field(default=0.001, description="Every entry of an operator at the start.")
        messages: Messages = Field(
            default="enclosing",
            description="What messages pass over while operators are trained: enclosing (the subgraph around the "
            "deleted edges, with them: the released code) or retained (the graph without them, as when it is asked).",
        )

    def fit(self, task: Task) -> None:
        """Train one network, unless its model has no layers for operators.

        Raises:
            RefusedError: The model does not consist of consecutive message-passing layers.
        """
        _check_layers(task)
        self._operators: list[Operator] = []
        super().fit(task)

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Train an operator for each layer; the network itself does not change."""
        fresh, _ = trained(network, self._operators, task, request, retained, self.params)
        self._operators = [*without(self._operators, request), *fresh]
        return network

    @torch.no_grad()
    def logits(self, graph: Graph) -> Tensor:
        """Evaluate with the operators applied to the rows of their nodes."""
        by_layer = changes(self._network.convolutions(), self._operators, graph)
        ((_, logits),) = self._network.answers([graph], changes=by_layer)
        return logits

    def state(self) -> Mapping[str, Tensor]:
        """Return the network's parameters, and each request's operators with their nodes."""
        state = dict(super().state())
        for number, operator in enumerate(self._operators):
            state[f"operators/{number:03d}/{operator.layer}.weight"] = operator.weight.clone()
            state[f"operators/{number:03d}/{operator.layer}.nodes"] = operator.ids.clone()
        return state

    @override
    def resume(
        self, task: Task, state: Mapping[str, Tensor], kept: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> None:
        _check_layers(task)
        super().resume(task, state, kept, memory)
        self._operators = []
        for name in sorted(name for name in state if name.startswith("operators/") and name.endswith(".weight")):
            layer = name.split("/")[2].removesuffix(".weight")
            ids, weight = state[f"{name.removesuffix('.weight')}.nodes"], state[name]
            self._operators.append(Operator(layer, ids.to(task.device), weight.to(task.device)))


def _check_layers(task: Task) -> None:
    if not blank_networks(task, 1).convolutions():
        raise RefusedError(
            f"gnndelete cannot be used with the model {task.model.name!r}: it has no message-passing layers"
            " of one hop, one after the other, behind which deletion operators could stand.",
            "Use gcn, gat, gatv2, gin, sage or jknet.",
        )


def without(operators: list[Operator], request: Request) -> list[Operator]:
    """Remove forgotten nodes from earlier operators; operators left without nodes are dropped."""
    kept = [replace(each, ids=each.ids[~torch.isin(each.ids, request.removed)].clone()) for each in operators]
    return [each for each in kept if len(each.ids)]


def trained(
    network: Networks, earlier: list[Operator], task: Task, request: Request, retained: Task, params: GNNDelete.Params
) -> tuple[list[Operator], Losses]:
    """Train an operator for each layer.

    Args:
        network: A stack of one network, not changed.
        earlier: The operators of earlier requests, part of the network before this one.
        task: With the request.
        request: What to forget.
        retained: The task without it; the source of seeds.
        params: Parameters of the training.

    Returns:
        The operators, none if no edge is deleted, and for each step the loss of each layer.
    """
    fixed = targets(network, earlier, task, request, retained, params.messages)
    if fixed is None:
        return [], []
    layers = list(network.convolutions())
    weights = {
        layer: torch.full((fixed.originals[layer].shape[1],) * 2, params.initial, device=task.device)
        for layer in layers
    }
    optimisers = [torch.optim.Adam([weight.requires_grad_()], lr=params.lr) for weight in weights.values()]
    evaluate, seen, losses = network.answering([fixed.stage]), dict[str, Tensor](), Losses()
    newest = {layer: (fixed.affected[layer], weights[layer]) for layer in layers}
    by_layer = changes(layers, earlier, fixed.stage, newest, seen)
    for _ in retained.epochs(params.epochs):
        with torch.no_grad():
            evaluate(by_layer)
        step: dict[str, float] = {}
        for layer, optimiser in zip(layers, optimisers, strict=True):
            # A layer's loss trains its own operator alone: earlier layers are constant.
            rows = applied(seen[layer], fixed.affected[layer], weights[layer])
            loss = params.alpha * deleted_edge_consistency(rows, fixed.deleted, fixed.random_pairs[layer])
            kept = neighbourhood_influence(rows, fixed.originals[layer], fixed.others[layer])
            loss = loss + (1 - params.alpha) * kept
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            step[layer] = float(loss.detach())
        losses.append(step)
    retained.count(steps=params.epochs * len(layers), node_epochs=params.epochs * fixed.stage.num_nodes)
    operators = [Operator(layer, fixed.near[layer], weights[layer].detach()) for layer in layers]
    return without(operators, request), losses
