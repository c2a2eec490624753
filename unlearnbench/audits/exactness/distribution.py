"""The two-sample test of `exactness`, for methods whose bits differ from those of a run without D."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import torch

from unlearnbench import seeds
from unlearnbench.audits.base import Score
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.audits.exactness.verdicts import CANNOT_TELL, NONE, by_distance
from unlearnbench.audits.subject import RetainedQuery, Trained
from unlearnbench.statistics import energy
from unlearnbench.task import Query, Task
from unlearnbench.unlearning import Unlearner

LEVEL = 0.05
# Sides of the comparison, whose seeds are independent: told to forget D, or never trained on it.
TOLD, NEVER = "told", "never"


def by_distribution(trials: Trials, runs: int, permutations: int) -> tuple[str, Sequence[Score], list[str]]:
    """(d) Test over many seeds whether predictions on D are nearer to retrained models' than those of `noop`."""
    told, never = ([_known(trials, run, side) for run in range(runs)] for side in (TOLD, NEVER))
    retrained_answers = trials.apart(_retrained_answers, never)
    answers = [*trials.apart(_answers_before_and_after, told), retrained_answers]
    table = torch.stack([answer for side in answers for answer in side]).double().exp().numpy()
    if not np.isfinite(table).all():
        return CANNOT_TELL, (), ["Some of its answers are not finite."]
    matrix = energy.distances(table)
    unlearned, noop, retrained = (np.arange(runs) + side * runs for side in range(3))
    rng = np.random.default_rng(seeds.seed(trials.task().seed, "audit", "permutations"))
    noop_p, p = (energy.differ_p(matrix, side, retrained, permutations, rng) for side in (noop, unlearned))
    nearer = energy.nearer_p(matrix, unlearned, noop, retrained, permutations, rng)
    of_noop, value = (energy.energy(matrix, side, retrained) for side in (noop, unlearned))
    rejected = noop_p < LEVEL and of_noop > 0
    effect = value / of_noop if rejected else None
    score = Score(
        measure="energy",
        where=trials.about,
        value=value,
        floor=0.0,
        controls={"noop": of_noop},
        effect=effect,
        p=p,
        runs=runs,
        state="valid" if rejected else "cannot tell",
        note=f"noop is rejected with p = {noop_p:.3g}; nearer than noop: p = {nearer:.3g}",
    )
    if effect is None:
        return CANNOT_TELL, (score,), ["Here the untouched model cannot be distinguished from a retrained one."]
    return (by_distance(effect) if nearer < LEVEL else NONE), (score,), []


def _answer(method: Unlearner, query: Query) -> torch.Tensor:
    return method.predict(query).detach().cpu()


def _task(trials: Trials, run: int, side: str) -> Task:
    task = trials.task(run=run, side=side)
    return task if side == TOLD else replace(task, graph=trials.retained)


def _known(trials: Trials, run: int, side: str) -> Trained | None:
    """Return the network that a method begins with, if it is Retrain's: cells share it."""
    return trials.subject.begun(trials.method, _task(trials, run, side)).trained


def _retrained_answers(trials: Trials, known: Sequence[Trained | None]) -> list[torch.Tensor]:
    query, answers = trials.queries[trials.about], []
    for run, trained in enumerate(known):
        task = replace(_task(trials, run, NEVER), trained=trained)
        answers.append(_answer(trials.subject.fit(trials.method, task), query))
    return answers


def _answers_before_and_after(trials: Trials, known: Sequence[Trained | None]) -> list[list[torch.Tensor]]:
    query = trials.queries[trials.about]
    noop = RetainedQuery(query.targets, query.view, query.graph, query.retained)
    after, before = [], []
    for run, trained in enumerate(known):
        task = replace(_task(trials, run, TOLD), trained=trained)
        method = trials.subject.fit(trials.method, task)
        before.append(_answer(method, noop))
        trials.subject.forget(method, task)
        after.append(_answer(method, query))
    return [after, before]
