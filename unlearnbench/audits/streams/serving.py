"""Serves streams of requests in processes of their own, and describes what is deployed after each request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from torch import Tensor

from unlearnbench.audits.exactness.copies import Answer, Copies
from unlearnbench.audits.exactness.graph_access import Log
from unlearnbench.audits.exactness.own_process import value_of
from unlearnbench.audits.exactness.run import Run, attempted
from unlearnbench.audits.exactness.trials import Fitted, Trials
from unlearnbench.audits.streams.fresh import published_choice
from unlearnbench.audits.streams.rules import ONE_SHARD, RANDOM, one_shard, parts
from unlearnbench.audits.subject import Subject
from unlearnbench.measure.clock import Meter
from unlearnbench.measure.request_time import seconds_by_request
from unlearnbench.metrics.utility import MicroF1
from unlearnbench.protocol import Request
from unlearnbench.protocol.requests import joined

# The ids of each request of a stream, or how many nodes it takes.
Plan = Sequence[Tensor | int]


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


@dataclass(frozen=True)
class Reference:
    """What Retrain made of a stream: micro-F1, seconds and peaks of memory of each request, as for `Served`."""

    f1: list[float]
    seconds: list[float | None]
    peaks: list[float | None]


def reference_of(subject: Subject, stream: Served) -> dict[str, Any]:
    """Return the arguments of `Reference`."""
    f1 = [micro_f1(subject, run) for run in stream.runs]
    return {"f1": f1, "seconds": stream.seconds, "peaks": stream.peaks}


def served(trials: Trials, requests: Sequence[Tensor | int]) -> Served:
    """Serve a stream in a process of its own.

    Args:
        trials: The cell, with any method.
        requests: The ids of each request; or a number: so many nodes are chosen by `most_confident`.
    """
    return _read(trials.apart(_serve, list(requests)))


def served_each(subject: Subject, plans: Mapping[str, Plan], shard_requests: int) -> dict[str, Served | str]:
    """Serve several streams after one training, each in a copy of its process.

    Where the process cannot be copied, each stream has a training of its own.

    Args:
        subject: The cell.
        plans: The requests of each stream, as for `served`.
        shard_requests: The number of requests of one more stream, to one shard; where there are shards.

    Returns:
        What came of each stream, or why it fails.
    """
    together = attempted(lambda: Trials(subject).apart(_serve_each, dict(plans), shard_requests))
    if isinstance(together, str):
        return dict.fromkeys(plans, together)
    if together is not None:
        return {name: attempted(partial(_read_answer, answer)) for name, answer in together.items()}
    streams = {name: attempted(partial(served, Trials(subject), plan)) for name, plan in plans.items()}
    first = streams[RANDOM]
    partition = None if isinstance(first, str) else first.kept.get("partition")
    if partition is not None:
        plan = parts(one_shard(subject, partition), shard_requests)
        streams[ONE_SHARD] = attempted(lambda: served(Trials(subject), plan))
    return streams


def all_at_once(subject: Subject, streams: Mapping[str, Served]) -> dict[str, list[Run | str]]:
    """Forget all that streams asked for up to each of their requests in one request, after a training of its own.

    Copies of one process, as in `served_each`, follow on one training, which is not that of the streams.

    Returns:
        What is deployed after each, by the name of the stream, or why it fails.
    """
    wanted = {name: list(stream.requests) for name, stream in streams.items()}
    if not wanted:
        return {}
    together = attempted(lambda: Trials(subject).apart(_forget_each, wanted))
    if together is None:
        return {
            name: [attempted(until(subject, ids[:count]).apart_unlearned) for count in range(1, len(ids) + 1)]
            for name, ids in wanted.items()
        }
    if isinstance(together, str):
        return {name: [together] * len(ids) for name, ids in wanted.items()}
    answers = iter(together)
    return {
        name: [attempted(lambda: Run.from_plain(value_of(next(answers)))) for _ in ids] for name, ids in wanted.items()
    }


def until(subject: Subject, requests: Sequence[Tensor]) -> Trials:
    """Return trials in which D is all that some requests ask for."""
    return Trials(subject, joined([Request(ids) for ids in requests]))


def micro_f1(subject: Subject, run: Run) -> float:
    """Score a run's answers for the test nodes in the view shard."""
    labels = subject.graph.y[subject.graph.positions(subject.split.test)]
    return float(MicroF1(MicroF1.Params()).score(labels, run.answers["test"]))


def _serve(trials: Trials, requests: Plan) -> dict[str, Any]:
    fitted = trials.fitted(watch=False)
    return _serve_after(trials, fitted, requests)


def _serve_each(trials: Trials, plans: Mapping[str, Plan], shard_requests: int) -> dict[str, Answer] | None:
    """Serve several streams in copies of this process; None: it cannot be copied."""
    copies = Copies()
    if copies.why_not():
        return None
    fitted = trials.fitted(watch=False)
    if copies.why_not():
        return None
    partition = fitted.method.kept().get("partition")
    if partition is not None:
        plans = {**plans, ONE_SHARD: parts(one_shard(trials.subject, partition), shard_requests)}
    answers = copies.answers(partial(_serve_after, trials, fitted, plan) for plan in plans.values())
    return dict(zip(plans, answers, strict=True))


def _forget_each(trials: Trials, wanted: Mapping[str, Sequence[Tensor]]) -> list[Answer] | None:
    """Forget the first, the first two, and so on of several lists of requests in copies of this process."""
    copies = Copies()
    if copies.why_not():
        return None
    fitted = trials.fitted()
    if copies.why_not():
        return None

    def forget(requests: Sequence[Tensor]) -> dict[str, Any]:
        # What is compared, without the rest, which takes time to pass on.
        run = until(trials.subject, requests).forgotten(fitted)
        return replace(run, before={}, after_asking={}, kept_before={}, log=Log()).plain()

    return copies.answers(partial(forget, ids[:count]) for ids in wanted.values() for count in range(1, len(ids) + 1))


def _serve_after(trials: Trials, fitted: Fitted, requests: Plan) -> dict[str, Any]:
    subject, method, meter = trials.subject, fitted.method, Meter(trials.subject.device)
    assert fitted.task is not None
    task = replace(fitted.task, listener=meter)
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
        runs.append(replace(now.finished(method, before), after_asking={}).plain())
    return {"kept": kept, "requests": chosen, "runs": runs, "phases": meter.phases, "counts": counts}


def _read_answer(answer: Answer) -> Served:
    return _read(value_of(answer))


def _read(plain: Mapping[str, Any]) -> Served:
    return Served(**{**plain, "runs": [Run.from_plain(run) for run in plain["runs"]]})
