"""Shadow pipelines: a method trained with a random half of the request and told to forget it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench.audits.subject import RetainedQuery, Subject, log_probabilities
from unlearnbench.component import Spec
from unlearnbench.protocol import Request
from unlearnbench.task import Query, View

SIDE = "membership"
OWN, NEAR = "own", "neighbours"
# Beyond this a float32 probability is 0 or 1.
_MOST_CONFIDENT = 100.0

Confidences = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class Shadows:
    """Confidences of W pipelines of a method in the labels of m forgotten nodes, and in those of their neighbours.

    Args:
        noop: Before the request, over the retained graph: the weights are kept, the edges are gone. By what the
            attacker sees: `own`, float64 [W, m], and `neighbours`, the mean over a node's retained neighbours, 0
            without any.
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
        runs = [_run(subject, method, number, row, view) for number, row in enumerate(present)]
        sides = [
            {key: torch.stack([run[side][key] for run in runs]).clamp(-_MOST_CONFIDENT, _MOST_CONFIDENT)
             for key in (OWN, NEAR)}
            for side in (0, 1)
        ]  # fmt: skip
        return Shadows(*sides)

    return subject.remembered([SIDE, method.canonical(), view.value, len(present)], make)


def _run(subject: Subject, method: Spec, number: int, present: Tensor, view: View) -> tuple[Confidences, Confidences]:
    ids = subject.request.ids
    present = present.to(ids.device)
    task = subject.task(number, SIDE)
    retained = task.without(subject.request).graph.ids
    task = task.without(Request(ids[~present]))
    built = subject.fit(method, task)
    noop = _confidences(subject, lambda query: built.predict(RetainedQuery.of(query)), retained, view)
    if bool(present.any()):
        subject.forget(built, task, Request(ids[present]))
    held = retained if built.deletes_at_inference else task.graph.ids
    return noop, _confidences(subject, built.predict, held, view)


def _confidences(subject: Subject, predict: Callable[[Query], Tensor], held: Tensor, view: View) -> Confidences:
    ids, (row, neighbour), near = subject.request.ids.cpu(), *neighbours_of(subject)
    queries = {OWN: subject.query(ids, held, view)}
    if len(near):
        queries[NEAR] = subject.query(near, held, View.FULL)
    answers = log_probabilities(predict, queries)
    labels = {key: subject.graph.y[subject.graph.positions(query.targets.cpu())] for key, query in queries.items()}
    values = {key: confidence(answers[key], labels[key]) for key in queries}
    mean = torch.zeros(len(ids), dtype=torch.float64)
    if len(near):
        mean.index_add_(0, row, values[NEAR][neighbour])
    return {OWN: values[OWN], NEAR: mean / torch.bincount(row, minlength=len(ids)).clamp(min=1)}


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
