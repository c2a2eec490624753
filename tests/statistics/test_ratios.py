"""The ratio of two means and its interval."""

import math

import pytest
from scipy import stats

from unlearnbench.errors import UsageError
from unlearnbench.statistics import Ratio, ratio_of_means


def test_a_ratio_is_worked_by_hand() -> None:
    # 9 / 6; residuals 0, 0.5, -0.5 of 1.5 times each denominator; sd 0.5, over the root of 3 times the mean 2.
    found = ratio_of_means([1.5, 3.5, 4.0], [1.0, 2.0, 3.0])
    reach = float(stats.t.ppf(0.975, 2)) * 0.5 / (3**0.5 * 2)
    assert (found.n, found.value) == (3, 1.5)
    assert (found.low, found.high) == pytest.approx((1.5 - reach, 1.5 + reach))


def test_with_equal_denominators_it_is_the_mean_with_students_interval() -> None:
    values = [0.3, 0.5, 0.4, 0.7]
    found = ratio_of_means([2 * value for value in values], [2.0] * 4)
    expected = stats.ttest_1samp(values, 0.0).confidence_interval()
    assert found.value == pytest.approx(sum(values) / 4)
    assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_a_pair_with_a_tiny_denominator_hardly_counts() -> None:
    found = ratio_of_means([0.5, 0.5, 0.001], [1.0, 1.0, 0.00001])
    assert found.value == pytest.approx(0.5, abs=1e-3)
    assert found.high is not None
    assert found.high < 0.51


def test_what_has_no_ratio_and_what_has_no_interval() -> None:
    assert ratio_of_means([], []) == Ratio(0)
    assert ratio_of_means([1.0, 2.0], [0.5, -0.5]) == Ratio(2)
    assert ratio_of_means([math.nan, 1.0], [1.0, 1.0]) == ratio_of_means([1.0, 1.0], [math.inf, -math.inf]) == Ratio(2)
    assert ratio_of_means([1.0], [4.0]) == Ratio(1, 0.25)
    assert ratio_of_means([1.0, 2.0], [1.0, 2.0]) == Ratio(2, 1.0, 1.0, 1.0)
    with pytest.raises(UsageError, match="There are 2 numerators and 1 denominators"):
        ratio_of_means([1.0, 2.0], [1.0])
