"""The audit `controls`: a measure passes only if it ranks methods rightly whose place is known."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from audit_samples import toy_subject

from unlearnbench.audits.base import Finding
from unlearnbench.audits.distance import controls as module
from unlearnbench.audits.distance.control_scores import (
    MEASURES,
    ControlScores,
    energy_of_twos,
    parts_of_energy,
    score_controls,
)
from unlearnbench.audits.distance.controls import OTHERS, Controls, gate, overfit
from unlearnbench.audits.gating import LEAKS
from unlearnbench.statistics import energy_statistic
from unlearnbench.task import View

NAMES = ("retrain", "noop", *OTHERS, *LEAKS)


def marks(noop_p: float | None = 0.01, **means: float) -> ControlScores:
    """Scores of five blocks: Retrain 0, what leaked k its k, others 2, unless named (`_` for `-`)."""
    usual = {"retrain": 0.0, "noop": 1.0, **dict.fromkeys(OTHERS, 2.0)}
    usual |= {leak: at / 4 for at, leak in enumerate(LEAKS)}
    usual |= {name.replace("_", "-"): mean for name, mean in means.items()}
    assert set(usual) == set(NAMES)
    scores = {name: np.linspace(-0.01, 0.01, 5) + mean for name, mean in usual.items()}
    return ControlScores(scores, scores, noop_p)


def flags(here: ControlScores, overfitted: ControlScores | None = None) -> dict[str, bool]:
    found = gate(here, overfitted or marks())
    return {name: found[name] for name in ("retrain_best", "capable", "powered_here", "follows_k", "valid")}


GOOD = {"retrain_best": True, "capable": True, "powered_here": True, "follows_k": True, "valid": True}


def test_a_measure_that_ranks_all_rightly_is_valid() -> None:
    found = gate(marks(), marks())
    assert flags(marks()) == GOOD
    assert found["reason"] == ""
    assert found["page_p"] < 0.01
    assert found["scores"]["noop"] == pytest.approx(1)


@pytest.mark.parametrize("rival", ["noop", *OTHERS, "retrain-leak[k=0.5]"])
def test_retrain_must_have_the_best_score(rival: str) -> None:
    found = flags(marks(**{rival: -1.0}))
    assert not found["retrain_best"]
    assert not found["valid"]
    assert "a control has a better score than Retrain" in gate(marks(**{rival: -1.0}), marks())["reason"]


def test_an_equal_score_is_not_worse() -> None:
    assert not flags(marks(noop_full=0.0))["retrain_best"]


def test_noop_must_be_found_out_here_and_if_overfitted() -> None:
    assert flags(marks(), marks(noop_p=0.2)) == {**GOOD, "capable": False, "valid": False}
    assert flags(marks(noop_p=0.2)) == {**GOOD, "powered_here": False, "valid": False}
    assert flags(marks(noop_p=None)) == {**GOOD, "powered_here": False, "valid": False}


def test_noop_that_differs_by_looking_better_is_not_found_out() -> None:
    assert not flags(marks(), marks(noop=-1.0))["capable"]


def test_the_score_must_follow_what_leaked() -> None:
    flat = marks(**dict.fromkeys(LEAKS, 0.5))
    assert flags(flat) == {**GOOD, "follows_k": False, "valid": False}
    falling = marks(**{leak: 1 - at / 4 for at, leak in enumerate(LEAKS)})
    assert not flags(falling)["follows_k"]


# Marks


def test_two_runs_at_a_time_give_the_energy_statistic() -> None:
    rng = np.random.default_rng(0)
    points = rng.normal(size=(7, 3))
    matrix = np.linalg.norm(points[:, None] - points[None], axis=-1)
    found = energy_of_twos(matrix, 4)
    for value, rows in zip(found, ((0, 1), (2, 3)), strict=True):
        at = [*rows, 4, 5, 6]
        alone = energy_statistic(matrix[np.ix_(at, at)], [0, 0, 1, 1, 1])
        assert value == pytest.approx(alone.statistic)


def test_the_parts_of_runs_have_the_energy_statistic_as_their_mean() -> None:
    points = np.random.default_rng(2).normal(size=(7, 3))
    matrix = np.linalg.norm(points[:, None] - points[None], axis=-1)
    whole = energy_statistic(matrix, [0, 0, 0, 0, 1, 1, 1])
    assert parts_of_energy(matrix, 4).mean() == pytest.approx(whole.statistic)


def test_of_an_odd_number_the_last_run_is_left_out() -> None:
    rng = np.random.default_rng(1)
    points = rng.normal(size=(8, 2))
    matrix = np.linalg.norm(points[:, None] - points[None], axis=-1)
    kept = [0, 1, 2, 3, 5, 6, 7]
    assert np.allclose(energy_of_twos(matrix, 5), energy_of_twos(matrix[np.ix_(kept, kept)], 4))


@cache
def marked() -> dict[str, ControlScores]:
    return score_controls(toy_subject("retrain"), ["retrain", "noop", "noop-full"], 4, 199, View.SHARD, "here")


def test_the_posterior_shift_of_doing_nothing_is_one_half_exactly() -> None:
    found = marked()["posterior-shift"]
    assert found.areas["noop-full"].tolist() == [0.5] * 4
    assert found.scores["noop-full"].tolist() == [0.0] * 4
    assert found.scores["retrain"].mean() > 0
    assert found.scores["retrain"] == pytest.approx(np.abs(found.areas["retrain"] - 0.5))


def test_the_loss_area_is_held_against_the_mean_of_retrains() -> None:
    found = marked()["loss-auc"]
    for name in ("retrain", "noop"):
        assert found.scores[name] == pytest.approx(np.abs(found.areas[name] - found.areas["retrain"].mean()))


@pytest.mark.slow
def test_an_area_is_stored_beside_retrains_and_their_difference() -> None:
    judged = examined().details["loss-auc"]
    for name, area in judged["areas"].items():
        read = judged["membership"][name]
        assert (read["area"], read["retrain"]) == (area, judged["areas"]["retrain"])
        assert read["difference"] == area - judged["areas"]["retrain"]
    assert judged["membership"]["retrain"]["difference"] == 0


def test_distances_have_a_block_for_every_two_runs_and_no_area() -> None:
    found = marked()["js"]
    assert [len(scores) for scores in found.scores.values()] == [4, 4, 4]
    assert [len(values) for values in found.blocks.values()] == [2, 2, 2]
    assert found.areas == {}


# The audit


@cache
def examined() -> Finding:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "OVERFITTED_EPOCHS", 4)
        return Controls(Controls.Params(runs=4, permutations=199)).examine(toy_subject("retrain"))


@pytest.mark.slow
def test_the_gate_says_of_the_posterior_shift_that_it_cannot_tell() -> None:
    finding = examined()
    judged = finding.details["posterior-shift"]
    assert judged["areas"]["noop-full"] == 0.5
    assert judged["scores"]["noop-full"] == 0 < judged["scores"]["retrain"]
    assert not judged["retrain_best"]
    assert not judged["valid"]
    (score,) = [one for one in finding.scores if one.measure == "posterior-shift"]
    assert score.state == "cannot tell"
    assert score.controls["noop-full"] == 0
    assert "posterior-shift" in finding.verdict.partition("cannot tell: ")[2]


def test_every_measure_is_judged_and_every_control_marked() -> None:
    finding = examined()
    assert tuple(finding.details) == MEASURES == tuple(score.measure for score in finding.scores)
    for judged in finding.details.values():
        assert set(judged["scores"]) == set(NAMES)
        assert judged["valid"] == all(judged[name] for name in ("retrain_best", "capable", "powered_here", "follows_k"))


def test_a_leak_of_nothing_is_retrain_and_of_all_is_noop() -> None:
    for judged in examined().details.values():
        assert judged["scores"]["retrain-leak[k=0]"] == judged["scores"]["retrain"]
        assert judged["scores"]["retrain-leak[k=1]"] == pytest.approx(judged["scores"]["noop"], abs=1e-6)


def test_it_is_asked_of_retrain_alone() -> None:
    subject = toy_subject("retrain")
    assert Controls().unfit(subject.find("retrain")) == ""
    assert "Retrain alone" in Controls().unfit(subject.find("noop"))


def test_effort_names_methods_that_are_found() -> None:
    subject = toy_subject("retrain")
    effort = Controls().effort(subject.find("retrain"))
    assert len({str(subject.find(name).canonical()) for name in effort}) == len(effort)
    assert set(effort) == set(NAMES)


def test_the_overfitted_setting_remembers() -> None:
    subject = overfit(toy_subject("retrain"))
    cell = subject.cell
    assert (cell.training.epochs, cell.training.weight_decay, cell.model.params.dropout) == (200, 0, 0)
    assert cell.model.params.hidden == 16
    assert subject.place() != toy_subject("retrain").place()


def test_a_model_without_dropout_is_said_to_have_none() -> None:
    subject = toy_subject("retrain")
    bare = replace(subject.cell.model, params=subject.cell.method.params, label="bare")
    assert module._notes(subject) == ()
    assert "bare has no parameter" in module._notes(replace(subject, cell=replace(subject.cell, model=bare)))[0]
