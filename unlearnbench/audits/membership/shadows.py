"""Shadow pipelines: a method trained with a random half of the request and told to forget it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from unlearnbench.audits.gating import NOOP
from unlearnbench.audits.subject import RetainedQuery, Subject, Trained, log_probabilities
from unlearnbench.component import Spec
from unlearnbench.protocol import Request
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.task import Query, View

SIDE = "membership"
OWN, NEAR = "own", "neighbours"
# Beyond this a float32 probability is 0 or 1.
_MOST_CONFIDENT = 100.0

UNLEARNED = "unlearned"

Confidences = Mapping[str, Tensor]
# The confidences of one pipeline before the request and after it.
_Pipeline = Mapping[str, Confidences]


@dataclass(frozen=True, eq=False)
class Shadows:
    """Confidences of W pipelines of a method in the labels of m forgotten nodes, and in those of their neighbours.

    Args:
        noop: Before the request, over the retained graph: the weights are kept, the edges are gone. By what the
            attacker sees: `own`, float64 [W, m], and `neighbours`, the mean over a node's retained neighbours, 0
            without any. Empty: it was not asked.
        unlearned: After the request.
    """

    noop: Confidences
    unlearned: Confidences


def draw_presence(pipelines: int, nodes: int, generator: torch.Generator) -> Tensor:
    """Draw which pipelines are trained with which nodes: bool [W, m].

    In the first half of the pipelines each node is present equally often; in the second half each node is present in
    each pipeline with probability one half, independently of everything else.
    """
    first = pipelines // 2
    order = torch.rand(first, nodes, generator=generator).argsort(dim=0).argsort(dim=0)
    return torch.cat([order < first // 2, torch.rand(pipelines - first, nodes, generator=generator) < 0.5])


def presence(subject: Subject, pipelines: int) -> Tensor:
    """Return which pipelines are trained with which nodes of the request, the same for all methods."""
    return draw_presence(pipelines, len(subject.request.ids), subject.task(side=SIDE).generator("present"))


def run_shadows(subject: Subject, method: Spec, present: Tensor, view: View) -> Shadows:
    """Run a method's pipeline once for each row of `present`, bool [W, m]; equal rows of methods have equal seeds."""

    def make() -> Shadows:
        return _stacked([_run(subject, method, number, row, view) for number, row in enumerate(present)])

    return subject.remembered([SIDE, method.canonical(), view.value, len(present)], make)


def run_references(subject: Subject, names: Sequence[str], present: Tensor, view: View) -> dict[str, Shadows]:
    """Run the pipelines of Retrain and of controls as `run_shadows` does, without what is alike.

    Equal trainings of pipelines with equal seeds are made once, cells share the results, and only Retrain is asked
    before the request.

    Args:
        subject: The cell.
        names: Brackets.
        present: bool [W, m].
        view: Which graph messages pass over.
    """
    methods = [subject.find(name) for name in names]
    what = [SIDE, [method.canonical() for method in methods], view.value, len(present)]
    asked = _questions(subject, subject.task().without(subject.request).graph.ids, view)

    def make(number: int) -> list[_Pipeline]:
        trained: Trained = {}
        return [
            _run(subject, method, number, present[number], view, trained, asked, noop=name == REFERENCE)
            for name, method in zip(names, methods, strict=True)
        ]

    order = subject.in_own_order(len(present))
    runs = {number: subject.remembered_plain([*what, number], partial(make, number)) for number in order}
    return {name: _stacked([runs[number][at] for number in sorted(runs)]) for at, name in enumerate(names)}


def _stacked(runs: Sequence[_Pipeline]) -> Shadows:
    def side(name: str) -> Confidences:
        rows = {key: torch.stack([run[name][key] for run in runs]) for key in runs[0][name]}
        return {key: values.clamp(-_MOST_CONFIDENT, _MOST_CONFIDENT) for key, values in rows.items()}

    return Shadows(side(NOOP), side(UNLEARNED))


def _run(
    subject: Subject,
    method: Spec,
    number: int,
    present: Tensor,
    view: View,
    trained: Trained | None = None,
    asked: _Questions | None = None,
    noop: bool = True,
) -> _Pipeline:
    """Run one pipeline.

    Args:
        subject: The cell.
        method: The method.
        number: Number of the seed.
        present: bool [m].
        view: Which graph messages pass over.
        trained: As in `Task`.
        asked: The questions over the retained graph; None: they are made anew each time, since a method may write
            into them.
        noop: Whether to ask before the request.
    """
    ids = subject.request.ids
    present = present.to(ids.device)
    task = subject.task(number, SIDE, trained=trained)
    retained = task.without(subject.request).graph.ids
    task = subject.begun(method, task.without(Request(ids[~present])))
    built = subject.fit(method, task)
    before: Confidences = {}
    if noop:
        questions = asked or _questions(subject, retained, view)
        before = _confidences(lambda query: built.predict(RetainedQuery.of(query)), questions)
    if bool(present.any()):
        subject.forget(built, task, Request(ids[present]))
    held = retained if built.deletes_at_inference else task.graph.ids
    known = asked if built.deletes_at_inference else None
    return {NOOP: before, UNLEARNED: _confidences(built.predict, known or _questions(subject, held, view))}


@dataclass(frozen=True, eq=False)
class _Questions:
    """What is asked about the m forgotten nodes and their neighbours.

    Args:
        queries: By what the attacker sees.
        labels: int64, those of the targets of each.
        pairs: As `neighbours_of` returns them.
        count: m.
    """

    queries: Mapping[str, Query]
    labels: Mapping[str, Tensor]
    pairs: Tensor
    count: int


def _questions(subject: Subject, held: Tensor, view: View) -> _Questions:
    ids, pairs, near = subject.request.ids.cpu(), *neighbours_of(subject)
    queries = {OWN: subject.query(ids, held, view)}
    if len(near):
        queries[NEAR] = subject.query(near, held, View.FULL)
    labels = {key: subject.graph.y[subject.graph.positions(query.targets.cpu())] for key, query in queries.items()}
    return _Questions(queries, labels, pairs, len(ids))


def _confidences(predict: Callable[[Query], Tensor], questions: _Questions) -> Confidences:
    answers = log_probabilities(predict, questions.queries)
    values = {key: confidence(answers[key], labels) for key, labels in questions.labels.items()}
    mean, (row, neighbour) = torch.zeros(questions.count, dtype=torch.float64), questions.pairs
    if NEAR in values:
        mean.index_add_(0, row, values[NEAR][neighbour])
    return {OWN: values[OWN], NEAR: mean / torch.bincount(row, minlength=questions.count).clamp(min=1)}


def neighbours_of(subject: Subject) -> tuple[Tensor, Tensor]:
    """Return the pairs of a forgotten node and its retained training neighbours, and these neighbours.

    Returns:
        int64 [2, p]: positions in the request and in the neighbours; int64 [h], ids of the neighbours.
    """

    def make() -> tuple[Tensor, Tensor]:
        graph, forgotten = subject.train_graph.to(torch.device("cpu")), subject.request.ids.cpu()
        ends = graph.ids[graph.edge_index]
        ends = torch.cat([ends, ends.flip(0)], dim=1)
        gone = torch.isin(ends, forgotten)
        ends = torch.unique(ends[:, gone[0] & ~gone[1]], dim=1)
        near, column = torch.unique(ends[1], return_inverse=True)
        sorted_ids, order = forgotten.sort()
        return torch.stack([order[torch.searchsorted(sorted_ids, ends[0].contiguous())], column]), near

    return subject.remembered([SIDE, NEAR], make)


def confidence(answers: Tensor, labels: Tensor) -> Tensor:
    """Return the log-odds of each node's label: log p - log(1 - p), which is nearly normal (Carlini et al., 2022).

    Args:
        answers: [n, C], log-probabilities.
        labels: int64 [n].

    Returns:
        float64 [n].
    """
    answers, at = answers.double(), labels[:, None]
    others = answers.scatter(1, at, -torch.inf).logsumexp(dim=1)
    return answers.gather(1, at)[:, 0] - others
