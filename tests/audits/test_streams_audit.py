"""The audit `streams` names the request from which on a claim does not hold, and leaves right methods alone."""

from __future__ import annotations

import contextlib
from dataclasses import replace
from importlib.metadata import entry_points
from typing import Any

import numpy as np
import pytest
import remembering_methods as remembering
import torch
import wrong_methods as wrong
from audit_samples import Knowing, runs_here
from audit_samples import toy_subject as made_up_subject
from cell_samples import fake
from plugin_samples import FakePoint, plugin_of

from unlearnbench.audits.base import Finding, Score
from unlearnbench.audits.streams.fresh import adaptive_gap
from unlearnbench.audits.streams.streams import Streams
from unlearnbench.protocol import Request
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.task import Task
from unlearnbench.testing.audits import toy_subject

pytestmark = pytest.mark.slow


class Erratic(wrong.Linear):
    """Draws from a generator that no seed sets."""

    name = "erratic"

    def unlearn(self, request, retained):  # type: ignore[no-untyped-def]
        super().unlearn(request, retained)
        with torch.no_grad():
            self._weight += torch.rand(1, generator=torch.Generator().manual_seed(torch.seed()))


@pytest.fixture(scope="module")
def catalogue() -> Catalogue:
    methods = [wrong.NoopThatClaims, remembering.PostponesTheThird, wrong.Linear, Erratic, remembering.TrainsByChance]
    plugin: Any = FakePoint("planted", plugin_of(unlearners=methods))
    return load_catalogue(entry_points=[*entry_points(group="unlearnbench"), plugin])


def audited(method: str, catalogue: Catalogue, forget: float = 0.1, requests: int = 3, apart: bool = False) -> Finding:
    with contextlib.nullcontext() if apart else runs_here():
        subject = toy_subject(method, forget=forget, epochs=2, catalogue=catalogue)
        return Streams(Streams.Params(requests=requests, runs=2)).examine(subject)


@pytest.mark.parametrize("method", ["retrain", "sisa[num_shards=3]", "tally"])
def test_right_methods_are_after_each_request_as_with_one_request_of_all(method: str, catalogue: Catalogue) -> None:
    finding = audited(method, catalogue)
    assert (finding.verdict, finding.details["claim_holds"]) == ("as one request", None)
    scenarios = finding.details["scenarios"]
    assert set(scenarios) - {"one shard"} == {"random", "adaptive", "growing"}
    assert ("one shard" in scenarios) is (method.startswith("sisa"))
    for name, values in scenarios.items():
        assert values["differs"] == ["", "", ""]
        assert values["f1"] == values["one_request_f1"]
        assert len(finding.measured[name]["seconds"]) == len(finding.measured[name]["retrain_seconds"]) == 3
        assert min(finding.measured[name]["seconds"]) > 0
        assert len(values["retrain_f1"]) == 3
    if method == "retrain":
        assert all(values["f1"] == values["retrain_f1"] for values in scenarios.values())


def test_a_method_that_loses_exactness_at_the_third_request_is_named(catalogue: Catalogue) -> None:
    finding = audited("postpones-the-third", catalogue, requests=4)
    assert finding.verdict == "refuted (random, from request 3 on)"
    assert finding.details["claim_holds"] is False
    assert finding.notes[0].startswith("random: from request 3 on: state differs in members/000")
    (score,) = [one for one in finding.scores if (one.measure, one.where) == ("requests as one", "random")]
    assert (score.value, score.floor) == (2.0, 4.0)
    assert [bool(text) for text in finding.details["scenarios"]["growing"]["differs"]] == [False, False, True, False]


def test_a_method_that_forgets_nothing_is_as_one_request_and_refuted_only_if_it_claims(catalogue: Catalogue) -> None:
    assert audited("noop", catalogue).verdict == "as one request"
    finding = audited("noop-that-claims", catalogue)
    assert finding.verdict == "refuted (random, from request 1 on)"
    assert finding.notes[0] == "random: from request 1 on: it changed no parameter."


def test_a_method_that_is_not_exact_is_compared_and_not_refuted(catalogue: Catalogue) -> None:
    finding = audited("gradient-ascent[steps=1]", catalogue)
    assert (finding.verdict, finding.details["claim_holds"]) == ("differs from one request", None)
    distances = [one.value for one in finding.scores if one.measure == "distance to one request"]
    assert 0 < min(distances) <= max(distances) <= 1


def test_a_method_whose_runs_differ_is_not_judged(catalogue: Catalogue) -> None:
    finding = audited("erratic", catalogue)
    assert (finding.verdict, finding.details["claim_holds"]) == ("cannot tell", None)


@pytest.mark.parametrize("method", ["sisa[num_shards=3]", "postpones-the-third"])
def test_copies_of_one_training_find_what_trainings_of_their_own_find(method: str, catalogue: Catalogue) -> None:
    together, alone = (audited(method, catalogue, requests=4, apart=apart) for apart in (True, False))
    assert (together.verdict, together.scores, together.notes) == (alone.verdict, alone.scores, alone.notes)
    assert together.details == alone.details
    assert together.arrays.keys() == alone.arrays.keys()
    assert all(np.array_equal(values, alone.arrays[name]) for name, values in together.arrays.items())
    for name, stream in together.measured.items():
        assert min(stream["seconds"] + stream["peak_rss_mib"] + stream["retrain_seconds"]) > 0, name


def test_a_stream_is_not_compared_with_a_copy_of_its_own_training(catalogue: Catalogue) -> None:
    finding = audited("trains-by-chance", catalogue, apart=True)
    assert (finding.verdict, finding.details["claim_holds"]) == ("cannot tell", None)


def test_a_shard_that_is_emptied_has_its_member_retired(catalogue: Catalogue) -> None:
    finding = audited("sisa[num_shards=4]", catalogue, forget=0.3)
    emptied = finding.details["scenarios"]["one shard"]
    assert (emptied["shards_hit"], emptied["shards_retired"]) == ([1, 1, 1], [0, 0, 1])
    assert [min(sizes) for sizes in emptied["sizes"]][-1] == 0
    assert finding.verdict == "as one request"


def test_too_small_a_request_is_not_judged(catalogue: Catalogue) -> None:
    finding = audited("retrain", catalogue, forget=0.02)
    assert finding.verdict == "cannot tell"
    assert finding.notes == ("1 nodes are not 3 requests: choose a larger request.",)


class Steady(Knowing):
    """Draws no random number."""

    name = "steady"

    def fit(self, task: Task) -> None:
        self.held, self.noise = task.graph.ids.clone(), torch.zeros(3)


class Holds(Steady):
    """Forgets nothing."""

    name = "holds"

    def unlearn(self, request: Request, retained: Task) -> None:
        pass


def test_the_gap_to_fresh_trainings_is_that_of_what_is_still_held() -> None:
    subject = made_up_subject("knowing", ratio=0.1)

    def gap(method: type[Knowing]) -> Score:
        return adaptive_gap(replace(subject, cell=replace(subject.cell, method=fake(method))), [2, 2], runs=4)

    assert (gap(Steady).value, gap(Steady).p) == (0.0, 1.0)
    held = gap(Holds)
    assert held.p == 0.0
    assert held.value is not None
    assert held.value != 0.0
    random = gap(Knowing)
    assert random.low is not None
    assert random.high is not None
    assert random.low < 0 < random.high
