"""Serves a stream of requests in a process of its own, and describes what is deployed after each."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from torch import Tensor

from unlearnbench.audits.exactness.trials import Run, Trials
from unlearnbench.audits.streams.fresh import published_choice
from unlearnbench.audits.subject import Subject
from unlearnbench.measure.clock import Meter
from unlearnbench.measure.request_time import seconds_by_request
from unlearnbench.metrics.utility import MicroF1
from unlearnbench.protocol import Request
from unlearnbench.protocol.requests import joined
from unlearnbench.unlearning import Unlearner


@dataclass(frozen=True, eq=False)
class Served:
    """What came of a stream of k requests.

    Args:
        kept: What the method kept apart from its state before the first request.
        requests: The ids of each, int64 [t].
        runs: What was deployed after each.
        phases: What they took.
        counts: What the method counted during each.
    """

    kept: Mapping[str, Tensor]
    requests: Sequence[Tensor]
    runs: Sequence[Run]
    phases: Sequence[Mapping[str, Any]]
    counts: Sequence[Mapping[str, int]]

    @property
    def seconds(self) -> list[float | None]:
        """The seconds of each request, from the request to the first answers."""
        return seconds_by_request(self.phases)

    @property
    def peaks(self) -> list[float | None]:
        """The peaks of resident memory while each was served, in MiB."""
        return [phase.get("peak_rss_mib") for phase in self.phases if phase["name"] == "unlearn"]


def served(trials: Trials, requests: Sequence[Tensor | int]) -> Served:
    """Serve a stream in a process of its own.

    Args:
        trials: The cell, with any method.
        requests: The ids of each request; or a number: so many nodes are chosen by `most_confident`.
    """
    plain = trials.apart(_serve, list(requests))
    return Served(**{**plain, "runs": [Run.from_plain(run) for run in plain["runs"]]})


def until(subject: Subject, requests: Sequence[Tensor]) -> Trials:
    """Return trials in which D is all that some requests ask for."""
    return Trials(subject, joined([Request(ids) for ids in requests]))


def micro_f1(subject: Subject, run: Run) -> float:
    """Score a run's answers for the test nodes in the view shard."""
    labels = subject.graph.y[subject.graph.positions(subject.split.test)]
    return float(MicroF1(MicroF1.Params()).score(labels, run.answers["test"]))


def _serve(trials: Trials, requests: Sequence[Tensor | int]) -> dict[str, Any]:
    subject, meter = trials.subject, Meter(trials.subject.device)
    task = replace(trials.task(), listener=meter)
    method: Unlearner = trials.method.build()
    with meter.phase("fit"):
        method.fit(task)
    kept = {name: value.clone() for name, value in method.kept().items()}
    held, chosen, runs, counts = task.graph.ids, list[Tensor](), list[dict[str, Any]](), list[dict[str, int]]()
    for wanted in requests:
        ids = published_choice(subject, method, task, held, wanted) if isinstance(wanted, int) else wanted
        chosen.append(ids)
        before, counted = {name: value.detach().clone() for name, value in method.state().items()}, dict(meter.counts)
        task = task.without(Request(ids))
        with meter.phase("unlearn"):
            method.unlearn(Request(ids.clone()), task)
        counts.append({name: amount - counted.get(name, 0) for name, amount in meter.counts.items()})
        if method.deletes_at_inference:
            held = task.graph.ids
        now = until(subject, chosen)
        query = now.queries["test"]
        with meter.phase("state-first"):
            method.state()
        with meter.phase("predict-first"):
            method.predict(query)
        runs.append(now.finished(method, before).plain())
    return {"kept": kept, "requests": chosen, "runs": runs, "phases": meter.phases, "counts": counts}
