"""A method used directly, on your own graph and outside any benchmark: fit, forget, predict, forget again.

What is deployed equals, bit for bit on a CPU, what `unlearnbench run` deploys on the same graph, split,
settings and seed.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from unlearnbench import seeds
from unlearnbench.api.asked import check_known, ids_of, request_for
from unlearnbench.api.own_network import OwnNetwork, adopted_weights, check_gradients
from unlearnbench.api.session import name_of
from unlearnbench.api.task_from_data import OwnTask
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError, UsageError
from unlearnbench.graph import Graph, Split
from unlearnbench.measure.digests import digests
from unlearnbench.protocol import Forget, Protocol, Request
from unlearnbench.protocol.requests import Kind
from unlearnbench.records.states import State, save_state
from unlearnbench.registry.loading import load_and_report
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell, identity_of, key_of
from unlearnbench.running.contract import check_predictions, check_state
from unlearnbench.running.lookup import check_cells
from unlearnbench.running.process_guard import seeded_process_state
from unlearnbench.task import Task, View, make_query
from unlearnbench.unlearning import Claim, InfluenceParams, PostHoc, Unlearner, of_member
from unlearnbench.unlearning.partitioning import check_kept_partition

_MAKE_TASK = "Make one: unlearnbench.task_from_data(data)."
_VIEWS = {view.value: view for view in (View.SHARD, View.FULL)}


class Method:
    """A method with its parameters, for direct use: `unlearnbench.method("sisa[num_shards=5]")` makes one.

    Args:
        spec: The unlearner.

    Attributes:
        spec: The unlearner, with every parameter.
        unlearner: Its instance.
    """

    def __init__(self, spec: Spec) -> None:
        self.spec = spec
        self.unlearner: Unlearner = spec.build()
        self._requests: list[Request] = []
        self._canonical: dict[str, Any] = {}
        self._module: nn.Module | None = None
        self._fitted_task: OwnTask | None = None

    def __repr__(self) -> str:
        return f"Method({self.spec.label})"

    def fit(self, task: Task) -> None:
        """Train from scratch on the training nodes; earlier fits and requests are discarded.

        Args:
            task: What `task_from_data` made.

        Raises:
            UsageError: The task was made otherwise, or does not suit the method: its model, too many shards.
        """
        if not isinstance(task, OwnTask):
            raise UsageError("fit() was given a task without the full graph.", _MAKE_TASK)
        cell = _cell(self.spec, task)
        check_cells([cell], {"data": task.full_graph})
        self.unlearner = self.spec.build()
        self._fitted_task, self._requests, self._module = None, [], None
        bare = task.bare()
        with _seeded(task):
            self.unlearner.fit(bare)
        self.cell, self._canonical, self._original = cell, cell.canonical(), data_digest(task.full_graph)
        self._fitted_task, self._task, self._graph = task, bare, task.full_graph

    def adopt(self, module: nn.Module, task: Task) -> None:
        """Take a network that was trained elsewhere in place of training one, for a post-hoc method to make it forget.

        Args:
            module: The network, trained on all training nodes of the task; it is copied.
            task: What `task_from_data(data, model=module)` made, with the learning rate and weight decay of its
                training: the loss is taken to be the mean cross-entropy.

        Raises:
            UsageError: The method trains its own networks, or the network lacks what it needs.
        """
        if not isinstance(self.unlearner, PostHoc):
            raise UsageError(
                f"{self.spec.label} trains its own networks.", "Methods that update one adopt it: gif, megu, scrub, ..."
            )
        if not isinstance(task, OwnTask):
            raise UsageError("adopt() was given a task without the full graph.", _MAKE_TASK)
        cell, unlearner, bare = _cell(self.spec, task), self.spec.build(), task.bare()
        check_cells([cell], {"data": task.full_graph})
        weights = adopted_weights(module, bare)
        if not unlearner.can_resume():
            raise UsageError(f"{self.spec.label} cannot go on from a network alone.", "See `Unlearner.resume`.")
        try:
            with _seeded(task):
                unlearner.resume(bare, weights, {}, {})
                check_gradients(unlearner.network, bare.graph, issubclass(self.spec.cls.Params, InfluenceParams))
        except RefusedError as error:
            raise UsageError(error.message, error.hint) from None
        self.unlearner, self._requests, self._module = unlearner, [], copy.deepcopy(module)
        adopted = {"adopted": digests(weights)["members/000"]}
        self.cell, self._canonical, self._original = cell, cell.canonical() | adopted, data_digest(task.full_graph)
        self._fitted_task, self._task, self._graph = task, bare, task.full_graph

    def network(self, member: int = 0) -> nn.Module:
        """Return a copy of a deployed network: of the module's own class, for tasks with a module as their model.

        Raises:
            UsageError: The model is another one, or there is no such member.
        """
        own = self._require_fitted()
        if not issubclass(own.model.cls, OwnNetwork):
            raise UsageError(f"{own.model.label} is no module of yours.", "Make the task with model=module.")
        weights = of_member(self.unlearner.state(), member)
        if not weights:
            raise UsageError(f"{self.spec.label} has no member {member}.", "Members are counted from 0.")
        module = copy.deepcopy(self._module) if self._module is not None else own.model.cls.make()
        module.load_state_dict({name.removeprefix("net."): value.clone() for name, value in weights.items()})
        return module

    @property
    def claim(self) -> Claim:
        """What the method claims; nothing is claimed to be exact or certified of a network trained elsewhere."""
        is_proven = self.unlearner.claim not in (Claim.APPROXIMATE, Claim.NONE)
        return Claim.APPROXIMATE if is_proven and "adopted" in self._canonical else self.unlearner.claim

    @property
    def claim_reason(self) -> str:
        """What qualifies the claim."""
        return "trained elsewhere" if "adopted" in self._canonical else self.unlearner.claim_reason

    def forget(
        self,
        nodes: Iterable[int] | Tensor | None = None,
        *,
        edges: Iterable[Sequence[int]] | None = None,
        features: Iterable[int] | Iterable[Sequence[int]] | Tensor | None = None,
    ) -> None:
        """Forget training nodes with their features, labels and edges; edges between training nodes; or features.

        Each call is one request, served before it returns.

        Args:
            nodes: Their ids.
            edges: Pairs of ids; a pair stands for both directions and every copy of an edge.
            features: Ids of nodes whose features become zero, or pairs of an id and a column for single ones.

        Raises:
            UsageError: A node, an edge or a feature is not there to be forgotten, or the method does not forget this
                kind; nothing has changed.
            RefusedError: The method could not serve the request. It has to be fitted again.
        """
        self._require_fitted()
        asked: dict[Kind, Any] = {"node": nodes, "edge": edges, "feature": features}
        self.serve(request_for(self.spec, asked, self._task.graph, self._graph, self._requests))

    def serve(self, request: Request) -> None:
        """Serve a request that fits the task, as `forget` makes one."""
        own = self._require_fitted()
        retained = self._task.without(request)
        # If the method fails midway, its state is neither the old nor the new one.
        self._fitted_task = None
        with _seeded(own):
            self.unlearner.unlearn(Request(request.ids.clone().to(own.device), request.kind), retained)
        if self.unlearner.deletes_at_inference:
            if "partition" in self.unlearner.kept():
                check_kept_partition(self.unlearner.kept()["partition"], retained.graph)
            self._graph = request.apply(self._graph)
        self._fitted_task, self._task = own, retained
        self._requests.append(request)

    def predict(self, nodes: Iterable[int] | Tensor | None = None, view: str = "shard") -> Tensor:
        """Return class probabilities: floating point [number of nodes, number of classes], on the task's device.

        Nodes of one call pass messages to each other, as the test nodes of a run do.

        Args:
            nodes: Ids of any nodes of the graph that were not forgotten, in any order; None: the test
                nodes, ascending.
            view: `shard` or `full`: which graph members pass messages over (docs/protocol.md).

        Raises:
            UsageError: A node is not, or no longer, in the graph; or there is no such view.
        """
        own = self._require_fitted()
        if view not in _VIEWS:
            raise UsageError(f"There is no view {view!r}.", f"Known: {', '.join(_VIEWS)}.")
        requested = own.split.test if nodes is None else ids_of(nodes)
        check_known(requested, self._graph, self._requests)
        targets, place = torch.unique(requested, return_inverse=True)
        held = self._task.graph.ids.cpu() if self.unlearner.deletes_at_inference else own.split.train
        query = make_query(self._graph, held, targets, _VIEWS[view], own.device, own.unlabelled)
        with _seeded(own):
            answer = check_predictions(self.unlearner.predict(query), query)
        return answer.exp()[place.to(own.device)]

    def state(self) -> State:
        """Return what is deployed now, with everything forgotten so far."""
        own = self._require_fitted()
        weights = {name: value.cpu() for name, value in check_state(self.unlearner.state(), own.device).items()}
        kind: Kind = self._requests[0].kind if self._requests else "node"
        nothing = torch.empty(0, dtype=torch.int64)
        forgotten = torch.cat([request.ids for request in self._requests] or [nothing])
        forgotten = forgotten.sort().values if kind == "node" else forgotten.unique(dim=0)
        amount: dict[str, Any] = {"kind": kind, "ids": forgotten.tolist()}
        if len(self._requests) > 1:
            amount["requests"] = [request.ids.tolist() for request in self._requests]
        cell = {**self._canonical, "protocol": {**self._canonical["protocol"], "forget": amount}}
        partition = self.unlearner.kept().get("partition")
        service = {
            "data": data_digest(self._graph),
            "original": self._original,
            "memory": dict(self.unlearner.memory()),
            "attributes": sorted(vars(self.unlearner)),
        }
        return State(key_of(cell), self.spec.label, cell, weights, forgotten, own.split, partition, service)

    @property
    def graph(self) -> Graph:
        """The graph that it is asked over, on the CPU: all nodes, without what was forgotten."""
        self._require_fitted()
        return self._graph

    @property
    def split(self) -> Split:
        """The training nodes before any request, the validation and the test nodes."""
        return self._require_fitted().split

    @property
    def requests(self) -> Sequence[Request]:
        """The requests served so far."""
        return tuple(self._requests)

    def save(self, path: str | Path) -> None:
        """Write `state()`; `unlearnbench.load_state` reads it, `unlearnbench.load_method` goes on from it.

        Raises:
            WriteError: It cannot be written.
        """
        save_state(self.state(), Path(path))

    def take_up(self, task: OwnTask, cell: Mapping[str, Any], original: str, requests: list[Request]) -> None:
        """Go on from an unlearner that was restored: see `restart`.

        Args:
            task: The retained task, whose full graph is what the method passes messages over.
            cell: The cell as plain values.
            original: Digest of the graph as it was at first.
            requests: Those served so far.
        """
        self.cell, self._canonical, self._original = _cell(self.spec, task), dict(cell), original
        self._requests = requests
        self._fitted_task, self._task, self._graph = task, task.bare(), task.full_graph

    def _require_fitted(self) -> OwnTask:
        if self._fitted_task is None:
            raise UsageError(
                f"{self.spec.label} holds no model.", "Call fit(task) first; again if fit() or forget() failed."
            )
        return self._fitted_task


def method(bracket: str | type[Unlearner]) -> Method:
    """Look up a method: `unlearnbench.method("graphrevoker[num_shards=5]")`.

    Args:
        bracket: `name`, or `name[key=value]`, as on the command line; or a class, which is registered.

    Raises:
        UsageError: An unknown name or parameter, a value out of range, or a module that is missing.
    """
    name = name_of(bracket, "unlearner")
    spec = resolve(load_and_report(), "unlearner", name)
    check_requirements([spec])
    return Method(spec)


def _cell(spec: Spec, task: OwnTask) -> Cell:
    """Return the cell that a run would have; its request is a placeholder."""
    rules = Protocol(forget=Forget(None, count=1), own_split=task.full_graph.split is not None, setting=task.setting)
    dataset, checksum, device = replace(task.dataset, label="data"), task.full_graph.checksum(), task.device.type
    return Cell(rules, dataset, checksum, task.model, spec, task.training, task.repetition, task.base_seed, device)


def data_digest(graph: Graph) -> str:
    """Hash a graph without its split, to which a method is bound."""
    return replace(graph, split=None).checksum()


def _seeded(task: OwnTask) -> AbstractContextManager[None]:
    """Seed the global random generators as for a cell, and restore them: see `outcome.measured`."""
    key = seeds.seed(task.base_seed, "process", identity_of(task.dataset), task.repetition)
    return seeded_process_state(key, task.device)
