"""ROC AUC and average precision: values by hand and of scikit-learn, and graphs that they are not defined for."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import average_precision_score, roc_auc_score

from unlearnbench.metrics.ranking import AveragePrecision, RankingMetric, RocAuc
from unlearnbench.metrics.scoring import one_class_notes, score
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.report.publish.submitted import NOTES

METRICS = pytest.mark.parametrize("metric", [RocAuc(), AveragePrecision()])


def log_probabilities(positive: list[float]) -> torch.Tensor:
    share = torch.tensor(positive, dtype=torch.float64)
    return torch.stack([1 - share, share], dim=1).log().float()


def test_scores_worked_by_hand() -> None:
    labels, shares = torch.tensor([0, 0, 1, 1]), log_probabilities([0.1, 0.4, 0.35, 0.8])
    # Three of the four pairs of a positive and a negative node are in order.
    assert RocAuc().score(labels, shares) == 0.75
    # Recall 1/2 at precision 1, then 1 at 2/3.
    assert AveragePrecision().score(labels, shares) == pytest.approx(0.5 * 1 + 0.5 * 2 / 3)


def test_predictions_that_are_all_alike_rank_nothing() -> None:
    labels = torch.tensor([0, 0, 0, 1])
    assert RocAuc().score(labels, log_probabilities([0.2] * 4)) == 0.5
    assert AveragePrecision().score(labels, log_probabilities([0.2] * 4)) == 0.25


@pytest.mark.slow
@given(st.lists(st.tuples(st.integers(0, 1), st.floats(0.01, 0.99)), min_size=2, max_size=40))
def test_both_scores_equal_those_of_scikit_learn(pairs: list[tuple[int, float]]) -> None:
    labels, shares = (np.array([pair[i] for pair in pairs]) for i in (0, 1))
    answers = log_probabilities(shares.tolist())
    ranked = (answers[:, 1].double() - answers[:, 0].double()).numpy()
    for metric, plain in ((RocAuc(), roc_auc_score), (AveragePrecision(), average_precision_score)):
        found = metric.score(torch.tensor(labels), answers)
        if len(set(labels.tolist())) < 2:
            assert math.isnan(found)
        else:
            assert found == pytest.approx(plain(labels, ranked), abs=1e-12)


def test_what_is_nearly_certain_is_told_apart() -> None:
    logits = torch.tensor([[0.0, 40.0], [0.0, 41.0], [0.0, 39.0]])
    assert RocAuc().score(torch.tensor([0, 1, 0]), torch.log_softmax(logits, dim=1)) == 1.0
    certain = torch.tensor([[-math.inf, 0.0], [0.0, -math.inf]])
    assert RocAuc().score(torch.tensor([1, 0]), certain) == 1.0


@METRICS
def test_what_cannot_be_ranked_has_no_score(metric: RankingMetric) -> None:
    assert math.isnan(metric.score(torch.tensor([1, 1]), log_probabilities([0.1, 0.2])))
    assert math.isnan(metric.score(torch.tensor([0, 1]), log_probabilities([0.1, math.nan])))
    with pytest.raises(ValueError, match="defined for 2 classes, not for 3"):
        metric.score(torch.tensor([0, 1]), torch.zeros(2, 3))


@pytest.mark.parametrize("num_classes", [2, 3])
def test_only_graphs_of_two_classes_are_ranked(num_classes: int) -> None:
    catalogue = load_catalogue()
    specs = [resolve(catalogue, "metric", name) for name in ("f1_micro", "roc_auc", "average_precision")]
    answers = {("after", part, "shard"): torch.randn(4, num_classes).log_softmax(1) for part in ("test", "val")}
    scores, notes = score(answers, dict.fromkeys(("test", "val"), torch.tensor([0, 1, 0, 1])), specs)
    names = ("f1_micro", "roc_auc", "average_precision") if num_classes == 2 else ("f1_micro",)
    assert set(scores) == {f"{head}{name}" for name in names for head in ("", "val_")}
    assert notes == []


def test_predictions_of_one_class_are_reported() -> None:
    one, both = log_probabilities([0.1, 0.2, 0.3]), log_probabilities([0.1, 0.9, 0.3])
    answers = {("after", "test", "shard"): one, ("after", "test", "full"): both, ("after", "val", "full"): one}
    labels = {"test": torch.tensor([0, 1, 0]), "val": torch.tensor([0, 1, 0])}
    notes = one_class_notes(answers | {("before", "test", "full"): one}, labels)
    assert notes == ["one class: every test node is predicted as class 0 in view shard."]
    assert all(map(NOTES.fullmatch, notes))  # or the record could not be submitted
    # Where the nodes have one class, a model that predicts it is right.
    assert one_class_notes(answers, {**labels, "test": torch.tensor([0, 0, 0])}) == []
