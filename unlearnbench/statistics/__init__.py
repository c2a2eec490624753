"""Statistical tests and intervals over the repetitions of an experiment.

What cannot be computed is None with a reason, never nan. docs/statistics.md explains which
question each function answers, and what it cannot show.
"""

from unlearnbench.statistics.energy import Energy, Permutation, energy_statistic, permutation_test
from unlearnbench.statistics.interaction import equal_means_p
from unlearnbench.statistics.multiplicity import holm
from unlearnbench.statistics.paired import (
    ALPHA,
    Equivalence,
    Paired,
    Prediction,
    corrected_paired_t,
    detectable_difference,
    equivalence,
    prediction_interval,
)
from unlearnbench.statistics.ranks import MeanRanks, critical_difference, mean_ranks
from unlearnbench.statistics.ratios import Ratio, ratio_of_means
from unlearnbench.statistics.trend import Trend, page_trend

__all__ = [
    "ALPHA",
    "Energy",
    "Equivalence",
    "MeanRanks",
    "Paired",
    "Permutation",
    "Prediction",
    "Ratio",
    "Trend",
    "corrected_paired_t",
    "critical_difference",
    "detectable_difference",
    "energy_statistic",
    "equal_means_p",
    "equivalence",
    "holm",
    "mean_ranks",
    "page_trend",
    "permutation_test",
    "prediction_interval",
    "ratio_of_means",
]
