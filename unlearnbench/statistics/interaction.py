"""Whether several gains, measured in the same repetitions, are one and the same."""

from __future__ import annotations

import numpy as np

from unlearnbench.statistics.paired import ROUNDING


def equal_means_p(table: list[list[float]], test_share_over_train: float) -> float | None:
    """Test whether K columns have equal means, over R repetitions whose training sets overlap.

    Hotelling's T^2 of the K - 1 differences between neighbouring columns (Hotelling, The generalization of Student's
    ratio, Annals of Mathematical Statistics 2, 1931), with the variance of a mean taken as (1/R + n_test/n_train)
    times that of one repetition, as in `corrected_paired_t`: for K = 2 it is that test.

    Args:
        table: R rows of K finite numbers.
        test_share_over_train: n_test/n_train.

    Returns:
        p; None where it cannot be had: fewer than 2 columns, no more repetitions than columns, or differences of
        which one is a combination of the others.
    """
    values = np.asarray(table, dtype=np.float64)
    if values.ndim != 2 or values.shape[1] < 2 or len(values) <= values.shape[1]:
        return None
    differences = np.diff(values, axis=1)
    repetitions, count = differences.shape
    covariance = np.cov(differences, rowvar=False).reshape(count, count)
    scale = max(1.0, float(np.abs(values).max()))
    if np.linalg.matrix_rank(covariance, tol=(ROUNDING * scale) ** 2) < count:
        return None
    mean = differences.mean(axis=0)
    squared = float(mean @ np.linalg.solve(covariance, mean)) / (1 / repetitions + test_share_over_train)
    freedom = repetitions - count
    from scipy.special import fdtrc

    return float(fdtrc(count, freedom, squared * freedom / ((repetitions - 1) * count)))
