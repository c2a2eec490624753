"""Training networks on forgotten nodes: loss and accuracy at each step, and how fast they relearn."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from unlearnbench.audits.subject import Memory, Trained
from unlearnbench.gnn import Networks
from unlearnbench.graph import Graph
from unlearnbench.graph.digest import update


@dataclass(frozen=True)
class Recipe:
    """How networks are trained on the forgotten nodes: Adam, no weight decay, no dropout, all nodes in every step.

    Args:
        steps: T.
        lr: Learning rate.
    """

    steps: int
    lr: float


@dataclass(frozen=True, eq=False)
class Curves:
    """Loss and accuracy of S networks on their forgotten nodes before each step and after the last.

    Args:
        loss: Mean cross-entropy, float64 [T + 1, S].
        accuracy: Share of nodes whose label is predicted, float64 [T + 1, S].
    """

    loss: Tensor
    accuracy: Tensor

    @property
    def area(self) -> Tensor:
        """The area under the loss curve of each network divided by T, float64 [S]: the mean loss on the way."""
        return torch.trapezoid(self.loss, dim=0) / (len(self.loss) - 1)

    def steps_to(self, target: Tensor) -> Tensor:
        """Return after how many steps each network's loss is first at most its target; T + 1 if it never is.

        Both are float64 [S].
        """
        reached = self.loss <= target
        first = reached.to(torch.int8).argmax(dim=0)
        return torch.where(reached.any(dim=0), first, len(self.loss)).double()


@dataclass(frozen=True, eq=False)
class Known:
    """What was made before for runs with equal seeds, so that it is not made twice.

    Args:
        trained: As in `Task`.
        remember: Returns the value of a key, or makes it: loss and accuracy, by the digest of what they depend on.
    """

    trained: Trained = field(default_factory=dict)
    remember: Callable[[Any, Callable[[], list[Tensor]]], list[Tensor]] = field(
        default_factory=lambda: Memory().get_plain
    )

    def relearn(self, networks: Networks, graphs: Sequence[Graph], ids: Tensor, recipe: Recipe) -> Curves:
        """Relearn as the function `relearn` does, unless it is known what comes of it."""
        digest = hashlib.blake2b(repr(recipe).encode(), digest_size=16)
        update(digest, ids)
        for number, graph in enumerate(graphs):
            update(digest, graph.ids)
            update(digest, graph.edge_index)
            for name, value in sorted(networks.state(number).items()):
                update(digest, value, name)

        def make() -> list[Tensor]:
            curves = relearn(networks, graphs, ids, recipe)
            return [curves.loss, curves.accuracy]

        return Curves(*self.remember(["curves", digest.hexdigest()], make))


def relearn(networks: Networks, graphs: Sequence[Graph], ids: Tensor, recipe: Recipe) -> Curves:
    """Train networks in place, each on the forgotten nodes of its own graph.

    Messages pass over all of the graph; only the forgotten nodes count in the loss. Networks are evaluated as when
    they predict, so that nothing is random. A network's curve does not depend on the others.

    Args:
        networks: S networks.
        graphs: The graph of each, from before the request, with labels and at least one forgotten node.
        ids: int64 [m], the forgotten nodes.
        recipe: Number of steps and learning rate.
    """
    at = [graph.positions(ids[graph.contains(ids)]) for graph in graphs]
    labels = [graph.y[rows] for graph, rows in zip(graphs, at, strict=True)]
    evaluate, parameters = networks.answering(graphs), networks.parameters()
    optimiser = torch.optim.Adam(parameters, lr=recipe.lr)
    loss, accuracy = [], []
    for step in range(recipe.steps + 1):
        outputs = [logits[rows] for (_, logits), rows in zip(evaluate(), at, strict=True)]
        losses = torch.stack([functional.cross_entropy(*pair) for pair in zip(outputs, labels, strict=True)])
        right = [(rows.argmax(dim=1) == y).double().mean() for rows, y in zip(outputs, labels, strict=True)]
        loss.append(losses.detach().double().cpu())
        accuracy.append(torch.stack(right).cpu())
        if step < recipe.steps:
            optimiser.zero_grad()
            losses.sum().backward()
            optimiser.step()
    return Curves(torch.stack(loss), torch.stack(accuracy))
