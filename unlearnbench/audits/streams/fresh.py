"""Whether requests chosen from the published model leave another result than a fresh training without their nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import torch
from scipy.stats import ttest_1samp
from torch import Tensor

from unlearnbench.audits.base import Score
from unlearnbench.audits.membership.shadows import confidence
from unlearnbench.audits.streams.rules import ADAPTIVE, SIDE, most_confident
from unlearnbench.audits.subject import RetainedQuery, Subject
from unlearnbench.protocol import Request
from unlearnbench.task import Query, Task, View
from unlearnbench.unlearning import Unlearner

# An honest method is said to differ in one audit out of a hundred.
ALPHA = 0.01


def published_choice(subject: Subject, method: Unlearner, task: Task, held: Tensor, count: int) -> Tensor:
    """Choose the next request from what the deployed method answers for the training nodes that are left.

    Args:
        subject: The cell.
        method: What is deployed.
        task: What is left.
        held: int64 [m], ids of the nodes in the graph that it answers over.
        count: How many nodes to choose.
    """
    left = task.graph.ids
    published = method.predict(RetainedQuery.of(subject.query(left, held, View.FULL))).detach()
    return most_confident(left.cpu(), published.cpu(), count).to(left.device)


def adaptive_gap(subject: Subject, sizes: Sequence[int], runs: int) -> Score:
    """Compare streams chosen adaptively with fresh trainings without the same nodes, on these nodes.

    Returns:
        The mean difference of their confidence in the labels of the forgotten nodes, with its 95 % interval and the
        p-value of a paired t-test over runs.
    """
    gaps = np.array([_gap(subject, sizes, run) for run in range(runs)])
    if not np.ptp(gaps):
        # A method without random numbers; of a constant difference no test is needed.
        value = float(gaps[0])
        return Score("gap to fresh", ADAPTIVE, value, value, value, floor=0.0, p=float(not value), runs=runs)
    test = ttest_1samp(gaps, 0.0)
    low, high = test.confidence_interval(0.95)
    return Score(
        "gap to fresh", ADAPTIVE, float(gaps.mean()), float(low), float(high), 0.0, p=float(test.pvalue), runs=runs
    )


def _gap(subject: Subject, sizes: Sequence[int], run: int) -> float:
    method, task = subject.cell.method, subject.task(run, SIDE)
    built, held = subject.fit(method, task), task.graph.ids
    for size in sizes:
        ids = published_choice(subject, built, task, held, size)
        task = subject.forget(built, task, Request(ids))
        held = task.graph.ids if built.deletes_at_inference else held
    everything = subject.train_graph.ids
    gone = everything[~torch.isin(everything, task.graph.ids)]
    fresh = subject.fit(method, subject.task(run, f"{SIDE} fresh").without(Request(gone)))
    query = subject.query(gone, held)
    return _confidence(subject, built.predict, query) - _confidence(subject, fresh.predict, query)


def _confidence(subject: Subject, predict: Callable[[Query], Tensor], query: Query) -> float:
    graph = subject.graph
    with torch.no_grad():
        return float(confidence(predict(query).cpu(), graph.y[graph.positions(query.targets.cpu())]).mean())
