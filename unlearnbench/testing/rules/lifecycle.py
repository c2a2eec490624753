"""The life cycle of a method on a toy graph, fit, predict, unlearn, predict again, and its run as a cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unlearnbench.audits.subject import Subject
from unlearnbench.component import Spec
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.records.record import Record
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.cell import Cell
from unlearnbench.running.execute import Compute
from unlearnbench.running.outcome import RunContext
from unlearnbench.task import Query, Task, View, make_query
from unlearnbench.testing.audits import toy_subject
from unlearnbench.testing.graphs import Toy, toy_graph
from unlearnbench.testing.rules.base import EPOCHS, Case
from unlearnbench.testing.rules.purity import copied, difference, seeded_answer
from unlearnbench.unlearning import Unlearner

CPU = torch.device("cpu")
VIEWS = (View.SHARD, View.FULL)


def fitting(spec: Spec, num_shards: int) -> Spec:
    """Return a method with this number of shards; the same one if it has no shards."""
    if "num_shards" in type(spec.params).model_fields:
        return replace(spec, params=spec.params.model_copy(update={"num_shards": num_shards}))
    parts = {key: fitting(chosen, num_shards) for key, chosen in spec.parts() if chosen.kind == spec.kind}
    if all(chosen is getattr(spec.params, key) for key, chosen in parts.items()):
        return spec
    return replace(spec, params=spec.params.model_copy(update=parts))


@dataclass(frozen=True)
class Life:
    """The results of a life cycle: the method after all requests, and what it showed before and after each.

    `answers` holds, by view, log-probabilities of the nodes to predict; `retained` is the last retained task.
    """

    method: Unlearner
    before: Mapping[str, Tensor]
    after: Sequence[Mapping[str, Tensor]]
    kept: Sequence[Mapping[str, Tensor]]
    answers: Mapping[View, Sequence[Tensor]]
    task: Task
    retained: Task

    def all_tensors(self) -> dict[str, Tensor]:
        """Return states, kept tensors and predictions, by description."""
        tensors = {f"before the request, {name}": value for name, value in self.before.items()}
        for number, (state, kept) in enumerate(zip(self.after, self.kept, strict=True), 1):
            tensors |= {f"after request {number}, {name}": value for name, value in {**state, **kept}.items()}
        for view, answers in self.answers.items():
            tensors |= {f"answer {number}, view {view.value}": answer for number, answer in enumerate(answers)}
        return tensors


def live(case: Case, toy: Toy, requests: Sequence[Request] | None = None) -> Life:
    """Train a method, let it serve requests, by default one of every fifth node, and predict before and after."""
    graph, task = toy.whole, case.task(toy)
    start, method = task, trained(case, toy, task)
    before = copied(method.state())
    answers = {view: [_predicted(method, graph, toy, toy.train, view)] for view in VIEWS}
    after, kept = [], []
    for request in [fifth(toy)] if requests is None else requests:
        retained = task.without(request)
        method.unlearn(request, retained)
        after.append(copied(method.state()))
        kept.append(copied(method.kept()))
        graph = graph if request.kind == "node" else request.apply(graph)
        held = retained.graph.ids if method.deletes_at_inference else toy.train
        for view in VIEWS:
            answers[view].append(_predicted(method, graph, toy, held, view))
        task = retained
    return Life(method, before, after, kept, answers, start, task)


def seeded_life(case: Case, toy: Toy) -> Life:
    """Return the life cycle with seeded global generators, computed once for all rules."""
    life: Life = seeded_answer(case, toy, live)[0]
    return life


def life_difference(one: Life, other: Life) -> str:
    """Describe the difference between two life cycles; empty if they are equal."""
    return difference(one.all_tensors(), other.all_tensors())


def trained(case: Case, toy: Toy, task: Task) -> Unlearner:
    """Return a method trained on a task of a toy graph."""
    method: Unlearner = fitting(case.spec, toy.num_shards).build()
    method.fit(task)
    return method


def fifth(toy: Toy) -> Request:
    """Return a request for every fifth training node."""
    return Request(toy.train[1::5])


def question(toy: Toy, held: Tensor, view: View = View.SHARD, targets: Tensor | None = None) -> Query:
    """Return a query for the toy's nodes to predict, or for others."""
    return make_query(toy.whole, held, toy.asked if targets is None else targets, view, CPU)


def small_subject(case: Case, spec: Spec, first_id: int = 0) -> Subject:
    """Return a cell of a method on a graph small enough to be run and audited in seconds."""
    graph = toy_graph(40, edges=80, first_id=first_id)
    return toy_subject(spec, graph, forget=0.1, epochs=EPOCHS, model=case.model, catalogue=case.catalogue)


def recorded(case: Case, compute: Compute, cell: Cell, graph: Graph) -> tuple[Record, str]:
    """Compute the record of a cell as the harness does; return it with the reason why its status is not `ok`."""
    metrics = [resolve(case.catalogue, "metric", "f1_micro")]
    context = RunContext(CPU, torch.get_num_threads(), "toy", metrics, {"packages": {}, "plugins": {}})
    record, _, _ = compute(cell, graph, context)
    error = record.error
    return record, f"{error['type']}: {error['message']}" if error else "; ".join(record.notes)


def _predicted(method: Unlearner, graph: Graph, toy: Toy, held: Tensor, view: View) -> Tensor:
    answer = method.predict(make_query(graph, held, toy.asked, view, CPU))
    return answer.detach().clone() if isinstance(answer, Tensor) else answer
