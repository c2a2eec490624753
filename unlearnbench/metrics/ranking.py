"""Rankings of two classes: ROC AUC and average precision, where one class is rare."""

from __future__ import annotations

import math
from abc import abstractmethod

import torch
from torch import Tensor
from typing_extensions import override

from unlearnbench.metrics.base import Metric, check_predictions

# Beyond any difference of finite log-probabilities, and finite itself.
_CERTAIN = 1e300


class RankingMetric(Metric):
    """A score of the order in which nodes are predicted to be of class 1, the positive one."""

    num_classes = 2
    needs_all_classes = True

    @override
    def score(self, labels: Tensor, log_probabilities: Tensor) -> float:
        check_predictions(labels, log_probabilities)
        if log_probabilities.shape[1] != self.num_classes:
            raise ValueError(f"{self.name} is defined for 2 classes, not for {log_probabilities.shape[1]}.")
        if bool(log_probabilities.isnan().any()) or len(labels.unique()) < self.num_classes:
            return math.nan
        # The difference tells apart what is nearly certain, where probabilities round to 1.
        negative, positive = log_probabilities.to(torch.float64).unbind(1)
        return self.rank(labels, (positive - negative).clamp(-_CERTAIN, _CERTAIN))

    @abstractmethod
    def rank(self, labels: Tensor, scores: Tensor) -> float:
        """Score an order.

        Args:
            labels: int64 [n], 0 or 1; both occur.
            scores: float64 [n], finite; the higher, the more likely class 1.
        """


class RocAuc(RankingMetric):
    """The probability that a node of class 1 is ranked above one of class 0; ties count half."""

    name = "roc_auc"
    summary = "Area under the ROC curve, of two classes."
    reference = "Fawcett, An introduction to ROC analysis, Pattern Recognition Letters 27, 2006."

    @override
    def rank(self, labels: Tensor, scores: Tensor) -> float:
        from sklearn.metrics import roc_auc_score  # takes a second to import, and few graphs have two classes

        return float(roc_auc_score(labels.numpy(), scores.numpy()))


class AveragePrecision(RankingMetric):
    """The mean precision over the thresholds at which class 1 gains recall, weighted by that gain."""

    name = "average_precision"
    summary = "Average precision of class 1, of two classes."
    reference = "Davis and Goadrich, The relationship between precision-recall and ROC curves, ICML 2006."

    @override
    def rank(self, labels: Tensor, scores: Tensor) -> float:
        from sklearn.metrics import average_precision_score

        return float(average_precision_score(labels.numpy(), scores.numpy()))
