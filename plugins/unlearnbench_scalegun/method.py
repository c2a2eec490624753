"""ScaleGUN: CGU's certified Newton step on features that are propagated lazily."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Paper, Query, RefusedError, Request, Task
from unlearnbench.unlearning import CertifiedRegression, logistic, propagated, propagation_steps
from unlearnbench_scalegun.propagation import mean_row, propagate, update


class ScaleGun(CertifiedRegression):
    """Logistic regressions on propagated features, with a certificate that pays for the error of the features.

    A request changes propagated features near it only, and changes below a threshold are left out. A Newton step
    follows, and the gradient that it may leave, on the exact features, is bounded as in CGU. Before the bound exceeds
    the budget the model is retrained with a new random term, on features that are propagated anew.

    Between requests the weights, the task, the propagated features and the gradient spent so far are kept.
    """

    name = "scalegun"
    title = "ScaleGUN"
    version = 1
    summary = "Certified as cgu; propagated features are updated locally and lazily."
    reference = (
        "Yi and Wei, Scalable and Certifiable Graph Unlearning: Overcoming the Approximation Error Barrier, ICLR 2025"
    )
    paper = Paper(
        "Yi, Lu and Wei, Zhewei",
        "Scalable and Certifiable Graph Unlearning: Overcoming the Approximation Error Barrier",
        "International Conference on Learning Representations",
        2025,
        "https://arxiv.org/abs/2408.09212",
    )

    class Params(CertifiedRegression.Params):
        """The certificate, the noise, the penalty and the propagation."""

        threshold: float = Field(
            default=1e-8, ge=0, description="Changes of a node's propagated features up to this length go no further."
        )
        centre: bool = Field(default=True, description="Subtract the mean of the retained nodes' propagated features.")
        constant: Literal["paper", "tight"] = Field(
            default="paper", description="Lipschitz constant in the bound: 1/4, or the least, .096: tight."
        )

    def fit(self, task: Task) -> None:
        """Propagate and train.

        Raises:
            RefusedError: The base model is not `sgc`, or does not propagate: nothing is trained.
        """
        self._steps = propagation_steps(task, self.name)
        if self._steps < 1:
            raise RefusedError("scalegun propagates features at least once.", "Use sgc[steps=2].")
        self._trainings = 0
        with task.phase("train"):
            self._train(task)
        self._task = task

    def _train(self, task: Task) -> None:
        self._propagation, self._centre = propagate(task.graph, self._steps), self._centre_of(task)
        self.train(task, self._propagation.levels[-1] - self._centre)

    def _centre_of(self, task: Task) -> Tensor:
        """Return what is subtracted from every row: the exact mean, whatever was left out of the rows."""
        centre = mean_row(task.graph, self._steps)
        return centre if self.params.centre else torch.zeros_like(centre)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Update features and step, or retrain where the bound exceeds the budget."""
        graph = retained.graph
        with retained.phase("propagate"):
            found = update(self._propagation, self._task.graph, request, graph, self.params.threshold)
            centre = self._centre_of(retained)
            retained.count(rows_updated=found.changed)
        with retained.phase("update"):
            old, rows = self._propagation.levels[-1] - self._centre, found.levels[-1] - centre
            change = self.gradient(self._task, old) - self.gradient(retained, rows)
            weights, spent = self.stepped(rows, change)
            y = logistic.signs(graph.y, graph.num_classes)
            fits = spent + error_bound(weights, rows, y, found.error) <= self.budget
        if fits:
            self._weights, self._spent, self._propagation, self._centre = weights, spent, found, centre
        else:
            with retained.phase("retrain"):
                self._train(retained)
        retained.count(retrained=int(not fits))
        self._task = retained

    def predict(self, query: Query) -> Tensor:
        """Return the logarithm of the normalised probabilities of the one-against-rest regressions."""
        graph = query.context(self._task.graph.ids)
        rows = propagated(graph, self._steps, "mean", graph.positions(query.targets))
        return self.log_probabilities(rows)


def error_bound(weights: Tensor, rows: Tensor, y: Tensor, error: float) -> float:
    """Bound how much the gradient differs on rows each of which is no further than `error` from these.

    With the slope s of a node's loss along its score, the gradient of a class is the sum of s_i z_i. Moving a row by
    e changes s_i by at most |w| e / 4, and so the product by at most e (|s_i| + |w| (|z_i| + e) / 4).

    Args:
        weights: float64 [F, C].
        rows: float64 [n, F].
        y: float64 [n, C], from `logistic.signs`.
        error: The largest distance of a row.
    """
    slope = (torch.sigmoid(y * (rows @ weights)) - 1).abs().sum(dim=0)
    lengths = rows.norm(dim=1).sum() + len(rows) * error
    return error * float((slope + weights.norm(dim=0) * lengths / 4).norm())
