"""One life of a method on a toy graph: trained, asked, told to forget, asked again."""

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
from unlearnbench.testing.rules.purity import same_chance
from unlearnbench.unlearning import Unlearner

CPU = torch.device("cpu")
VIEWS = (View.SHARD, View.FULL)
_SHARDS = "num_shards"


def fitting(spec: Spec, num_shards: int) -> Spec:
    """Give a method with so many shards, if it has any."""
    if _SHARDS not in type(spec.params).model_fields:
        return spec
    return replace(spec, params=spec.params.model_copy(update={_SHARDS: num_shards}))


def has_shards(spec: Spec) -> bool:
    """Tell whether a method has a number of shards as a parameter."""
    return _SHARDS in type(spec.params).model_fields


@dataclass(frozen=True)
class Life:
    """What became of a method.

    Args:
        method: It, after all requests.
        before: Its state before any.
        after: Its state after each, before anything was asked.
        kept: What it kept after each.
        answers: Log-probabilities of the nodes asked about: by view, then before and after each request.
        task: The task it was trained on.
        retained: The last retained one.
    """

    method: Unlearner
    before: Mapping[str, Tensor]
    after: Sequence[Mapping[str, Tensor]]
    kept: Sequence[Mapping[str, Tensor]]
    answers: Mapping[View, Sequence[Tensor]]
    task: Task
    retained: Task

    def all_tensors(self) -> dict[str, Tensor]:
        """Give states, what was kept, and answers, by what they are."""
        found = {f"before the request, {name}": value for name, value in self.before.items()}
        for number, (state, kept) in enumerate(zip(self.after, self.kept, strict=True), 1):
            found |= {f"after request {number}, {name}": value for name, value in {**state, **kept}.items()}
        for view, answers in self.answers.items():
            found |= {f"answer {number}, view {view.value}": answer for number, answer in enumerate(answers)}
        return found


def live(case: Case, toy: Toy, requests: Sequence[Request] | None = None) -> Life:
    """Train a method, tell it to forget, and ask it before and after.

    Args:
        case: The method.
        toy: Where.
        requests: One after the other; default: one, of every fifth training node.
    """
    whole, task = toy.whole, case.task(toy)
    start, method = task, trained(case, toy, task)
    before = copied(method.state())
    answers = {view: [_asked(method, whole, toy, toy.train, view)] for view in VIEWS}
    after, kept = [], []
    for request in [fifth(toy)] if requests is None else requests:
        retained = task.without(request)
        method.unlearn(request, retained)
        after.append(copied(method.state()))
        kept.append(copied(method.kept()))
        graph = request.apply(whole) if request.kind == "edge" else whole
        held = retained.graph.ids if method.deletes_at_inference else toy.train
        for view in VIEWS:
            answers[view].append(_asked(method, graph, toy, held, view))
        task, whole = retained, graph
    return Life(method, before, after, kept, answers, start, task)


def watched_life(case: Case, toy: Toy, seed: int = 0) -> tuple[Life, list[str]]:
    """Live once with the global generators seeded so; say which of them were used. Several rules look at it."""

    def make() -> tuple[Life, list[str]]:
        with same_chance(seed) as used:
            life = live(case, toy)
        return life, used

    return case.remembered(f"life {seed}, {toy.name}", make)


def trained(case: Case, toy: Toy, task: Task) -> Unlearner:
    """Make a method and train it on a task of a toy graph."""
    method: Unlearner = fitting(case.spec, toy.num_shards).build()
    method.fit(task)
    return method


def fifth(toy: Toy) -> Request:
    """Ask to forget every fifth training node."""
    return Request(toy.train[1::5])


def question(toy: Toy, held: Tensor, view: View = View.SHARD, targets: Tensor | None = None) -> Query:
    """Make a question about the toy's nodes that are asked about."""
    return make_query(toy.whole, held, toy.asked if targets is None else targets, view, CPU)


def copied(state: Mapping[str, Tensor]) -> dict[str, Tensor]:
    """Copy tensors, without what could be differentiated by them."""
    return {name: value.detach().clone() for name, value in state.items()}


def _asked(method: Unlearner, whole: Graph, toy: Toy, held: Tensor, view: View) -> Tensor:
    answer = method.predict(make_query(whole, held, toy.asked, view, CPU))
    return answer.detach().clone() if isinstance(answer, Tensor) else answer
