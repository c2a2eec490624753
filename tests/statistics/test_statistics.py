from __future__ import annotations

import math
import statistics
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.power import TTestPower

from unlearnbench.errors import UsageError
from unlearnbench.statistics import (
    corrected_paired_t,
    detectable_difference,
    energy_statistic,
    equivalence,
    holm,
    page_trend,
    permutation_test,
    prediction_interval,
)
from unlearnbench.statistics.averages import mean, sample_sd

FOLDS = 1 / 7
SCORES = [0.012, -0.004, 0.021, 0.008, 0.015, -0.001, 0.030, 0.011, 0.002, 0.009]
DIFFERENCES = st.lists(st.integers(-400, 400).map(lambda n: n / 1000), min_size=3, max_size=12)


# --- paired differences


def test_corrected_test_by_hand() -> None:
    found = corrected_paired_t([1.0, 3.0], 0.5)
    # Variance 2, times (1/2 + 1/2); with one degree of freedom t is Cauchy.
    assert (found.n, found.mean, found.degrees_of_freedom, found.reason) == (2, 2.0, 1, "")
    assert found.standard_error == pytest.approx(math.sqrt(2))
    assert found.t == pytest.approx(math.sqrt(2))
    assert found.p == pytest.approx(1 - 2 / math.pi * math.atan(math.sqrt(2)))
    reach = math.tan(math.pi * 0.475) * math.sqrt(2)
    assert (found.low, found.high) == (pytest.approx(2 - reach), pytest.approx(2 + reach))


def test_without_overlap_it_is_the_plain_paired_test() -> None:
    found, plain = corrected_paired_t(SCORES, 0), stats.ttest_1samp(SCORES, 0)
    interval = plain.confidence_interval(0.95)
    assert (found.t, found.p) == (pytest.approx(plain.statistic), pytest.approx(plain.pvalue))
    assert (found.low, found.high) == (pytest.approx(interval.low), pytest.approx(interval.high))


def test_intervals_over_ten_folds_are_wider_by_the_overlap() -> None:
    plain, corrected = corrected_paired_t(SCORES, 0), corrected_paired_t(SCORES, FOLDS)
    assert plain.high is not None
    assert plain.mean is not None
    assert corrected.high is not None
    assert (corrected.high - plain.mean) / (plain.high - plain.mean) == pytest.approx(math.sqrt(17 / 7))


@pytest.mark.parametrize(
    ("differences", "mean", "reason"),
    [
        ([], None, "no repetition"),
        ([0.5], 0.5, "one repetition"),
        ([0.5, float("nan")], None, "not a finite"),
        ([0.5, float("inf"), 1.0], None, "not a finite"),
    ],
)
def test_what_cannot_be_computed_is_none_with_a_reason(
    differences: list[float], mean: float | None, reason: str
) -> None:
    found = corrected_paired_t(differences, FOLDS)
    assert found.mean == mean
    assert reason in found.reason
    assert [found.standard_error, found.t, found.p, found.low, found.high] == [None] * 5
    near = equivalence(differences, FOLDS, 1.0)
    assert [near.p, near.passes, near.smallest_margin, near.detectable] == [None] * 4
    assert near.paired == found
    further = prediction_interval(differences)
    assert (further.mean, further.low, further.high, further.reason) == (mean, None, None, found.reason)


@pytest.mark.parametrize(("value", "p"), [(0.0, 1.0), (0.3, 0.0), (-0.3, 0.0)])
def test_equal_differences_have_no_variance(value: float, p: float) -> None:
    found = corrected_paired_t([value, value, value * (1 + 1e-15)], FOLDS)
    assert (found.standard_error, found.t, found.p) == (0.0, None, p)
    assert found.low == found.high == found.mean == pytest.approx(value)
    assert "equal" in found.reason
    for margin, passes in ((0.4, True), (0.2, value == 0)):
        near = equivalence([value] * 3, FOLDS, margin)
        assert (near.passes, near.p) == (passes, float(not passes))
        assert (near.smallest_margin, near.detectable) == (abs(value), 0.0)


@pytest.mark.parametrize(
    "call",
    [
        lambda: corrected_paired_t([0.1, 0.2], -0.1),
        lambda: corrected_paired_t([0.1, 0.2], float("nan")),
        lambda: corrected_paired_t([[0.1, 0.2]], 0),  # type: ignore[list-item]
        lambda: equivalence([0.1, 0.2], 0, 0.0),
        lambda: detectable_difference(-1.0, 3),
        lambda: detectable_difference(1.0, 0),
        lambda: detectable_difference(1.0, 3, power=0.01),
        lambda: holm([0.5, 1.5]),
        lambda: page_trend([1, 2, 3]),
        lambda: page_trend([[1, 2, 3]] * 2, "up"),  # type: ignore[arg-type]
        lambda: energy_statistic([[0, 1], [2, 0]], [0, 1]),
        lambda: energy_statistic([[0, 1]], [0]),
        lambda: energy_statistic([[0, 1], [1, 0]], [0, 2]),
        lambda: energy_statistic([[0, 1], [1, 0]], [0, 1], np.zeros((1, 1), dtype=bool)),
        lambda: permutation_test([[0, 1], [1, 0]], (1, 2), np.random.default_rng(0)),
    ],
)
def test_arguments_out_of_range_are_one_clear_error(call: Any) -> None:
    with pytest.raises(UsageError) as caught:
        call()
    assert caught.value.hint


def test_equivalence_by_hand() -> None:
    found = equivalence([1.0, 3.0], 0.5, 4.0)
    # (4 - 2) / sqrt 2 under a Cauchy tail; its 95 % point is tan(0.45 pi).
    assert found.p == pytest.approx(0.5 - math.atan(math.sqrt(2)) / math.pi)
    assert found.passes is False
    assert found.smallest_margin == pytest.approx(2 + math.tan(0.45 * math.pi) * math.sqrt(2))


def test_equivalence_without_overlap_is_two_plain_one_sided_tests() -> None:
    margin = 0.02
    above = stats.ttest_1samp(SCORES, -margin, alternative="greater").pvalue
    below = stats.ttest_1samp(SCORES, margin, alternative="less").pvalue
    assert equivalence(SCORES, 0, margin).p == pytest.approx(max(above, below))


@given(DIFFERENCES, st.sampled_from([0.0, FOLDS]), st.floats(1e-6, 0.5))
def test_equivalence_passes_exactly_above_the_smallest_margin(
    differences: list[float], ratio: float, margin: float
) -> None:
    smallest = equivalence(differences, ratio, margin).smallest_margin
    assert smallest is not None
    assert equivalence(differences, ratio, smallest + margin).passes is True
    if smallest > margin:
        assert equivalence(differences, ratio, smallest - margin).passes is False
    assume(abs(smallest - margin) > 1e-9)
    assert equivalence(differences, ratio, margin).passes is (margin > smallest)


@given(DIFFERENCES, st.sampled_from([0.0, FOLDS]))
def test_a_change_of_sign_changes_signs_alone(differences: list[float], ratio: float) -> None:
    one, other = (equivalence([sign * d for d in differences], ratio, 0.1) for sign in (1, -1))
    assert one.p == pytest.approx(other.p)
    assert one.smallest_margin == pytest.approx(other.smallest_margin)
    assert one.paired.p == pytest.approx(other.paired.p)
    assert one.paired.low is not None
    assert other.paired.high is not None
    assert one.paired.low == pytest.approx(-other.paired.high)


@settings(max_examples=50)
@given(DIFFERENCES, st.sampled_from([0.0, FOLDS]))
def test_the_interval_leaves_zero_out_exactly_where_p_is_small(differences: list[float], ratio: float) -> None:
    found = corrected_paired_t(differences, ratio)
    assert found.p is not None
    assert found.low is not None
    assert found.high is not None
    assume(abs(found.p - 0.05) > 1e-9)
    assert (found.p < 0.05) is not (found.low <= 0 <= found.high)


@pytest.mark.parametrize("n", [2, 5, 10, 30])
def test_detectable_difference_agrees_with_the_power_of_the_plain_test(n: int) -> None:
    # statsmodels gives it in standard deviations.
    expected = TTestPower().solve_power(effect_size=None, nobs=n, alpha=0.05, power=0.8, alternative="two-sided")
    assert detectable_difference(0.5 / math.sqrt(n), n - 1) == pytest.approx(0.5 * expected, rel=1e-4)


def test_detectable_difference_of_a_known_deviation() -> None:
    # With very many degrees of freedom: z(.975) + z(.8) standard errors.
    assert detectable_difference(1.0, 10**6) == pytest.approx(1.959964 + 0.841621, abs=1e-4)
    assert detectable_difference(0.0, 3) == 0
    assert detectable_difference(1.0, 9, power=0.9) > detectable_difference(1.0, 9) > detectable_difference(1.0, 99)


def test_prediction_interval_by_hand() -> None:
    found = prediction_interval([0.0, 2.0])
    reach = math.tan(math.pi * 0.475) * math.sqrt(2) * math.sqrt(1.5)
    assert (found.n, found.mean, found.reason) == (2, 1.0, "")
    assert (found.low, found.high) == (pytest.approx(1 - reach), pytest.approx(1 + reach))
    flat = prediction_interval([0.8] * 4)
    assert (flat.mean, flat.low, flat.high) == (0.8, 0.8, 0.8)
    assert "equal" in flat.reason


# --- many tests, trends


def test_holm_by_hand() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert holm([0.4, 0.9]) == pytest.approx([0.8, 0.9])


def test_a_test_that_was_not_made_does_not_count() -> None:
    assert holm([None, 0.02, float("nan"), 0.03]) == [None, pytest.approx(0.04), None, pytest.approx(0.04)]
    assert holm([]) == []
    assert holm([None]) == [None]


@settings(max_examples=15)  # statsmodels collects garbage at every call
@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_holm_keeps_order_and_never_lowers(p_values: list[float]) -> None:
    adjusted = [p for p in holm(p_values) if p is not None]
    assert len(adjusted) == len(p_values)
    assert all(raw <= p <= 1 for raw, p in zip(p_values, adjusted, strict=True))
    order = np.argsort(p_values, kind="stable")
    assert list(np.diff(np.asarray(adjusted)[order]) >= 0) == [True] * (len(p_values) - 1)
    assert min(adjusted) == pytest.approx(min(1, len(p_values) * min(p_values)))


def test_trend_by_hand() -> None:
    # Of the 36 pairs of orders, 1 gives L = 28 and 4 give L = 27.
    up = page_trend([[1, 2, 3], [5, 6, 9]])
    assert (up.statistic, up.p, up.method) == (28, pytest.approx(1 / 36), "exact")
    assert page_trend([[1, 2, 3], [5, 9, 6]]).p == pytest.approx(5 / 36)
    down = page_trend([[3, 2, 1], [9, 6, 5]], "decreasing")
    assert (down.statistic, down.p, down.direction) == (28, pytest.approx(1 / 36), "decreasing")
    assert page_trend([[3, 2, 1], [9, 6, 5]]).p == pytest.approx(1)


@pytest.mark.parametrize(
    ("table", "p", "reason"),
    [
        ([[1, 2, 3]], None, "fewer"),
        ([[1, 2], [1, 2]], None, "fewer"),
        ([[1, 2, 3], [1, 2, float("nan")]], None, "finite"),
        ([[1, 1, 1], [2, 2, 2]], 1.0, "no repetition varies"),
    ],
)
def test_no_trend_without_a_table(table: list[list[float]], p: float | None, reason: str) -> None:
    found = page_trend(table)
    assert found.p == p
    assert reason in found.reason


# --- distances of runs


def distances(points: list[float]) -> np.ndarray:
    return np.abs(np.subtract.outer(np.asarray(points, dtype=float), np.asarray(points, dtype=float)))


def slow_energy(matrix: np.ndarray, first: set[int], left_out: set[frozenset[int]]) -> float | None:
    kinds: dict[int, list[float]] = {0: [], 1: [], 2: []}
    for i, j in combinations(range(len(matrix)), 2):
        if frozenset((i, j)) not in left_out:
            kinds[(i in first) + (j in first)].append(float(matrix[i, j]))
    if not all(kinds.values()):
        return None
    means = {kind: sum(found) / len(found) for kind, found in kinds.items()}
    return 2 * means[1] - means[2] - means[0]


def mask_of(n: int, pairs: set[frozenset[int]]) -> np.ndarray:
    mask = np.zeros((n, n), dtype=bool)
    for i, j in pairs:
        mask[i, j] = mask[j, i] = True
    return mask


def test_energy_by_hand() -> None:
    found = energy_statistic(distances([0, 2, 5, 6]), [0, 0, 1, 1])
    assert (found.across, found.first, found.second, found.statistic) == (4.5, 2.0, 1.0, 6.0)
    # Three ways to halve four runs, each counted twice; no other is as extreme.
    test = permutation_test(distances([0, 2, 5, 6]), (2, 2), np.random.default_rng(0))
    assert (test.p, test.relabellings, test.exact) == (pytest.approx(2 / 6), 5, True)
    assert test.energy == found


def test_runs_of_equal_seeds_are_never_paired() -> None:
    pairs = {frozenset((0, 2)), frozenset((1, 3))}
    found = energy_statistic(distances([0, 2, 5, 6]), [0, 0, 1, 1], mask_of(4, pairs))
    assert (found.across, found.statistic) == (4.5, 6.0)  # (6 + 3) / 2
    bent = distances([0, 2, 5, 6])
    bent[0, 2] = bent[2, 0] = np.nan
    assert energy_statistic(bent, [0, 0, 1, 1], mask_of(4, pairs)) == found
    # Halves 02|13 have no pair left within; of the four others, two are the standing ones.
    test = permutation_test(bent, (2, 2), np.random.default_rng(0), leave_out=mask_of(4, pairs))
    assert (test.p, test.relabellings) == (pytest.approx(2 / 4), 3)


@settings(max_examples=40)
@given(
    st.lists(st.integers(0, 30), min_size=5, max_size=7),
    st.sets(st.frozensets(st.integers(0, 4), min_size=2, max_size=2), max_size=3),
)
def test_exact_test_agrees_with_a_slow_one(points: list[int], left_out: set[frozenset[int]]) -> None:
    matrix, n = distances([float(point) for point in points]), len(points)
    standing = slow_energy(matrix, {0, 1}, left_out)
    test = permutation_test(matrix, (2, n - 2), np.random.default_rng(0), leave_out=mask_of(n, left_out))
    if standing is None:
        assert (test.p, test.energy.statistic) == (None, None)
        assert test.reason
        return
    every = [slow_energy(matrix, set(first), left_out) for first in combinations(range(n), 2)]
    kept = [value for value in every if value is not None]
    assert test.energy.statistic == pytest.approx(standing)
    assert test.p == pytest.approx(sum(value >= standing - 1e-9 for value in kept) / len(kept))


def test_drawn_relabellings_come_near_the_exact_answer_and_follow_the_generator() -> None:
    matrix = distances([0, 1, 4, 2, 7, 3, 6, 9, 5, 10])
    exact = permutation_test(matrix, (5, 5), np.random.default_rng(0))
    assert exact.exact
    assert exact.p is not None
    drawn = [permutation_test(matrix, (5, 5), np.random.default_rng(seed), 200) for seed in (3, 3, 4)]
    assert drawn[0] == drawn[1]
    assert drawn[0].p != drawn[2].p
    for one in drawn:
        assert (one.exact, one.relabellings) == (False, 200)
        assert one.p == pytest.approx(exact.p, abs=4 * math.sqrt(exact.p * (1 - exact.p) / 200))


def test_groups_far_apart_have_the_smallest_p_there_is() -> None:
    matrix = distances([*range(10), *range(100, 110)])
    # None of these 999 happens to be the standing one, of 184,756.
    test = permutation_test(matrix, (10, 10), np.random.default_rng(1), 999)
    assert test.p == pytest.approx(1 / 1000)
    same = permutation_test(np.zeros((20, 20)), (10, 10), np.random.default_rng(0), 99)
    assert (same.energy.statistic, same.p) == (0.0, 1.0)


@pytest.mark.parametrize(
    ("matrix", "sizes", "reason"),
    [
        (distances([0, 1, 2]), (1, 2), "no pair"),
        (np.full((4, 4), np.nan), (2, 2), "finite"),
    ],
)
def test_too_few_runs_or_unknown_distances_say_so(matrix: np.ndarray, sizes: tuple[int, int], reason: str) -> None:
    test = permutation_test(matrix, sizes, np.random.default_rng(0))
    assert (test.p, test.energy.statistic) == (None, None)
    assert reason in test.reason
    assert reason in test.energy.reason


def test_runs_that_share_seeds_across_sides_are_told_apart_too_seldom_rather_than_too_often() -> None:
    rng = np.random.default_rng(0)
    pairs = {frozenset((i, i + 6)) for i in range(6)}
    alarms = 0
    for _ in range(100):
        shared, own = rng.standard_normal((6, 3)), rng.standard_normal((2, 6, 3))
        runs = np.concatenate([shared + own[0], shared + own[1]])
        matrix = np.linalg.norm(runs[:, None] - runs[None], axis=-1)
        test = permutation_test(matrix, (6, 6), rng, 99, mask_of(12, pairs))
        assert test.p is not None
        alarms += test.p <= 0.05
    assert alarms <= 5


# --- averages


@given(st.lists(st.floats(-1e12, 1e12), min_size=2, max_size=12))
def test_means_and_spreads_are_rounded_once(values: list[float]) -> None:
    assert mean(values) == statistics.mean(values)
    assert sample_sd(values) == statistics.stdev(values)


def test_there_is_no_mean_of_nothing_and_no_spread_of_one_number() -> None:
    assert (mean([]), sample_sd([]), sample_sd([0.5])) == (None, None, None)
    assert (mean([0.5]), sample_sd([0.5, 0.5])) == (0.5, 0.0)
