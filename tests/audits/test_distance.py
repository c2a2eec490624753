"""The audit `distance` on methods whose forgetting is known."""

from __future__ import annotations

from dataclasses import asdict, replace
from functools import cache

import numpy as np
import pytest
import torch
from audit_samples import toy_subject

from unlearnbench.audits.base import Finding
from unlearnbench.audits.distance.distance import CANNOT_TELL, PRIMARY, VALID, Comparison, Distance, verdict
from unlearnbench.audits.distance.measures import divergence
from unlearnbench.audits.distance.runs import groups_of, retrained_run, unlearned_run
from unlearnbench.audits.subject import Subject
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.statistics import Energy, Permutation
from unlearnbench.task import View
from unlearnbench.unlearning import Unlearner


def audit(runs: int = 8) -> Distance:
    return Distance(Distance.Params(runs=runs, permutations=9999))


@cache
def examined(method: str) -> Finding:
    return audit().examine(toy_subject(method))


def rows_of(finding: Finding) -> dict[tuple[str, str, str], dict[str, object]]:
    """Return each score with what the details add to it, by measure, group and floor."""
    rows = {}
    for at, one in enumerate(finding.scores):
        group, floor = one.where.rsplit(", ", 1)
        tests = {name: values[at] for name, values in finding.details["tests"].items()}
        rows[one.measure, group, floor] = asdict(one) | tests
    return rows


@pytest.mark.slow
def test_a_method_that_forgets_is_as_retrained_and_one_that_does_not_differs() -> None:
    right, wrong = (examined(name) for name in ("knowing", "stubborn"))
    assert (right.verdict, wrong.verdict) == ("as retrained", "differs")
    good, bad = (rows_of(finding)[PRIMARY] for finding in (right, wrong))
    assert good["state"] == bad["state"] == "valid"
    assert bad["value"] == bad["controls"]["noop"]
    assert bad["effect"] == 1
    assert abs(good["effect"]) < 0.3
    assert bad["p_holm"] < 0.01 < 0.05 < good["p"]
    assert any("js on forgotten" in note for note in wrong.notes)
    assert not any(note.startswith("Differs") for note in right.notes)


@pytest.mark.slow
def test_where_a_model_that_forgot_nothing_is_not_found_out_it_cannot_tell() -> None:
    finding = examined("blind")
    assert finding.verdict == "cannot tell"
    assert rows_of(finding)[PRIMARY]["state"] == "cannot tell"
    assert all((score.effect is None) == (score.state == "cannot tell") for score in finding.scores)
    assert any("larger request" in note for note in finding.notes)


def test_the_statistic_is_that_of_the_answers() -> None:
    subject, finding = toy_subject("stubborn"), examined("stubborn")
    first = [unlearned_run(subject, subject.cell.method, run, View.SHARD).unlearned["forgotten"] for run in range(8)]
    second = [retrained_run(subject, subject.cell.method, run, View.SHARD)["forgotten"] for run in range(8)]

    def mean(pairs: list[tuple[torch.Tensor, torch.Tensor]]) -> float:
        return float(np.mean([divergence(a.double(), b.double()[None]).item() for a, b in pairs]))

    def within(runs: list[torch.Tensor]) -> float:
        return mean([(a, b) for i, a in enumerate(runs) for j, b in enumerate(runs) if i != j])

    across = mean([(a, b) for a in first for b in second])
    row = rows_of(finding)[PRIMARY]
    assert row["across"] == pytest.approx(across)
    assert row["floor"] == pytest.approx(within(second))
    assert row["value"] == pytest.approx(2 * across - within(first) - within(second))
    assert set(row["controls"]) == {"noop"}


def test_another_pipeline_is_held_against_both_floors() -> None:
    finding = examined("knowing")
    assert finding.details["floors"] == ["own", "retrain"]
    rows = rows_of(finding)
    assert {key[2] for key in rows} == {"own", "retrain"}
    for key, row in rows.items():
        assert (row["p_holm"] is None) == (key[2] == "retrain")
        assert ("own pipeline without the request" in row["controls"]) == (key[2] == "retrain")
    score = next(one for one in finding.scores if one.where == "forgotten, retrain")
    assert set(score.controls) == {"noop", "own pipeline without the request"}


def test_retrain_has_one_floor() -> None:
    finding = examined("retrain")
    assert finding.details["floors"] == ["own"]
    assert len(finding.scores) == 3 * len(finding.details["groups"])


@pytest.mark.slow
def test_a_repeated_audit_finds_the_same() -> None:
    assert audit().examine(toy_subject("stubborn")).scores == examined("stubborn").scores


def test_few_runs_are_said_to_be_few() -> None:
    assert any("8 runs a side" in note for note in examined("stubborn").notes)


def test_effort_counts_the_reference() -> None:
    catalogue = load_catalogue()
    find = lambda name: resolve(catalogue, "unlearner", name)  # noqa: E731
    assert audit(runs=10).effort(find("retrain")) == {"retrain": 15}
    assert audit(runs=10).effort(find("sisa")) == {"sisa": 20, "retrain": 5}


# The verdict


def comparison(p: float, state: str, noop_p: float) -> Comparison:
    test = Permutation(Energy(0.1, 0.1, 0.1, 0.1), p)
    return Comparison(test, replace(test, p=noop_p), 0.0, state, p)


@pytest.mark.parametrize(
    ("p", "state", "other", "expected"),
    [
        (0.5, VALID, 0.5, "as retrained"),
        (0.009, VALID, 0.5, "differs"),
        (0.5, VALID, 0.009, "differs"),
        (0.011, VALID, 0.011, "as retrained"),
        (0.5, CANNOT_TELL, 0.5, "cannot tell"),
        (0.009, CANNOT_TELL, 0.5, "differs"),
    ],
)
def test_verdicts(p: float, state: str, other: float, expected: str) -> None:
    found = {PRIMARY: comparison(p, state, 0.01), ("js", "test", "own"): comparison(other, VALID, 0.01)}
    assert verdict(found) == expected


def test_what_is_left_by_rounding_is_zero() -> None:
    one = comparison(1.0, CANNOT_TELL, 1.0)
    tiny = replace(one.method, energy=Energy(-3.5e-18, 0.1, 0.1, 0.1))
    assert str(replace(one, method=tiny).value) == "0.0"


# Runs


def deployed(subject: Subject, method: str) -> Unlearner:
    spec = subject.find(method)
    task = subject.task()
    built = subject.fit(spec, task)
    subject.forget(built, task)
    return built


def test_untold_retrain_is_the_control_noop() -> None:
    subject = toy_subject("retrain")
    untold = unlearned_run(subject, subject.find("retrain"), 0, View.SHARD).noop
    noop = unlearned_run(subject, subject.find("noop"), 0, View.SHARD).unlearned
    assert untold.keys() == noop.keys() == groups_of(subject).keys()
    assert all(torch.equal(untold[group], noop[group]) for group in noop)


@pytest.mark.parametrize("method", ["retrain", "sisa[num_shards=4]"])
def test_run_0_is_the_model_that_is_deployed(method: str) -> None:
    subject = toy_subject(method)
    built = deployed(subject, method)
    left = subject.task().without(subject.request).graph.ids
    answers = unlearned_run(subject, subject.cell.method, 0, View.SHARD).unlearned
    for group in ("forgotten", "test"):
        assert torch.equal(answers[group], built.predict(subject.query(groups_of(subject)[group], left)))


def test_a_retained_node_is_answered_over_all_retained_nodes() -> None:
    subject = toy_subject("sisa[num_shards=4]")
    built = deployed(subject, "sisa[num_shards=4]")
    left = subject.task().without(subject.request).graph.ids
    answers = unlearned_run(subject, subject.cell.method, 0, View.SHARD).unlearned
    groups = groups_of(subject)
    retained = torch.cat([ids for group, ids in groups.items() if group not in ("forgotten", "test")])
    asked = built.predict(subject.query(retained, left, View.SHARD))
    found = torch.cat([answers[group] for group in groups if group not in ("forgotten", "test")])
    assert torch.allclose(found, asked, atol=1e-5)


def test_sides_have_independent_seeds() -> None:
    subject = toy_subject("blind")
    mine = unlearned_run(subject, subject.cell.method, 1, View.SHARD).unlearned["test"]
    assert not torch.equal(mine, retrained_run(subject, subject.cell.method, 1, View.SHARD)["test"])
    assert not torch.equal(mine, unlearned_run(subject, subject.cell.method, 2, View.SHARD).unlearned["test"])


def test_answers_are_made_once(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = toy_subject("blind")
    first = (
        unlearned_run(subject, subject.cell.method, 0, View.SHARD),
        retrained_run(subject, subject.reference, 0, View.SHARD),
    )
    monkeypatch.setattr(Subject, "fit", None)
    assert unlearned_run(subject, subject.cell.method, 0, View.SHARD).unlearned is first[0].unlearned
    assert retrained_run(subject, subject.reference, 0, View.SHARD) is first[1]
