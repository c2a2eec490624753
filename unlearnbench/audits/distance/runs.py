"""The answers of many runs: of a method told to forget, not told, and never shown what is to be forgotten."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from unlearnbench.audits.distance.node_groups import FORGOTTEN, TEST, make_groups
from unlearnbench.audits.subject import RetainedQuery, Subject, log_probabilities
from unlearnbench.component import Spec
from unlearnbench.task import Query, View

# By the name of a group: log-probabilities [n, C] of one run, or [R, n, C] of R runs.
Answers = dict[str, Tensor]
WITHOUT = "without"


@dataclass(frozen=True)
class UnlearnedRun:
    """What one run of a method answers.

    Args:
        before: Before the request, over the graph from before it; forgotten and test nodes alone.
        noop: Before the request, over the graph that is left: the weights are kept, the edges
            are gone. Retrain's is what the control `noop` answers; this is any method's own.
        unlearned: After the request.
    """

    before: Answers
    noop: Answers
    unlearned: Answers


def groups_of(subject: Subject) -> dict[str, Tensor]:
    """Give the groups of a subject's nodes, ids by name."""
    return subject.remembered(
        ["groups"], lambda: make_groups(subject.train_graph, subject.request.ids, subject.split.test)
    )


def unlearned_run(subject: Subject, method: Spec, run: int, view: View) -> UnlearnedRun:
    """Train a method on all training nodes, ask, tell it to forget, ask again.

    Args:
        subject: The cell and its data.
        method: What is trained.
        run: Which seed.
        view: Which graph messages pass over.
    """
    return subject.remembered(
        ["told", method.canonical(), view.value, run], lambda: _unlearned_run(subject, method, run, view)
    )


def retrained_run(subject: Subject, method: Spec, run: int, view: View) -> Answers:
    """Train a method on the retained nodes alone, and ask; its seeds are independent of those of `unlearned_run`."""

    def make() -> Answers:
        retained = subject.task(run, WITHOUT).without(subject.request)
        return _ask(subject, subject.fit(method, retained).predict, retained.graph.ids, view)

    return subject.remembered([WITHOUT, method.canonical(), view.value, run], make)


def stacked(runs: Sequence[Answers]) -> Answers:
    """Put runs beside each other: [R, n, C] a group."""
    return {group: torch.stack([run[group] for run in runs]) for group in runs[0]}


def _unlearned_run(subject: Subject, method: Spec, run: int, view: View) -> UnlearnedRun:
    task = subject.task(run)
    everything, left = task.graph.ids, task.without(subject.request).graph.ids
    built = subject.fit(method, task)
    near = {group: ids for group, ids in groups_of(subject).items() if group in (FORGOTTEN, TEST)}
    before = log_probabilities(built, {group: subject.query(ids, everything, view) for group, ids in near.items()})
    noop = _ask(subject, lambda query: built.predict(_as_retained_query(query)), left, view)
    subject.forget(built, task)
    held = left if built.deletes_at_inference else everything
    return UnlearnedRun(before, noop, _ask(subject, built.predict, held, view))


def _as_retained_query(query: Query) -> RetainedQuery:
    return RetainedQuery(query.targets, query.view, query.graph, query.retained)


def _ask(subject: Subject, predict: Callable[[Query], Tensor], held: Tensor, view: View) -> Answers:
    """Ask about every group: forgotten nodes, retained ones and test nodes, each alone."""
    groups = groups_of(subject)
    retained = {group: ids for group, ids in groups.items() if group not in (FORGOTTEN, TEST)}
    found = {}
    with torch.no_grad():
        for group in (FORGOTTEN, TEST):
            found[group] = predict(subject.query(groups[group], held, view)).cpu()
        # Over its shard and all retained nodes a member passes messages over all retained nodes:
        # both views are one, and FULL asks all members at once.
        rows = predict(subject.query(torch.cat(list(retained.values())), held, View.FULL)).cpu()
    return found | dict(zip(retained, rows.split([len(ids) for ids in retained.values()]), strict=True))


def as_counts(groups: Mapping[str, Tensor]) -> dict[str, int]:
    """Count the nodes of each group."""
    return {group: len(ids) for group, ids in groups.items()}
