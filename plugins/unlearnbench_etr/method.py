"""ETR: erases by making parameters smaller, then rectifies by one gradient step."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, Graph, Paper, PostHoc, Request, Task, search
from unlearnbench.gnn import Networks
from unlearnbench.unlearning import hop_distance, importance
from unlearnbench_etr.erasing import factors
from unlearnbench_etr.rectifying import retained_gradient


class ETR(PostHoc):
    """Trains nothing: edits parameters by their importances, then takes one step on an estimated gradient."""

    name = "etr"
    title = "ETR"
    version = 2
    summary = "Parameters that matter to the request are made smaller; one gradient step repairs the rest."
    reference = (
        "Yang et al., Erase then Rectify: A Training-Free Parameter Editing Approach for Cost-Effective Graph"
        " Unlearning, AAAI 2025"
    )
    paper = Paper(
        "Yang, Zhe-Rui and Han, Jindong and Wang, Chang-Dong and Liu, Hao",
        "Erase then Rectify: A Training-Free Parameter Editing Approach for Cost-Effective Graph Unlearning",
        "AAAI Conference on Artificial Intelligence",
        2025,
        "https://arxiv.org/abs/2409.16684",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge", "feature"})
    settings = frozenset({"inductive", "transductive"})

    class Params(ComponentParams):
        """Which parameters are edited, and the step."""

        ratio: float = Field(
            default=0.01,
            ge=0,
            lt=1,
            description="Share of the parameters of each tensor below either threshold of erasing.",
            json_schema_extra=search(0.001, 0.1, log=True),
        )
        hops: int = Field(default=2, ge=1, description="How far from the request the neighbourhood reaches.")
        lr: float = Field(
            default=0.3,
            ge=0,
            description="Length of the rectifying step; 0: none.",
            json_schema_extra=search(0.01, 1.0, log=True),
        )
        anchor: Literal["trained", "erased"] = Field(
            default="trained",
            description="Where the gradients of before the request are taken: at the parameters before erasing, or at"
            " the erased ones.",
        )
        batch_size: int = Field(default=64, ge=1, description="Nodes whose mean gradient is squared, at most.")

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Erase and rectify in place."""
        former, graph, hops = task.seen, retained.seen, self.params.hops
        labelled = former.y >= 0
        forget = torch.isin(former.ids, request.nodes)
        removed = torch.isin(former.ids, request.removed)
        near = (hop_distance(former.edge_index, forget, hops) <= hops) & labelled & ~removed
        parameters, at = network.parameters(), graph.positions(former.ids[near])

        def before() -> list[list[Tensor]]:
            return [_gradient(network, former, some.nonzero()[:, 0]) for some in (labelled, removed, near)]

        # At one point all three: what they share must cancel.
        gradients = before() if self.params.anchor == "trained" else []
        # Where nodes stay, what is near the request holds its ends.
        to_forget, around = (forget, near & ~forget) if request.kind == "node" else (near, torch.zeros_like(near))
        edits, passes = self._edits(network, former, to_forget, around, retained)
        with torch.no_grad():
            for parameter, factor in zip(parameters, edits, strict=True):
                parameter *= factor

        counts = int(labelled.sum()), int(removed.sum()), len(at)
        whole, gone, changed = gradients or before()
        step = retained_gradient(whole, gone, changed, _gradient(network, graph, at), counts)
        with torch.no_grad():
            for parameter, slope in zip(parameters, step, strict=True):
                parameter -= self.params.lr * slope
        edited = sum(int((factor < 1).sum()) for factor in edits)
        node_epochs = (passes + 3) * former.num_nodes + graph.num_nodes
        retained.count(steps=passes + 4, node_epochs=node_epochs, dampened=edited)
        return network

    def _edits(
        self, network: Networks, former: Graph, forget: Tensor, near: Tensor, retained: Task
    ) -> tuple[list[Tensor], int]:
        """Return the factor of each parameter, and the number of backward passes that it took."""
        nodes = [some.nonzero()[:, 0] for some in (forget, near, former.y >= 0)]
        # The square of a mean falls with the number of nodes: all importances need batches of one size.
        size = -(-len(nodes[0]) // -(-len(nodes[0]) // self.params.batch_size))
        sets = []
        for some, what in zip(nodes, ("request", "neighbours", "order"), strict=True):
            order = torch.randperm(len(some), generator=retained.generator(self.name, what))
            sets.append(some[order.to(some.device)].tensor_split(-(-len(some) // size)) if len(some) else [])
        ((_, logits),) = network.answers([former])
        losses = functional.cross_entropy(logits, former.y, reduction="none", ignore_index=-1)
        of_forget, of_near, of_all = (importance(losses, each, network.parameters()) if each else [] for each in sets)
        return factors(of_forget, of_near or None, of_all, self.params.ratio), sum(map(len, sets))


def _gradient(network: Networks, graph: Graph, at: Tensor) -> list[Tensor]:
    """Return the gradient of the mean loss of some nodes, zero if there are none."""
    parameters = network.parameters()
    if not len(at):
        return [torch.zeros_like(parameter) for parameter in parameters]
    ((_, logits),) = network.answers([graph])
    loss = functional.cross_entropy(logits[at], graph.y[at])
    return list(torch.autograd.grad(loss, parameters, allow_unused=True, materialize_grads=True))
