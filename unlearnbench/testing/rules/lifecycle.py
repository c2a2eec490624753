"""The life cycle of a method on a toy graph: fit, predict, unlearn, predict again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from unlearnbench.component import Spec
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import Query, Task, View, make_query
from unlearnbench.testing.graphs import Toy
from unlearnbench.testing.rules.base import Case
from unlearnbench.testing.rules.purity import difference, seeded_answer
from unlearnbench.unlearning import Unlearner

CPU = torch.device("cpu")
VIEWS = (View.SHARD, View.FULL)
_SHARDS = "num_shards"


def fitting(spec: Spec, num_shards: int) -> Spec:
    """Return a method with this number of shards, if it has shards."""
    if _SHARDS not in type(spec.params).model_fields:
        return spec
    return replace(spec, params=spec.params.model_copy(update={_SHARDS: num_shards}))


def has_shards(spec: Spec) -> bool:
    """Whether a method has a number of shards as a parameter."""
    return _SHARDS in type(spec.params).model_fields


@dataclass(frozen=True)
class Life:
    """The results of a life cycle.

    Args:
        method: The method after all requests.
        before: Its state before any request.
        after: Its state after each request, before any prediction.
        kept: What it kept after each request.
        answers: Log-probabilities of the nodes to predict: by view, then before and after each request.
        task: The task it was trained on.
        retained: The last retained task.
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
    """Train a method, let it forget, and predict before and after.

    Args:
        case: The method.
        toy: The graph.
        requests: The requests, in order; default: one, of every fifth training node.
    """
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
        graph = request.apply(graph) if request.kind == "edge" else graph
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


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors, detached."""
    return {name: value.detach().clone() for name, value in state.items()}


def _predicted(method: Unlearner, graph: Graph, toy: Toy, held: Tensor, view: View) -> Tensor:
    answer = method.predict(make_query(graph, held, toy.asked, view, CPU))
    return answer.detach().clone() if isinstance(answer, Tensor) else answer
