"""The interface of metrics: a number computed from labels and log-probabilities."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from unlearnbench.component import Component


class Metric(Component, ABC):
    """Scores predictions against labels. Called by the harness, never by a method.

    Attributes:
        num_classes: The number of classes it is defined for, with others it is not asked; None: any.
        needs_all_classes: Whether it is undefined, and returns NaN, where a class does not occur among the labels.
    """

    kind = "metric"
    num_classes: ClassVar[int | None] = None
    needs_all_classes: ClassVar[bool] = False

    @abstractmethod
    def score(self, labels: Tensor, log_probabilities: Tensor) -> float:
        """Score n predictions.

        Args:
            labels: int64 [n], in [0, C).
            log_probabilities: float [n, C].

        Returns:
            The score; NaN where a prediction is NaN.

        Raises:
            ValueError: The shapes do not fit, there is nothing to score, or a label is out of
                range.
        """


def check_predictions(labels: Tensor, log_probabilities: Tensor) -> None:
    """Check that labels, int64 [n] in [0, C), and predictions, float [n, C], belong together.

    Raises:
        ValueError: They do not; the message names both shapes or the label.
    """
    if labels.dim() != 1 or log_probabilities.dim() != 2 or len(labels) != len(log_probabilities):
        raise ValueError(
            f"Labels of shape {list(labels.shape)} do not fit predictions of shape {list(log_probabilities.shape)}."
        )
    if len(labels) == 0:
        raise ValueError("There are no predictions to score.")
    num_classes = log_probabilities.shape[1]
    outside = (labels < 0) | (labels >= num_classes)
    if bool(outside.any()):
        raise ValueError(f"Label {int(labels[outside][0])} is outside [0, {num_classes}).")


def confusion_counts(labels: Tensor, log_probabilities: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Count right and wrong predictions for each class.

    The predicted class is the one of the largest log-probability, the lowest class on a tie.

    Returns:
        Three tensors, int64 [C]: nodes of the class predicted as such (true positives), nodes
        predicted as the class, nodes of the class.
    """
    predicted = log_probabilities.argmax(dim=1)
    num_classes = log_probabilities.shape[1]
    hit = torch.bincount(labels[predicted == labels], minlength=num_classes)
    return hit, torch.bincount(predicted, minlength=num_classes), torch.bincount(labels, minlength=num_classes)
