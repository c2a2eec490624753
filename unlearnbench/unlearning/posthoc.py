"""`PostHoc`: the base of methods that train one network and then update its parameters."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Mapping

import torch
from torch import Tensor
from typing_extensions import override

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.gnn import Networks, blank_networks, train_networks
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import Query, Task
from unlearnbench.unlearning.base import Claim, Unlearner, of_member


class PostHoc(Unlearner):
    """One network, trained once as Retrain's is; to forget, its parameters are updated.

    Until a request the method holds the task it was trained on, because most updates need the
    data to be forgotten. Afterwards it holds the retained task alone.
    """

    claim = Claim.APPROXIMATE
    # Networks use weights as their model does; an update that looks at edges itself must, or say False.
    supports_edge_weight = True

    def fit(self, task: Task) -> None:
        """Train one network on all training nodes, with the same bits as Retrain's."""
        with task.phase("train"):
            self._network = train_networks(task, [task.seen], [0])
        self._task = task

    def unlearn(self, request: Request, retained: Task) -> None:
        """Update the network and release the former task."""
        with retained.phase("update"):
            network = self.update(self._network, self._task, request, retained)
        if not isinstance(network, Networks):
            raise UnlearnbenchError(
                f"{type(self).__name__}.update() returned a {type(network).__name__}, expected the network to deploy.",
                "Return it, one that was changed in place too: return network.",
            )
        self._network = network
        self._task = retained

    @property
    def network(self) -> Networks:
        """The deployed network, a stack of one."""
        return self._network

    @abstractmethod
    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Make the network forget.

        `network.answers` runs without dropout unless it is given a `Noise`.

        Args:
            network: A stack of one network; may be changed in place.
            task: What it was trained on, or last retained: it still holds the nodes of the request.
            request: The nodes, edges or features to forget: `request.kind` says which.
            retained: The task without them; forgotten features are zero.

        Returns:
            The network to deploy, one that was changed in place too. Nothing of `task` may be reachable from it.

        Raises:
            RefusedError: The request cannot be served.
        """

    def predict(self, query: Query) -> Tensor:
        """Predict over all retained nodes: the two views are the same for one network."""
        graph = query.context(self._task.graph.ids)
        return torch.log_softmax(self.logits(graph)[graph.positions(query.targets)], dim=1)

    def logits(self, graph: Graph) -> Tensor:
        """Return the deployed network's logits for all nodes of a graph: float32 [n, C], without gradients."""
        ((_, logits),) = self._network.predict([graph])
        return logits

    def state(self) -> Mapping[str, Tensor]:
        """Return the network's parameters."""
        return {f"members/000/{name}": value for name, value in self._network.state(0).items()}

    @override
    def resume(
        self, task: Task, state: Mapping[str, Tensor], kept: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> None:
        self._network = blank_networks(task, 1)
        self._network.put(0, of_member(state, 0))
        self._task = task
