"""The audit `membership` on methods whose forgetting is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from audit_samples import Knowing, Stubborn, toy_subject
from plugin_samples import FakePoint, plugin_of

from unlearnbench.audits.base import Finding, Score
from unlearnbench.audits.membership import membership as module
from unlearnbench.audits.membership.attack import GRAPH, NODE, POPULATION
from unlearnbench.audits.membership.membership import Membership
from unlearnbench.audits.subject import Memory, Subject
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Query, Task


class HalfLeak(Knowing):
    """Holds every other node of a request."""

    name = "half-leak"

    def unlearn(self, request: Request, retained: Task) -> None:
        self.held = torch.cat([retained.graph.ids, request.ids[::2]])


class Overdone(Knowing):
    """Is less certain of forgotten nodes than of strangers."""

    name = "overdone"
    forgotten = torch.empty(0, dtype=torch.int64)

    def unlearn(self, request: Request, retained: Task) -> None:
        self.held, self.forgotten = retained.graph.ids, request.ids

    def predict(self, query: Query) -> torch.Tensor:
        known = torch.isin(query.targets, self.forgotten)[:, None] * torch.tensor([0.0, 1.0, 0.0])
        return torch.log_softmax(super().predict(query) + known, dim=1)


class Spreading(Knowing):
    """Forgets the nodes, and is less certain of their neighbours afterwards."""

    name = "spreading"
    touched = torch.empty(0, dtype=torch.int64)

    def fit(self, task: Task) -> None:
        super().fit(task)
        self.edges = task.graph.ids[task.graph.edge_index]

    def unlearn(self, request: Request, retained: Task) -> None:
        source, target = self.edges
        touched = torch.cat([target[torch.isin(source, request.ids)], source[torch.isin(target, request.ids)]])
        self.touched = touched[~torch.isin(touched, request.ids)]
        super().unlearn(request, retained)

    def predict(self, query: Query) -> torch.Tensor:
        counts = (query.targets[:, None] == self.touched[None]).sum(dim=1, keepdim=True)
        return torch.log_softmax(super().predict(query) - counts * torch.tensor([1.0, 0.0, 0.0]), dim=1)


class Blank(Knowing):
    """Predicts no numbers after a request."""

    name = "blank"

    def unlearn(self, request: Request, retained: Task) -> None:
        super().unlearn(request, retained)
        self.noise = self.noise * torch.nan


METHODS = (Knowing, Stubborn, HalfLeak, Overdone, Spreading, Blank)
STANDING_FOR = {"retrain": "knowing", "retrain-leak[k=0.5]": "half-leak", "over-forget": "overdone"}


@cache
def memory() -> Memory:
    return Memory()


def subject_of(method: str, ratio: float = 0.2, **standing_for: str) -> Subject:
    """A cell with made-up methods in the place of Retrain and the controls: no network is trained."""
    point: Any = FakePoint("made", plugin_of(unlearners=METHODS))
    catalogue = load_catalogue(entry_points=[point])
    places = STANDING_FOR | standing_for

    def find(name: str) -> Any:
        spec = resolve(catalogue, "unlearner", places.get(name, name))
        return replace(spec, label="retrain") if name == "retrain" else spec

    subject = toy_subject("retrain", ratio=ratio)
    return replace(subject, cell=replace(subject.cell, method=find(method)), find=find, memory=memory())


@cache
def examined(method: str, **standing_for: str) -> Finding:
    return Membership(Membership.Params(shadows=64)).examine(subject_of(method, **standing_for))


def score(finding: Finding, measure: str, where: str) -> Score:
    (one,) = [one for one in finding.scores if (one.measure, one.where) == (measure, where)]
    return one


def test_a_method_that_forgets_leaks_nothing() -> None:
    finding = examined("knowing")
    assert finding.verdict == "no leak seen"
    area = score(finding, "auc", NODE)
    assert area.low < 0.5 < area.high
    assert area.controls["noop"] > 0.95
    assert area.state == "valid"
    assert abs(area.effect) < 0.15
    assert score(finding, "epsilon", NODE).value < 0.5
    assert score(finding, "epsilon", NODE).controls["noop"] > 2


def test_a_method_that_forgets_nothing_is_what_noop_is() -> None:
    finding = examined("stubborn")
    assert finding.verdict == "leaks"
    area = score(finding, "auc", NODE)
    assert area.value == area.controls["noop"] > 0.95
    assert area.effect == 1
    assert area.floor == score(examined("knowing"), "auc", NODE).value
    assert score(finding, "epsilon", NODE).value > 2
    rate = score(finding, "tpr", f"{NODE}, 1% false alarms")
    assert rate.value > 0.5 > 0.1 > rate.floor
    assert rate.low < rate.value < rate.high


def test_half_a_leak_lies_between() -> None:
    finding = examined("half-leak")
    assert finding.verdict == "leaks"
    area = score(finding, "auc", NODE)
    assert area.floor + 0.1 < area.value < area.controls["noop"] - 0.1


def test_a_method_that_overdoes_it_leaks_as_well() -> None:
    # Its population area is below one half, which a reader might take for good forgetting.
    finding = examined("overdone")
    assert finding.verdict == "leaks"
    assert score(finding, "auc", NODE).value > 0.9


def test_what_shows_in_the_neighbours_alone_is_seen_by_the_graph_aware_attacker_alone() -> None:
    finding = examined("spreading")
    assert finding.verdict == "leaks"
    alone, aware = score(finding, "auc", NODE), score(finding, "auc", GRAPH)
    assert alone.p > 0.01 > aware.p
    assert aware.value > 0.6
    assert 0 < finding.details["nodes with neighbours"] <= finding.details["nodes"]


def test_an_attack_that_misses_a_control_decides_nothing() -> None:
    # In the place of `over-forget` stands a method that forgets: no attack can detect it.
    finding = Membership(Membership.Params(shadows=16)).examine(subject_of("stubborn", **{"over-forget": "knowing"}))
    assert finding.verdict == "cannot tell"
    area = score(finding, "auc", NODE)
    assert (area.state, area.effect) == ("cannot tell", None)
    assert "over-forget is not detected" in area.note


def test_the_weak_attack_is_there_for_comparison_and_has_no_say() -> None:
    finding = examined("stubborn")
    assert POPULATION == "population (weak)"
    assert score(finding, "auc", POPULATION).value < score(finding, "auc", NODE).value
    areas = {one.where: one for one in finding.scores if one.measure == "auc"}
    weak = replace(areas[POPULATION], p=1e-9, state="valid")
    others = [replace(areas[one], p=0.5, state="valid") for one in (NODE, GRAPH)]
    assert module._verdict([weak, *others]) == "no leak seen"
    assert module._verdict([weak, *(replace(one, state="cannot tell") for one in others)]) == "cannot tell"


def test_a_small_request_says_what_could_be_seen() -> None:
    small = Membership(Membership.Params(shadows=16)).examine(subject_of("knowing", ratio=0.1))
    (note,) = small.notes
    assert "Power with 9 nodes and 16 pipelines" in note
    assert "Choose a larger request or more shadows" in note
    large = examined("knowing")
    assert large.details["detectable_area"][NODE] < small.details["detectable_area"][NODE]
    assert large.details["largest_epsilon_bound"] > small.details["largest_epsilon_bound"]
    few = score(small, "tpr", f"{NODE}, 0.1% false alarms")
    assert few.value is None
    assert "Fewer than 1000" in few.note


def test_too_few_nodes_and_predictions_that_are_no_numbers_decide_nothing() -> None:
    few = Membership().examine(subject_of("knowing", ratio=0.05))
    assert few.verdict == "cannot tell"
    assert "Only 5 nodes are forgotten, 8 are needed" in few.scores[0].note
    blank = Membership(Membership.Params(shadows=16)).examine(subject_of("blank"))
    assert blank.verdict == "cannot tell"
    assert "blank" in blank.notes[0]


def test_pipelines_of_retrain_and_controls_are_run_once_for_all_methods(monkeypatch: pytest.MonkeyPatch) -> None:
    examined("stubborn")
    fitted = []
    original = Subject.fit
    monkeypatch.setattr(Subject, "fit", lambda self, spec, task: fitted.append(spec.name) or original(self, spec, task))
    Membership(Membership.Params(shadows=64)).examine(subject_of("stubborn"))
    assert fitted == []


def test_the_same_audit_twice_finds_the_same() -> None:
    audit = Membership(Membership.Params(shadows=16))
    subjects = (replace(subject_of("half-leak"), memory=Memory()) for _ in range(2))
    one, other = (audit.examine(subject) for subject in subjects)
    assert one.scores == other.scores


def test_numbers_of_shadows_and_effort() -> None:
    with pytest.raises(ValueError, match="18 is not divisible by 4"):
        Membership.Params(shadows=18)
    audit, subject = Membership(), toy_subject("scrub")
    effort = {"scrub": 64, "retrain": 64, "retrain-leak[k=0.5]": 64, "over-forget": 64}
    assert audit.effort(subject.cell.method) == effort


@pytest.mark.long
@pytest.mark.slow
def test_real_controls_are_ranked_rightly() -> None:
    finding = Membership(Membership.Params(shadows=32)).examine(toy_subject("retrain", epochs=100, ratio=0.2))
    assert finding.details["gate"][NODE]["valid"]
    assert finding.verdict == "no leak seen"
    area = score(finding, "auc", NODE)
    assert area.controls["noop"] > area.high
