"""The audit `relearning` on methods whose forgetting is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from importlib import metadata
from typing import Any

import pytest
import torch
from audit_samples import toy_subject
from plugin_samples import FakePoint, plugin_of

from unlearnbench import Claim, PostHoc, Request, Task, train_networks
from unlearnbench.audits.base import Finding, Score
from unlearnbench.audits.relearning.relearning import AREA, MEASURES, RATIO, STEPS, Relearning
from unlearnbench.audits.subject import Memory, Subject
from unlearnbench.gnn import Networks
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve

RUNS, STEPS_TAKEN = 6, 25


class Traced(PostHoc):
    """Changes every parameter a little and claims to have forgotten."""

    name = "traced"

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        generator = retained.generator(self.name)
        with torch.no_grad():
            for parameter, entries in zip(network.parameters(), network.entries(), strict=True):
                parameter += 0.02 * entries * torch.randn(parameter.shape, generator=generator)
        return network


class Reseeded(PostHoc):
    """Right, but with other random numbers than Retrain."""

    name = "reseeded"
    claim = Claim.EXACT

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        return train_networks(retained, [retained.graph], [0], role=self.name)


@cache
def memory() -> Memory:
    return Memory()


def subject_of(method: str, **settings: Any) -> Subject:
    point: Any = FakePoint("made", plugin_of(unlearners=[Traced, Reseeded]))
    catalogue = load_catalogue(entry_points=[*metadata.entry_points(group="unlearnbench"), point])
    subject = toy_subject("retrain", **{"epochs": 60, "ratio": 0.2, **settings})
    cell = replace(subject.cell, method=resolve(catalogue, "unlearner", method))
    return replace(subject, cell=cell, memory=memory())


@cache
def examined(method: str) -> Finding:
    return Relearning(Relearning.Params(runs=RUNS, steps=STEPS_TAKEN, lr=0.002)).examine(subject_of(method))


def score(finding: Finding, measure: str, where: str) -> Score:
    (one,) = [one for one in finding.scores if (one.measure, one.where) == (measure, where)]
    return one


@pytest.mark.slow
def test_controls_are_ranked_rightly_and_retrain_is_as_retrained() -> None:
    finding = examined("retrain")
    assert finding.verdict == "as retrained"
    for measure in MEASURES:
        assert finding.details["gate"][measure]["valid"], finding.details["gate"][measure]["reason"]
        one, relative = score(finding, measure, "forgotten"), score(finding, RATIO, measure)
        assert (one.p, one.effect, one.state) == (1, 0, "valid")
        assert (relative.value, relative.low, relative.high) == (1, 1, 1)
        # A model of another seed is slower or faster by coincidence alone.
        assert finding.details["other_seed_p"][measure] > 0.01
        order = ("noop", "retrain-leak[k=0.75]", "retrain-leak[k=0.25]", "retrain")
        means = [one.controls[name] for name in order]
        assert means == sorted(means)
    assert score(finding, STEPS, "forgotten").controls["noop"] == 0
    assert finding.arrays["relearning/unlearned/loss"].shape == (RUNS, STEPS_TAKEN + 1)
    assert finding.arrays["relearning/noop/accuracy"].shape == (RUNS, STEPS_TAKEN + 1)


@pytest.mark.slow
def test_a_slightly_changed_original_is_seen() -> None:
    finding = examined("traced")
    assert finding.verdict == "faster"
    one, relative = score(finding, STEPS, "forgotten"), score(finding, RATIO, STEPS)
    assert one.effect > 0.5
    assert relative.high < 1
    assert score(finding, RATIO, AREA).value < 1


@pytest.mark.slow
def test_retraining_with_other_random_numbers_is_not_flagged() -> None:
    finding = examined("reseeded")
    assert finding.verdict == "as retrained"
    relative = score(finding, RATIO, AREA)
    assert relative.low < 1 < relative.high
    (note,) = finding.notes
    assert "a relearning ratio that differs from 1 by" in note


def test_a_method_without_networks_is_unfit_before_any_control_is_trained(monkeypatch: pytest.MonkeyPatch) -> None:
    fitted = []
    original = Subject.fit
    monkeypatch.setattr(Subject, "fit", lambda self, spec, task: fitted.append(spec.name) or original(self, spec, task))
    finding = Relearning().examine(subject_of("tally"))
    assert finding.verdict == "unfit"
    assert "There is no network to train" in finding.notes[0] == finding.scores[0].note
    assert fitted == ["tally"]


def test_where_the_controls_are_not_told_apart_nothing_is_decided() -> None:
    # Networks that were hardly trained know nothing about any node.
    finding = Relearning(Relearning.Params(runs=4, steps=2)).examine(subject_of("retrain", epochs=1))
    assert finding.verdict == "cannot tell"
    assert {one.state for one in finding.scores} == {"cannot tell"}
    assert all(one.effect is None and "noop is not faster than Retrain" in one.note for one in finding.scores)


def test_losses_that_are_no_numbers_decide_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(self: Traced, network: Networks, *others: Any) -> Networks:
        for parameter in network.parameters():
            parameter.data.fill_(torch.nan)
        return network

    monkeypatch.setattr(Traced, "update", fill)
    subject = subject_of("traced", epochs=1)
    finding = Relearning(Relearning.Params(runs=4, steps=2)).examine(subject)
    assert finding.verdict == "cannot tell"
    assert finding.notes == ("Losses on the forgotten nodes are not numbers.",)


def test_what_is_deployed_beside_networks_is_named() -> None:
    finding = Relearning(Relearning.Params(runs=4, steps=2)).examine(subject_of("gnndelete[epochs=1]", epochs=1))
    assert "without what else is deployed: operators." in finding.notes[-1]
    assert torch.equal(*(torch.from_numpy(finding.arrays[f"relearning/{side}/loss"]) for side in ("unlearned", "noop")))


def test_effort_counts_the_controls() -> None:
    effort = Relearning().effort(subject_of("scrub").cell.method)
    assert set(effort) == {
        "scrub", "retrain", "retrain-leak[k=0.25]", "retrain-leak[k=0.5]", "retrain-leak[k=0.75]", "over-forget"
    }  # fmt: skip
    assert effort["scrub"] == 30
