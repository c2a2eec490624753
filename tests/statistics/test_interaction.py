"""Whether gains are the same whatever the other part is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from unlearnbench.statistics import corrected_paired_t, equal_means_p


@pytest.mark.parametrize("ratio", [0.0, 1 / 7])
def test_of_two_columns_it_is_the_corrected_paired_t_test(ratio: float) -> None:
    table = [[0.1, 0.4], [0.3, 0.2], [0.2, 0.9], [0.0, 0.5]]
    expected = corrected_paired_t([b - a for a, b in table], ratio).p
    assert equal_means_p(table, ratio) == pytest.approx(expected)


def test_of_three_columns_by_hand() -> None:
    # Differences (1, 0), (3, 0), (2, 3), (2, 1): means 2 and 1, variances 2/3 and 2, covariance 0.
    table = [[0, 1, 1], [0, 3, 3], [0, 2, 5], [0, 2, 3]]
    # T^2 = 4 (4 / (2/3) + 1 / 2) = 26; F(2, 2) = 26 * 2 / (3 * 2); with two and two degrees of freedom p = 1 / (1 + F).
    assert equal_means_p([[float(v) for v in row] for row in table], 0.0) == pytest.approx(1 / (1 + 26 / 3))


def test_it_finds_a_gain_that_only_one_partition_has() -> None:
    rng = np.random.default_rng(0)
    noise = rng.normal(size=(10, 4))
    gains = noise + np.array([0.0, 0.0, 0.0, 9.0])
    assert (equal_means_p(gains.tolist(), 1 / 7) or 1.0) < 1e-3
    assert (equal_means_p(noise.tolist(), 1 / 7) or 0.0) > 0.05


@given(shift=st.floats(-5, 5), order=st.permutations(range(3)))
def test_neither_order_nor_a_shift_of_all_matters(shift: float, order: list[int]) -> None:
    table = np.random.default_rng(1).normal(size=(8, 3))
    expected = equal_means_p(table.tolist(), 0.1)
    assert equal_means_p((table[:, order] + shift).tolist(), 0.1) == pytest.approx(expected)


@pytest.mark.parametrize(
    "table", [[], [[1.0], [2.0], [3.0]], [[1.0, 2.0], [2.0, 5.0]], [[0.0, 1.0, 2.0]] * 9, [[1.0, 2.0, 3.0]] * 3]
)
def test_where_nothing_can_be_said_there_is_no_p(table: list[list[float]]) -> None:
    assert equal_means_p(table, 0.0) is None
