"""Runs of a method that differ in one respect, all with the seed of the cell, for `exactness` to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, NoReturn

import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.audits.exactness.graph_access import Log, with_watched_graph
from unlearnbench.audits.exactness.own_process import NotImportableError, in_own_process
from unlearnbench.audits.exactness.run import Run
from unlearnbench.audits.subject import RetainedQuery, Subject
from unlearnbench.component import Spec
from unlearnbench.graph import Graph
from unlearnbench.graph.neighbours import hop_distance
from unlearnbench.protocol import Request
from unlearnbench.task import Query, Task, Training, View
from unlearnbench.unlearning import Unlearner

Inspect = Callable[[Unlearner], None]
_ABOUT = {"node": "forgotten", "edge": "ends of forgotten edges", "feature": "nodes of forgotten features"}


@dataclass
class Fitted:
    """A method as it was trained, the task until a request uses it up, and the log of what it read."""

    method: Unlearner
    task: Task | None
    log: Log


class Trials:
    """Trains and queries the method of a cell repeatedly.

    Args:
        subject: The cell.
        request: D; default: the request of the cell.
    """

    def __init__(self, subject: Subject, request: Request | None = None) -> None:
        self.subject = subject
        self.method: Spec = subject.cell.method
        self._given = request
        self.request = subject.request if request is None else request
        # On CUDA a network's bits depend on those trained with it.
        on_cuda = subject.device.type == "cuda"
        self.training: Training = replace(subject.cell.training, one_by_one=True) if on_cuda else subject.cell.training
        # Why the runs are made in this process; empty: each has one of its own.
        self.why_here = ""
        self._calls = 0

    def __reduce__(self) -> tuple[Any, ...]:
        # Without what is shared with other cells: a run must depend on the cell alone.
        subject = self.subject
        return Trials, (Subject(subject.cell, subject.graph, subject.device, _find_nothing), self._given)

    def apart(self, function: Callable[..., Any], *args: Any) -> Any:
        """Return what a module's function of these trials returns in a process of its own.

        If another process cannot import the method, it is called here, and `why_here` says why.

        Args:
            function: It takes these trials first.
            args: Further arguments.
        """
        self._calls += 1
        if not self.why_here:
            try:
                return in_own_process(seeds.seed(self.task().seed, "audit", self._calls), function, self, *args)
            except NotImportableError as error:
                self.why_here = str(error)
        return function(self, *args)

    def apart_unlearned(self, **options: Any) -> Run:
        """Return the run of `unlearned` with these options, made in a process of its own."""
        return Run.from_plain(self.apart(_unlearned, options))

    def apart_counterfactual(self, given: Mapping[str, Tensor], request: Request | None = None) -> Run:
        """Return the run of `counterfactual`, made in a process of its own."""
        return Run.from_plain(self.apart(_counterfactual, given, request))

    @property
    def of_edges(self) -> bool:
        """Whether D are edges."""
        return self.request.kind == "edge"

    @property
    def gone(self) -> Tensor:
        """The ids of the forgotten nodes, int64 [t]; none if D are edges or features."""
        return self.request.ids if self.request.kind == "node" else self.request.ids[:0, 0]

    @property
    def losers(self) -> Tensor:
        """The ids of the nodes whose features the request takes away, int64 [t]."""
        if self.request.kind != "feature":
            return self.gone
        graph = self.subject.train_graph
        return graph.ids[(graph.x != self.retained.x).any(dim=1)]

    @cached_property
    def retained(self) -> Graph:
        """The training graph without D."""
        return self.request.apply(self.subject.train_graph)

    @property
    def about(self) -> str:
        """The name of the query about D itself."""
        return _ABOUT[self.request.kind]

    @cached_property
    def queries(self) -> dict[str, Query]:
        """The queries after a request: test nodes in both views, D, and the retained training nodes next to it.

        Nodes of D are unseen nodes; of edges of D the ends are asked about, of features their nodes. A method that
        does not delete at inference is queried over the graph with D, as it would be deployed.
        """
        subject, graph = self.subject, self.subject.train_graph
        deletes = self.method.build().deletes_at_inference
        left = (self.retained if deletes else graph).ids
        touched = self.request.nodes
        near = graph.ids[hop_distance(graph.edge_index, torch.isin(graph.ids, touched), 1) == 1]
        targets = {
            "test": subject.split.test,
            self.about: touched,
            "neighbours of forgotten": near if len(near) else self.retained.ids,
        }
        queries = {name: subject.query(ids, left) for name, ids in targets.items()}
        if self.request.kind != "node" and deletes:
            queries = {name: replace(one, graph=self.request.apply(one.graph)) for name, one in queries.items()}
        return {"test": queries["test"], "test, full view": replace(queries["test"], view=View.FULL), **queries}

    def task(self, graph: Graph | None = None, run: int = 0, side: str = "") -> Task:
        """Return the task of all training nodes, or of another graph with the same seed."""
        task = self.subject.task(run, side, self.training)
        return task if graph is None else replace(task, graph=graph)

    def unlearned(
        self,
        graph: Graph | None = None,
        requests: Sequence[Request] = (),
        spoil: Callable[[Graph], None] | None = None,
        inspect: Inspect = lambda method: None,
        thorough: bool = False,
        staged: bool = False,
    ) -> Run:
        """Train on all training nodes, then unlearn, in this process.

        Args:
            graph: The training graph, if not the true one.
            requests: One after the other; default: all of D at once.
            spoil: Called with the graph just before `unlearn`.
            inspect: Called with the method after the request, and again after all queries.
            thorough: Query also before the request, and twice after it.
            staged: Describe what is deployed after each request but the last too.
        """
        return self.forgotten(self.fitted(graph, watch=spoil is None), requests, spoil, inspect, thorough, staged)

    def fitted(self, graph: Graph | None = None, watch: bool = True) -> Fitted:
        """Train on all training nodes, or another graph, in this process; list the graphs that are read if `watch`."""
        log = Log()
        task = with_watched_graph(self.task(graph), log) if watch else self.task(graph)
        method: Unlearner = self.method.build()
        with log.section("fit"):
            method.fit(task)
        return Fitted(method, task, log)

    def forgotten(
        self,
        fitted: Fitted,
        requests: Sequence[Request] = (),
        spoil: Callable[[Graph], None] | None = None,
        inspect: Inspect = lambda method: None,
        thorough: bool = False,
        staged: bool = False,
    ) -> Run:
        """Unlearn after a training, which is used up; arguments as for `unlearned`."""
        method, task, log = fitted.method, fitted.task, fitted.log
        assert task is not None, "another request used it up"
        # Nothing here holds the former task when the method is described.
        fitted.task = None
        before, kept_before = _copied(method.state()), _copied(method.kept())
        noop = self._asked(method, noop=True) if thorough else {}
        stages = []
        for number, request in enumerate(requests or [self.request], start=1):
            retained = task.without(request)
            if spoil is not None:
                spoil(task.graph)
            with log.section("unlearn"):
                method.unlearn(request, retained)
            task = retained
            if staged and number < len(requests):
                stages.append(self._stage(method))
        del task, retained
        inspect(method)
        run = self.finished(method, before, log, inspect)
        run = replace(run, kept_before=kept_before, stages=tuple(stages))
        return replace(run, noop=noop, again=self._asked(method)) if thorough else run

    def counterfactual(
        self, given: Mapping[str, Tensor], inspect: Inspect = lambda method: None, request: Request | None = None
    ) -> Run:
        """Train without D, with a given partition, in this process.

        Args:
            given: As in a task.
            inspect: As for `unlearned`.
            request: Train without this part of D alone; answers are as those of a stage.
        """
        log = Log()
        method: Unlearner = self.method.build()
        graph = self.retained if request is None else request.apply(self.subject.train_graph)
        task = with_watched_graph(replace(self.task(graph), given=dict(given)), log)
        with log.section("fit"):
            method.fit(task)
        inspect(method)
        if request is not None:
            return self._stage(method)
        return self.finished(method, {}, log, inspect)

    def finished(
        self,
        method: Unlearner,
        before: Mapping[str, Tensor],
        log: Log | None = None,
        inspect: Inspect = lambda method: None,
    ) -> Run:
        """Describe what is deployed after the request, by its state and its answers.

        Args:
            method: The method.
            before: Its state before the request.
            log: Where the graphs that it reads are listed.
            inspect: As for `unlearned`.
        """
        log = log or Log()
        state = _copied(method.state())
        answers = self._asked(method, log)
        inspect(method)
        return Run(before, state, _copied(method.state()), answers, _copied(method.kept()), log)

    def _stage(self, method: Unlearner) -> Run:
        return Run({}, _copied(method.state()), {}, self._asked(method, noop=True), _copied(method.kept()), Log())

    def _asked(self, method: Unlearner, log: Log | None = None, noop: bool = False) -> dict[str, Tensor]:
        answers = {}
        for name, query in self.queries.items():
            if noop:
                query = RetainedQuery(query.targets, query.view, query.graph, query.retained)
            # The graph of D as unseen nodes rightly has forgotten nodes: only the others are watched.
            elif log is not None and name != self.about:
                query = with_watched_graph(query, log)
            # With gradients, so that a method that trains in `predict` is detected instead of failing.
            with (log or Log()).section("predict"):
                answers[name] = method.predict(query).detach().clone().cpu()
        return answers


def _copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in state.items()}


def _unlearned(trials: Trials, options: Mapping[str, Any]) -> dict[str, Any]:
    return trials.unlearned(**options).plain()


def _counterfactual(trials: Trials, given: Mapping[str, Tensor], request: Request | None) -> dict[str, Any]:
    return trials.counterfactual(given, request=request).plain()


def _find_nothing(name: str) -> NoReturn:
    raise LookupError(f"A run of its own looks up no method: {name}.")
