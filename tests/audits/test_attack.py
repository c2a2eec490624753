"""The attack's classifier and its figures, against values by hand, scikit-learn and simulation."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import roc_auc_score

from unlearnbench.audits.leakage import attack


def numbers(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float64)


def test_the_area_by_hand() -> None:
    # Positive 3, 2, 1; negative 2, 0: of six pairs four are ranked rightly, one is a tie.
    scores, positive = numbers(3, 2, 1, 2, 0), torch.tensor([True, True, True, False, False])
    assert attack.area(scores, positive) == pytest.approx(0.75)


def test_the_error_of_targets_that_are_alone_by_hand() -> None:
    # Placements of the positive 4, 2, 1 among 3, 2, 0: 1, 1/2, 1/3; of the negative 3, 2, 0: 1/3, 1/2, 1.
    scores, positive = numbers(4, 3, 2, 2, 1, 0), torch.arange(6) % 2 == 0
    target = torch.arange(6) // 2
    assert attack.area(scores, positive) == pytest.approx(11 / 18)
    # Less the area and summed by target: (7 - 5) / 18, (-2 - 2) / 18 and (-5 + 7) / 18, each a third.
    variance = (4 + 16 + 4) / 54**2 * 3 / 2
    # Each row is a world: the two cancel.
    assert attack.area_error(scores, positive, target, torch.arange(6)) == pytest.approx(math.sqrt(variance))


@settings(max_examples=50, deadline=None)
@given(st.lists(st.tuples(st.integers(-4, 4), st.booleans()), min_size=2, max_size=40))
def test_the_area_is_that_of_scikit_learn(rows: list[tuple[int, bool]]) -> None:
    scores, positive = numbers(*(value for value, _ in rows)), torch.tensor([side for _, side in rows])
    if 0 < int(positive.sum()) < len(positive):
        assert attack.area(scores, positive) == pytest.approx(roc_auc_score(positive.numpy(), scores.numpy()))


@pytest.mark.parametrize("by_target", [0.0, 2.0])
@pytest.mark.parametrize("by_world", [0.0, 1.0])
def test_the_error_with_two_clusterings_is_the_spread_of_the_area(by_target: float, by_world: float) -> None:
    rng = torch.Generator().manual_seed(0)
    targets, worlds = 40, 10
    target = torch.arange(targets)[:, None].expand(-1, worlds).flatten()
    world = torch.arange(worlds).repeat(targets)
    areas, errors = [], []
    for _ in range(200):
        scores = by_target * torch.randn(targets, 1, generator=rng, dtype=torch.float64)
        scores = scores + by_world * torch.randn(1, worlds, generator=rng, dtype=torch.float64)
        scores = (scores + torch.randn(targets, worlds, generator=rng, dtype=torch.float64)).flatten()
        first = torch.stack([torch.randperm(targets, generator=rng) % 2 == 0 for _ in range(worlds // 2)], dim=1)
        positive = torch.stack([first, ~first], dim=2).flatten()
        areas.append(attack.area(scores, positive))
        errors.append(attack.area_error(scores, positive, target, world))
    assert sum(errors) / len(errors) == pytest.approx(float(numbers(*areas).std()), rel=0.2)


def test_no_row_is_scored_by_what_saw_its_fold() -> None:
    rng = torch.Generator().manual_seed(0)
    features = torch.randn(60, 3, generator=rng, dtype=torch.float64)
    positive, fold = torch.arange(60) % 2 == 0, torch.arange(60) // 20
    changed = torch.where(fold == 1, ~positive, positive)
    attacker = attack.Attacker(features, fold)
    before, after = attacker.scores(positive), attacker.scores(changed)
    assert torch.equal(before[fold == 1], after[fold == 1])
    assert not torch.equal(before[fold == 0], after[fold == 0])
    moved = features + (fold == 1).double()[:, None]
    assert torch.allclose(attack.Attacker(moved, fold).scores(positive)[fold == 1].diff(), before[fold == 1].diff())


def test_what_tells_the_worlds_apart_is_found_and_what_does_not_is_not() -> None:
    rng = torch.Generator().manual_seed(0)
    noise = torch.randn(400, 2, generator=rng, dtype=torch.float64)
    positive, fold = torch.arange(400) % 2 == 0, torch.arange(400) // 2 % 5
    telling = noise + 6 * positive.double()[:, None]
    assert attack.area(attack.Attacker(telling, fold).scores(positive), positive) > 0.99
    assert abs(attack.area(attack.Attacker(noise, fold).scores(positive), positive) - 0.5) < 0.1
    constant = torch.ones(400, 1, dtype=torch.float64)
    assert attack.area(attack.Attacker(constant, fold).scores(positive), positive) == 0.5


def test_the_share_found_at_a_rate_of_false_alarms() -> None:
    scores = numbers(9, 8, 7, 6, 5, 4, 3, 2)
    positive = torch.tensor([True, True, False, True, False, True, False, False])
    assert [float(attack.sensitivity(scores, positive, rate)[0]) for rate in (0, 0.24, 0.25, 0.5)] == [
        0.5, 0.5, 0.75, 1.0,
    ]  # fmt: skip
    # A tie is found and raises alarm all at once.
    assert float(attack.sensitivity(numbers(1, 1), torch.tensor([True, False]), 0.5)[0]) == 0
    weight = torch.stack([torch.ones(8), torch.tensor([1, 1, 0, 1, 1, 1, 1, 1])]).double()
    assert attack.sensitivity(scores, positive, 0.0, weight).tolist() == [0.5, 0.75]


def test_the_exact_interval_of_the_share_found_by_hand() -> None:
    scores, positive = torch.arange(20).double(), torch.arange(20) >= 10
    # All of ten: the lower end p has p^10 = .025.
    found = attack.rate_at(scores, positive, 0.01)
    assert (found.value, found.low, found.high) == (1, pytest.approx(0.025**0.1), 1)


def test_the_interval_of_the_share_found_holds_it() -> None:
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(400, generator=rng, dtype=torch.float64)
    positive = torch.arange(400) % 2 == 0
    share = float(attack.sensitivity(scores, positive, 0.1)[0])
    low, high = attack.sensitivity_interval(scores, positive, 0.1, torch.arange(400) // 2, 200, rng)
    assert 0 < low < share < high < 0.3


def test_intervals_by_hand() -> None:
    assert attack.interval(0.5, 0.1) == pytest.approx((0.304, 0.696), abs=1e-4)
    assert attack.interval(0.99, 0.1)[1] == 1
    # Wilson's interval of 8 out of 10 is 0.490 to 0.943 (Newcombe's tables); of none out of ten 0 to 0.278.
    assert attack.share_interval(8, 10) == pytest.approx((0.4902, 0.9433), abs=1e-4)
    assert attack.share_interval(0, 10) == pytest.approx((0, 0.2775), abs=1e-4)
    assert attack.mean_interval(numbers(1, 2, 3)) == pytest.approx((2 - 2.4841, 2 + 2.4841), abs=1e-3)
    assert attack.mean_interval(numbers(1)) == (None, None)


def test_the_chance_of_as_large_an_area() -> None:
    assert attack.randomisation_p(0.7, lambda number: 0.5, 19) == pytest.approx(1 / 20)
    assert attack.randomisation_p(0.5, lambda number: 0.5, 19) == 1
    assert attack.randomisation_p(0.7, lambda number: 0.8 if number < 4 else 0.6, 19) == pytest.approx(5 / 20)


def test_the_area_is_the_same_to_the_bit_as_by_ranks_of_distinct_values() -> None:
    generator = torch.Generator().manual_seed(0)
    for number in range(50):
        scores = torch.randn(40, generator=generator, dtype=torch.float64)
        if number % 2:
            scores = scores.mul(2).round()
        positive = torch.arange(40) % 3 == 0
        # As before ranks came from scipy: the mean rank of equal values is that of their last less half the others.
        _, at, count = torch.unique(scores, return_inverse=True, return_counts=True)
        rank = (count.cumsum(dim=0).double() - (count - 1) / 2)[at]
        _, at, count = torch.unique(scores[positive], return_inverse=True, return_counts=True)
        within = (count.cumsum(dim=0).double() - (count - 1) / 2)[at]
        share = (rank[positive] - within) / int((~positive).sum())
        assert attack.area(scores, positive) == float(share.mean())
