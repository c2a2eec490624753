"""Runs of a method that differ in one respect, all with the seed of the cell, for `exactness` to compare."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

import torch
from torch import Tensor

from unlearnbench.audits.exactness.bits import answer_differences, equal_bits, state_differences
from unlearnbench.audits.exactness.graph_access import Log, with_watched_graph
from unlearnbench.audits.subject import RetainedQuery, Subject
from unlearnbench.component import Spec
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import Query, Task, Training, View
from unlearnbench.unlearning import Unlearner

Inspect = Callable[[Unlearner], None]


@dataclass(frozen=True)
class Run:
    """The result of one run.

    Args:
        before: State before the request.
        state: State after it, before any query.
        after_asking: State after all queries.
        answers: Log-probabilities by query.
        kept: What the method keeps apart from its state.
        log: Which graphs were read, in the sections `fit`, `unlearn` and `predict`.
        again: The answers to the same queries repeated; empty unless the run was `thorough`.
        noop: Answers before the request, over the graph without D; empty unless `thorough`.
    """

    before: Mapping[str, Tensor]
    state: Mapping[str, Tensor]
    after_asking: Mapping[str, Tensor]
    answers: Mapping[str, Tensor]
    kept: Mapping[str, Tensor]
    log: Log
    again: Mapping[str, Tensor] = field(default_factory=dict)
    noop: Mapping[str, Tensor] = field(default_factory=dict)

    def whole(self) -> dict[str, Tensor]:
        """Return the state and the kept partition."""
        return {**self.state, **{name: value for name, value in self.kept.items() if name == "partition"}}


class Trials:
    """Trains and queries the method of a cell repeatedly."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.method: Spec = subject.cell.method
        self.request = subject.request
        # On CUDA a network's bits depend on those trained with it.
        on_cuda = subject.device.type == "cuda"
        self.training: Training = replace(subject.cell.training, one_by_one=True) if on_cuda else subject.cell.training

    @cached_property
    def retained(self) -> Graph:
        """The training graph without D."""
        return self.subject.train_graph.without(self.request.ids)

    @cached_property
    def queries(self) -> dict[str, Query]:
        """The queries after a request: test nodes in both views, and D as unseen nodes.

        A method that does not delete at inference is queried over the graph with D, as it would be deployed.
        """
        subject = self.subject
        left = (self.retained if self.method.build().deletes_at_inference else subject.train_graph).ids
        test = subject.query(subject.split.test, left)
        return {
            "test": test,
            "test, full view": replace(test, view=View.FULL),
            "forgotten": subject.query(self.request.ids, left),
        }

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
    ) -> Run:
        """Train on all training nodes, then unlearn.

        Args:
            graph: The training graph, if not the true one.
            requests: One after the other; default: all of D at once.
            spoil: Called with the graph just before `unlearn`.
            inspect: Called with the method after the request, and again after all queries.
            thorough: Query also before the request, and twice after it.
        """
        log = Log()
        task = self.task(graph) if spoil else with_watched_graph(self.task(graph), log)
        method: Unlearner = self.method.build()
        with log.section("fit"):
            method.fit(task)
        before = _copied(method.state())
        noop = self._asked(method, noop=True) if thorough else {}
        for request in requests or [self.request]:
            retained = task.without(request)
            if spoil is not None:
                spoil(task.graph)
            with log.section("unlearn"):
                method.unlearn(request, retained)
            task = retained
        del task, retained
        inspect(method)
        run = self._finished(method, before, log, inspect)
        return replace(run, noop=noop, again=self._asked(method)) if thorough else run

    def counterfactual(self, given: Mapping[str, Tensor], inspect: Inspect = lambda method: None) -> Run:
        """Train on the retained nodes alone, with a given partition; `inspect` as for `unlearned`."""
        log = Log()
        method: Unlearner = self.method.build()
        task = with_watched_graph(replace(self.task(self.retained), given=dict(given)), log)
        with log.section("fit"):
            method.fit(task)
        inspect(method)
        return self._finished(method, {}, log, inspect)

    def _finished(self, method: Unlearner, before: Mapping[str, Tensor], log: Log, inspect: Inspect) -> Run:
        state = _copied(method.state())
        answers = self._asked(method, log)
        inspect(method)
        return Run(before, state, _copied(method.state()), answers, _copied(method.kept()), log)

    def _asked(self, method: Unlearner, log: Log | None = None, noop: bool = False) -> dict[str, Tensor]:
        answers = {}
        for name, query in self.queries.items():
            if noop:
                query = RetainedQuery(query.targets, query.view, query.graph, query.retained)
            # The graph of D as unseen nodes rightly has forgotten nodes: only the others are watched.
            elif log is not None and name != "forgotten":
                query = with_watched_graph(query, log)
            # With gradients, so that a method that trains in `predict` is detected instead of failing.
            with (log or Log()).section("predict"):
                answers[name] = method.predict(query).detach().clone().cpu()
        return answers


def attempted(run: Callable[[], Run]) -> Run | str:
    """Run, or return why it fails: a faulty method may not cope with another order or other content."""
    try:
        return run()
    except (MemoryError, torch.OutOfMemoryError):
        raise
    except Exception as error:  # a method may fail in any way
        return f"fails: {type(error).__name__}: {error}"


def outcome(run: Callable[[], Run], unlearned: Run) -> list[str]:
    """Describe how `unlearned` differs from a run, or that the run fails; empty: they are equal bit for bit."""
    other = attempted(run)
    return [other] if isinstance(other, str) else run_differences(unlearned, other)


def run_differences(one: Run, other: Run) -> list[str]:
    """Describe how two runs differ bit for bit: state and kept partition, then answers; empty: not at all."""
    state = state_differences(one.whole(), other.whole(), one.before)
    answers = answer_differences(one.answers, other.answers)
    if answers and not state:
        answers += ", though the state is equal"
        stale = [name for name in one.answers if name in one.noop and equal_bits(one.answers[name], one.noop[name])]
        if stale:
            answers += f", and are those from before the request ({'; '.join(stale)})"
    return [text for text in (state, answers) if text]


def _copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    return {name: value.detach().clone() for name, value in state.items()}
