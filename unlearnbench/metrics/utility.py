"""Utility: micro- and macro-averaged F1 of single-label classification."""

from __future__ import annotations

import math

from torch import Tensor

from unlearnbench.metrics.base import Metric, check_predictions, confusion_counts


class MicroF1(Metric):
    """F1 over all decisions pooled; with one label per node this is accuracy."""

    name = "f1_micro"
    summary = "Micro-averaged F1: the share of right predictions."
    reference = "Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 2008, section 13.6."

    def score(self, labels: Tensor, log_probabilities: Tensor) -> float:
        """Score n predictions: see `Metric.score`."""
        check_predictions(labels, log_probabilities)
        if bool(log_probabilities.isnan().any()):
            return math.nan
        hit, _, _ = confusion_counts(labels, log_probabilities)
        return float(hit.sum().double() / len(labels))


class MacroF1(Metric):
    """Mean F1 over the classes that occur among the labels or the predictions."""

    name = "f1_macro"
    summary = "Macro-averaged F1: the mean over classes."
    reference = "Manning, Raghavan and Schuetze, Introduction to Information Retrieval, 2008, section 13.6."

    def score(self, labels: Tensor, log_probabilities: Tensor) -> float:
        """Score n predictions: see `Metric.score`."""
        check_predictions(labels, log_probabilities)
        if bool(log_probabilities.isnan().any()):
            return math.nan
        hit, predicted, actual = (counts.double() for counts in confusion_counts(labels, log_probabilities))
        occurs = predicted + actual > 0
        return float((2 * hit[occurs] / (predicted + actual)[occurs]).mean())
