"""The audit `streams`: whether forgetting holds over many requests, however they are chosen."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch
from pydantic import Field

from unlearnbench.audits.base import Audit, Finding, Score
from unlearnbench.audits.exactness import own_process
from unlearnbench.audits.exactness.bits import unequal
from unlearnbench.audits.exactness.run import Run, run_differences
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.audits.exactness.verdicts import CANNOT_TELL, REFUTED, claims_exactness
from unlearnbench.audits.streams import rules
from unlearnbench.audits.streams.fresh import ALPHA, adaptive_gap
from unlearnbench.audits.streams.rules import ADAPTIVE, GROWING, ONE_SHARD, RANDOM
from unlearnbench.audits.streams.serving import (
    Plan,
    Reference,
    Served,
    all_at_once,
    micro_f1,
    reference_of,
    served,
    served_each,
    until,
)
from unlearnbench.audits.subject import Subject
from unlearnbench.component import ComponentParams, Spec
from unlearnbench.running.lookup import REFERENCE

SAME, DIFFERS = "as one request", "differs from one request"
_SCENARIOS = 4


@dataclass(frozen=True, eq=False)
class _Stream:
    """A stream of a method, what one request of everything so far gives after each, and Retrain's stream.

    `differs` has for each request how the stream differs from one request; empty: not at all.
    """

    mine: Served
    ones: Sequence[Run | str]
    differs: Sequence[str]
    retrain: Reference

    @property
    def exact(self) -> int:
        """The number of requests after which it was still the same as with one request."""
        return next((number for number, text in enumerate(self.differs) if text), len(self.differs))


class Streams(Audit):
    """Serves many requests one after the other, and compares with one request of all of them."""

    name = "streams"
    version = 1
    summary = "Does forgetting hold over many requests, and what do they cost?"
    reference = "Gupta et al., Adaptive Machine Unlearning, NeurIPS 2021; the comparison bit for bit ours"
    question: ClassVar[str] = "Is forgetting still what is claimed after many requests, however they are chosen?"
    order: ClassVar[int] = 15

    class Params(ComponentParams):
        """Length of the streams."""

        requests: int = Field(default=5, ge=3, le=100, description="Requests of each stream.")
        share: float = Field(default=0.2, gt=0, lt=1, description="Share of all nodes that `growing` forgets.")
        runs: int = Field(default=8, ge=2, description="Adaptive streams, and fresh trainings to compare them with.")

    params: Params

    def effort(self, method: Spec) -> Mapping[str, float]:
        """Count the requests of each stream, and one of everything after each, after two trainings; Retrain's too."""
        stream = (self.params.requests + 1) / 2
        mine = _SCENARIOS * self.params.requests + 1 + self.params.runs * (stream + 0.5)
        return {REFERENCE: _SCENARIOS * stream} | {method.label: mine}

    def ready(self) -> None:
        """Start the process that runs are forked from."""
        own_process.start()

    def examine(self, subject: Subject) -> Finding:
        """Serve the streams of each scenario, and compare them."""
        requests = self.params.requests
        drawn = rules.parts(rules.shuffled(subject, subject.request.ids, RANDOM), requests)
        if len(drawn) < requests:
            note = f"{len(subject.request.ids)} nodes are not {requests} requests: choose a larger request."
            return Finding(CANNOT_TELL, (Score("f1", RANDOM, None, note=note),), notes=(note,))
        grown = rules.parts(rules.growing(subject, self.params.share), requests)
        plans: dict[str, Plan] = {RANDOM: drawn, ADAPTIVE: [len(ids) for ids in drawn], GROWING: grown}
        streams = _compared(subject, served_each(subject, plans, requests))
        notes = [] if ONE_SHARD in streams else [f"{ONE_SHARD}: n/a, there are no shards."]
        verdict, holds, why = _verdict(subject, streams)
        complete = {name: stream for name, stream in streams.items() if isinstance(stream, _Stream)}
        scenarios = {name: _details(subject, stream) for name, stream in complete.items()}
        scores = [score for name, stream in complete.items() for score in _scores(subject, name, stream)]
        if ADAPTIVE in complete:
            gap = adaptive_gap(subject, [len(ids) for ids in drawn], self.params.runs)
            scores.append(gap)
            if verdict == SAME and gap.p is not None and gap.p < ALPHA:
                notes.append(f"{ADAPTIVE}: as one request, but not as a fresh training without these nodes.")
        return Finding(
            verdict,
            tuple(scores),
            {"claim_holds": holds, "scenarios": scenarios},
            (*why, *notes),
            {f"streams/{name.replace(' ', '_')}": torch.cat(list(stream.mine.requests)).cpu().numpy()
             for name, stream in complete.items()},
            {name: _measured(stream) for name, stream in complete.items()},
        )  # fmt: skip


def _compared(subject: Subject, streams: Mapping[str, Served | str]) -> dict[str, _Stream | str]:
    """Compare streams with all of each so far at once after each request; a text says why a stream fails."""
    at_once = all_at_once(subject, {name: mine for name, mine in streams.items() if isinstance(mine, Served)})
    compared: dict[str, _Stream | str] = {}
    for name, mine in streams.items():
        if isinstance(mine, str):
            compared[name] = mine
            continue
        differs = []
        for run, one in zip(mine.runs, at_once[name], strict=True):
            found = [f"one request {one}"] if isinstance(one, str) else run_differences(run, one)
            differs.append(found[0] if found else "")
        compared[name] = _Stream(mine, at_once[name], differs, _retrained(subject, mine))
    return compared


def _retrained(subject: Subject, mine: Served) -> Reference:
    """Serve the same requests by Retrain, which trains anew each time; streams of several methods share it."""

    def make() -> dict[str, Any]:
        if subject.is_of_reference:
            return reference_of(subject, mine)
        reference = replace(subject, cell=replace(subject.cell, method=subject.reference))
        return reference_of(subject, served(Trials(reference), mine.requests))

    key = ["streams", [ids.tolist() for ids in mine.requests]]
    return Reference(**subject.remembered_plain(key, make))


def _verdict(subject: Subject, streams: Mapping[str, _Stream | str]) -> tuple[str, bool | None, list[str]]:
    """Return the verdict, False if a claim of exactness is refuted, and by what."""
    claims = claims_exactness(subject.cell.method.build())
    faults = {name: fault for name, stream in streams.items() if (fault := _fault(stream, claims))}
    if not faults:
        return SAME, None, []
    if not _repeats(subject, streams):
        return CANNOT_TELL, None, ["Two runs with one seed differ: nothing can be said of its exactness."]
    notes = [f"{name}: {where}: {what}." for name, (where, what) in faults.items()]
    if not claims:
        return DIFFERS, None, notes
    name, (where, _) = next(iter(faults.items()))
    return f"{REFUTED} ({name}, {where})", False, notes


def _fault(stream: _Stream | str, claims: bool) -> tuple[str, str] | None:
    """Return from which request on a stream is not as one request, and how it differs; None: it is."""
    if isinstance(stream, str):
        return "the stream", stream
    for number, (run, differs) in enumerate(zip(stream.mine.runs, stream.differs, strict=True), start=1):
        if differs or (claims and not unequal(run.before, run.state)):
            return f"from request {number} on", differs or "it changed no parameter"
    return None


def _repeats(subject: Subject, streams: Mapping[str, _Stream | str]) -> bool:
    """Whether one request, made once more, has equal bits: if not, differences say nothing."""
    known = [one for one in streams.values() if isinstance(one, _Stream) and isinstance(one.ones[-1], Run)]
    if not known:
        return True
    one, last = known[0], known[0].ones[-1]
    assert isinstance(last, Run)
    return not run_differences(last, until(subject, one.mine.requests).apart_unlearned())


def _scores(subject: Subject, name: str, stream: _Stream) -> list[Score]:
    last, one = stream.mine.runs[-1], stream.ones[-1]
    at_once = {} if isinstance(one, str) else {"one request": micro_f1(subject, one)}
    requests = float(len(stream.differs))
    scores = [
        Score("f1", name, micro_f1(subject, last), floor=stream.retrain.f1[-1], controls=at_once),
        Score("requests as one", name, float(stream.exact), floor=requests),
    ]
    if not isinstance(one, str):
        scores.append(Score("distance to one request", name, total_variation(last, one)))
    return scores


def total_variation(one: Run, other: Run) -> float:
    """Return the total variation distance of two runs' predictions, averaged over the test nodes."""
    difference = one.answers["test"].double().exp() - other.answers["test"].double().exp()
    return float(difference.abs().sum(dim=1).mean()) / 2


def _details(subject: Subject, stream: _Stream) -> dict[str, Any]:
    partitions = [run.kept.get("partition") for run in stream.mine.runs]
    shards = 0 if stream.mine.kept.get("partition") is None else int(stream.mine.kept["partition"][:, 1].max()) + 1
    sizes = [None if one is None else torch.bincount(one[:, 1], minlength=shards).tolist() for one in partitions]
    return {
        "requests": [len(ids) for ids in stream.mine.requests],
        "differs": list(stream.differs),
        "f1": [micro_f1(subject, run) for run in stream.mine.runs],
        "one_request_f1": [None if isinstance(one, str) else micro_f1(subject, one) for one in stream.ones],
        "retrain_f1": stream.retrain.f1,
        "sizes": sizes,
        "shards_hit": [counts.get("shards_hit") for counts in stream.mine.counts],
        "shards_retired": [counts.get("shards_retired", 0) for counts in stream.mine.counts],
    }


def _measured(stream: _Stream) -> dict[str, Any]:
    return {
        "seconds": stream.mine.seconds,
        "retrain_seconds": stream.retrain.seconds,
        "peak_rss_mib": stream.mine.peaks,
        "retrain_peak_rss_mib": stream.retrain.peaks,
    }
