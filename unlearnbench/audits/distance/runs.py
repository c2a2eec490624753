"""Predictions of many runs of a method: unlearned, before unlearning, and retrained without the request."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from unlearnbench.audits.distance.node_groups import FORGOTTEN, TEST, make_groups
from unlearnbench.audits.subject import Kept, RetainedQuery, Subject, Trained, log_probabilities
from unlearnbench.component import Spec
from unlearnbench.task import Query, View

# By the name of a group: log-probabilities [n, C] of one run, or [R, n, C] of R runs.
Answers = dict[str, Tensor]
WITHOUT = "without"


@dataclass(frozen=True)
class UnlearnedRun:
    """Predictions of one run of a method.

    Args:
        before: Before the request, over the full graph; forgotten and test nodes alone.
        noop: Before the request, over the retained graph: the weights are kept, the edges are
            gone. For Retrain these are the predictions of the control `noop`.
        unlearned: After the request.
    """

    before: Answers
    noop: Answers
    unlearned: Answers


def groups_of(subject: Subject) -> dict[str, Tensor]:
    """Return the groups of a subject's nodes, ids by name."""
    return subject.remembered(
        ["groups"], lambda: make_groups(subject.train_graph, subject.request.ids, subject.split.test)
    )


def unlearned_run(subject: Subject, method: Spec, run: int, view: View, trained: Trained | None = None) -> UnlearnedRun:
    """Train a method on all training nodes, predict, unlearn, and predict again.

    Args:
        subject: The cell.
        method: The method.
        run: Number of the seed.
        view: Which graph messages pass over.
        trained: As in `Task`, for several methods with equal seeds.
    """

    def make() -> dict[str, Answers]:
        return vars(_unlearned_run(subject, method, run, view, trained))

    return UnlearnedRun(**_kept(subject, method, ["told", method.canonical(), view.value, run], make))


def retrained_run(subject: Subject, method: Spec, run: int, view: View) -> Answers:
    """Train a method on the retained nodes alone and predict, with seeds independent of `unlearned_run`'s."""

    def make() -> Answers:
        retained = subject.begun(method, subject.task(run, WITHOUT).without(subject.request))
        return _ask(subject, subject.fit(method, retained).predict, retained.graph.ids, view)

    return _kept(subject, method, [WITHOUT, method.canonical(), view.value, run], make)


def _kept(subject: Subject, method: Spec, what: Any, make: Callable[[], Kept]) -> Kept:
    """Remember what a run predicts; cells share Retrain's."""
    if method.canonical() == subject.reference.canonical():
        return subject.remembered_plain(what, make)
    return subject.remembered(what, make)


def stacked(runs: Sequence[Answers]) -> Answers:
    """Stack runs: [R, n, C] for each group."""
    return {group: torch.stack([run[group] for run in runs]) for group in runs[0]}


def _unlearned_run(subject: Subject, method: Spec, run: int, view: View, trained: Trained | None) -> UnlearnedRun:
    task = subject.begun(method, subject.task(run, trained=trained))
    everything, left = task.graph.ids, task.without(subject.request).graph.ids
    built = subject.fit(method, task)
    near = {group: ids for group, ids in groups_of(subject).items() if group in (FORGOTTEN, TEST)}
    queries = {group: subject.query(ids, everything, view) for group, ids in near.items()}
    before = log_probabilities(built.predict, queries)
    noop = _ask(subject, lambda query: built.predict(RetainedQuery.of(query)), left, view)
    subject.forget(built, task)
    held = left if built.deletes_at_inference else everything
    return UnlearnedRun(before, noop, _ask(subject, built.predict, held, view))


def _ask(subject: Subject, predict: Callable[[Query], Tensor], held: Tensor, view: View) -> Answers:
    """Predict every group: forgotten nodes, retained ones and test nodes, each alone."""
    groups = groups_of(subject)
    retained = {group: ids for group, ids in groups.items() if group not in (FORGOTTEN, TEST)}
    answers = {}
    with torch.no_grad():
        for group in (FORGOTTEN, TEST):
            answers[group] = predict(subject.query(groups[group], held, view)).cpu()
        # With all retained nodes as targets, each member passes messages over all retained nodes in
        # either view, and FULL evaluates all members at once.
        rows = predict(subject.query(torch.cat(list(retained.values())), held, View.FULL)).cpu()
    return answers | dict(zip(retained, rows.split([len(ids) for ids in retained.values()]), strict=True))
