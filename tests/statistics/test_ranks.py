"""Mean ranks and Nemenyi's critical difference, against the worked example of Demšar (2006)."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import studentized_range

from unlearnbench.errors import UsageError
from unlearnbench.statistics import critical_difference, mean_ranks
from unlearnbench.statistics.ranks import NEMENYI

# Demšar (2006), table 6: area under the ROC curve of four variants of C4.5 on 14 data sets, in three
# digits; a fourth in the last row but one, where the paper gives ranks 2 and 3 to what it prints alike.
AREAS = [
    *([0.763, 0.768, 0.771, 0.798], [0.599, 0.591, 0.590, 0.569], [0.954, 0.971, 0.968, 0.967]),
    *([0.628, 0.661, 0.654, 0.657], [0.882, 0.888, 0.886, 0.898], [0.936, 0.931, 0.916, 0.931]),
    *([0.661, 0.668, 0.609, 0.685], [0.583, 0.583, 0.563, 0.625], [0.775, 0.838, 0.866, 0.875]),
    *([1.000, 1.000, 1.000, 1.000], [0.940, 0.962, 0.965, 0.962], [0.619, 0.666, 0.614, 0.669]),
    *([0.972, 0.981, 0.9751, 0.975], [0.957, 0.978, 0.946, 0.970]),
]


def test_ranks_and_critical_difference_are_those_of_the_published_example() -> None:
    found = mean_ranks(AREAS)
    assert found.n == 14
    assert found.ranks == pytest.approx((3.143, 2.000, 2.893, 1.964), abs=5e-4)
    assert found.critical_difference == pytest.approx(1.25, abs=5e-3)
    # The paper's 9.28 is without the correction for ties, of which its table has 1 group of four and 3 of two:
    # 1 - sum(t^3 - t) / (n k (k^2 - 1)) = 1 - 78 / 840.
    plain = 12 * 14 / 20 * (sum(rank**2 for rank in found.ranks) - 25)
    assert plain == pytest.approx(9.28, abs=5e-3)
    assert found.friedman == pytest.approx(plain / (1 - 78 / 840))
    assert found.p is not None
    assert 0.01 < found.p < 0.05


@pytest.mark.parametrize("methods", [2, 10, 30])
def test_quantiles_are_those_of_the_studentized_range(methods: int) -> None:
    expected = studentized_range.ppf(0.95, methods, np.inf) / np.sqrt(2)
    assert NEMENYI[methods - 2] == pytest.approx(expected, abs=1e-4)
    assert critical_difference(methods, 6) == pytest.approx(expected * np.sqrt(methods * (methods + 1) / 36), abs=1e-3)


def test_equal_scores_share_ranks_and_show_nothing() -> None:
    found = mean_ranks([[0.5, 0.5, 0.5], [0.2, 0.2, 0.2]])
    assert (found.ranks, found.friedman, found.p) == ((2.0, 2.0, 2.0), None, None)
    assert mean_ranks([[0.1, 0.9]]).ranks == (2.0, 1.0)


@pytest.mark.parametrize("scores", [[], [[0.1]], [[0.1, 0.2], [0.3]], [[0.1, float("nan")]]])
def test_what_cannot_be_ranked_is_refused(scores: list[list[float]]) -> None:
    with pytest.raises(UsageError):
        mean_ranks(scores)
    with pytest.raises(UsageError):
        critical_difference(1, 3)
