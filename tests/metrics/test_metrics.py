from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from sklearn.metrics import f1_score

from unlearnbench.metrics.utility import MacroF1, MicroF1

NUM_CLASSES = 5
CLASSES = st.integers(0, NUM_CLASSES - 1)


def log_probabilities(predicted: list[int], num_classes: int = NUM_CLASSES) -> torch.Tensor:
    return torch.log_softmax(torch.nn.functional.one_hot(torch.tensor(predicted), num_classes).float(), dim=1)


@given(st.lists(st.tuples(CLASSES, CLASSES), min_size=1, max_size=40))
def test_both_scores_equal_those_of_scikit_learn(pairs: list[tuple[int, int]]) -> None:
    labels, predicted = ([pair[i] for pair in pairs] for i in (0, 1))
    scores = log_probabilities(predicted)
    micro, macro = MicroF1().score(torch.tensor(labels), scores), MacroF1().score(torch.tensor(labels), scores)
    assert micro == pytest.approx(f1_score(labels, predicted, average="micro"), abs=1e-12)
    assert macro == pytest.approx(f1_score(labels, predicted, average="macro", zero_division=0.0), abs=1e-12)


def test_scores_worked_by_hand() -> None:
    labels = torch.tensor([0, 0, 0, 1])
    scores = log_probabilities([0, 0, 1, 3])
    assert MicroF1().score(labels, scores) == 0.5
    # Class 0: 2*2/(2+3); class 1: none right; class 3: predicted once, never right; 2 and 4 do not occur.
    assert MacroF1().score(labels, scores) == pytest.approx((0.8 + 0 + 0) / 3)


def test_a_tie_goes_to_the_lowest_class() -> None:
    even = torch.log(torch.full((1, 4), 0.25))
    assert [MicroF1().score(torch.tensor([label]), even) for label in range(4)] == [1.0, 0.0, 0.0, 0.0]


def test_impossible_classes_are_fine() -> None:
    certain = torch.tensor([[-math.inf, 0.0], [0.0, -math.inf]])
    assert MicroF1().score(torch.tensor([1, 1]), certain) == 0.5


@pytest.mark.parametrize("metric", [MicroF1(), MacroF1()])
def test_a_prediction_that_is_not_a_number_gives_no_number(metric: MicroF1 | MacroF1) -> None:
    assert math.isnan(metric.score(torch.tensor([0, 1]), torch.tensor([[0.0, -9.0], [math.nan, 0.0]])))


@pytest.mark.parametrize("metric", [MicroF1(), MacroF1()])
@pytest.mark.parametrize(
    ("labels", "shape", "message"),
    [
        ([], (0, 3), "no predictions"),
        ([0, 1], (3, 3), r"\[2\].*\[3, 3\]"),
        ([0, -1], (2, 3), "Label -1"),
        ([0, 3], (2, 3), "Label 3"),
    ],
)
def test_what_cannot_be_scored_raises(
    metric: MicroF1 | MacroF1, labels: list[int], shape: tuple[int, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        metric.score(torch.tensor(labels, dtype=torch.int64), torch.zeros(shape))
