"""B9: an area of membership has one orientation and is read against that of Retrain; smaller is not better."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import command, csv_rows, install
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score
from torch import Tensor

from unlearnbench.audits.distance import controls
from unlearnbench.audits.distance.measures import auc, loss_scores, read_area
from unlearnbench.records.record import read_record

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]


def minus(*losses: float) -> Tensor:
    return -torch.tensor(losses)


def test_members_of_lower_loss_give_an_area_of_one() -> None:
    assert auc(minus(0.1, 0.2), minus(0.9, 1.0)) == 1.0


def test_the_score_is_minus_the_loss() -> None:
    answers = torch.tensor([[0.9, 0.1], [0.9, 0.1]]).log()
    sure, unsure = loss_scores(answers, torch.tensor([0, 1])).tolist()
    assert (sure, unsure) == (answers[0, 0], answers[1, 1])
    assert auc(torch.tensor([sure]), torch.tensor([unsure])) == 1.0


def test_a_swapped_area_is_zero_and_over_unlearned_not_good() -> None:
    swapped = auc(minus(0.9, 1.0), minus(0.1, 0.2))
    assert read_area(swapped, 2, 2, None).flag == "over-unlearned"
    found = read_area(swapped, 2, 2, retrain=0.5)
    assert (found.area, found.difference, found.flag) == (0.0, -0.5, "over-unlearned")


def test_equal_losses_give_one_half_exactly() -> None:
    assert auc(minus(0.3, 0.3), minus(0.3, 0.3, 0.3)) == 0.5


def test_without_retrain_there_is_no_difference_but_a_reason() -> None:
    found = read_area(1.0, 2, 2, None)
    assert (found.area, found.retrain, found.difference, found.flag) == (1.0, None, None, "")
    assert "no Retrain" in found.reason


def test_an_area_of_retrains_own_is_not_flagged() -> None:
    assert read_area(0.0, 2, 2, retrain=0.0).flag == ""


levels = st.lists(st.integers(0, 4), min_size=1, max_size=8)


@given(levels, levels)
def test_the_area_is_scikit_learns_and_ties_count_half(members: list[int], others: list[int]) -> None:
    truth = [1] * len(members) + [0] * len(others)
    expected = roc_auc_score(truth, members + others)
    found = auc(torch.tensor(members), torch.tensor(others))
    assert found == pytest.approx(expected)
    assert auc(torch.tensor(others), torch.tensor(members)) == pytest.approx(1 - found)


def test_an_audit_stores_the_area_that_of_retrain_and_their_difference(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(controls, "OVERFITTED_EPOCHS", 4)
    out = tmp_path / "out"
    audit = "controls[runs=4,permutations=199]"
    arguments = ("-m", "retrain", "-d", "toy", "--models", "gcn[hidden=16]", "--repetitions", "1", "--epochs", "2")
    told = command("audit", audit, *arguments, "--out", str(out))
    assert told.code == 0, told.err
    (path,) = out.glob("records/*/*/*/*.json")
    record = read_record(path)
    assert record.audit is not None
    judged = record.audit["details"]["loss-auc"]
    membership = judged["membership"]
    assert {"retrain", "noop"} <= set(membership)
    for name, found in membership.items():
        assert found["area"] == pytest.approx(judged["areas"][name])
        assert 0 <= found["area"] <= 1
        assert found["retrain"] == membership["retrain"]["area"]
        assert found["difference"] == pytest.approx(found["area"] - found["retrain"])
        assert found["reason"] == ""
        # What ranks methods is how far they are from Retrain, on either side of it.
        assert judged["scores"][name] >= abs(found["difference"]) - 1e-12
    assert (membership["retrain"]["difference"], membership["retrain"]["flag"]) == (0, "")
    rows = csv_rows(command("report", str(out), "--table", "audits", "--format", "csv").out)
    assert {row["measure"] for row in rows if row["measure"] == "loss-auc"}
