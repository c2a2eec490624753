"""ScaleGUN: CGU's certified Newton step on features that are propagated lazily."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Claim, ComponentParams, Paper, Query, RefusedError, Request, Task, Unlearner, search
from unlearnbench.unlearning import LINEAR_MODEL, logistic, propagated, propagation_steps
from unlearnbench_scalegun.propagation import mean_row, propagate, update


class ScaleGun(Unlearner):
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
    claim = Claim.CERTIFIED
    forgets = frozenset({"node", "edge", "feature"})
    models = frozenset({LINEAR_MODEL})
    uses_training = False
    supports_edge_weight = True

    class Params(ComponentParams):
        """The certificate, the noise, the penalty and the propagation."""

        epsilon: float = Field(default=1.0, gt=0, le=1, description="Of the certificate.")
        delta: float = Field(default=1e-4, gt=0, lt=1, description="Of the certificate.")
        std: float = Field(
            default=0.1,
            gt=0,
            description="Standard deviation of the random linear term.",
            json_schema_extra=search(0.01, 1.0, log=True),
        )
        lam: float = Field(
            default=0.01, gt=0, description="L2 penalty a node.", json_schema_extra=search(0.0001, 0.1, log=True)
        )
        threshold: float = Field(
            default=1e-8, ge=0, description="Changes of a node's propagated features up to this length go no further."
        )
        centre: bool = Field(default=True, description="Subtract the mean of the retained nodes' propagated features.")
        constant: Literal["paper", "tight"] = Field(
            default="paper", description="Lipschitz constant in the bound: 1/4, or the least, .096: tight."
        )

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self.claim_reason = f"epsilon {self.params.epsilon:g}, delta {self.params.delta:g}"

    @property
    def budget(self) -> float:
        """The largest gradient that the random term hides."""
        return logistic.budget(self.params.std, self.params.epsilon, self.params.delta)

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
        rows, y = self._propagation.levels[-1] - self._centre, logistic.signs(task.graph.y, task.graph.num_classes)
        rng = task.generator(self.name, "noise", self._trainings)
        self._weights, steps, self._spent = logistic.train(rows, y, self.params.lam, self.params.std, rng)
        self._trainings += 1
        task.count(steps=steps, node_epochs=steps * len(rows))
        logistic.check_within(self._spent, self.budget)

    def _centre_of(self, task: Task) -> Tensor:
        """Return what is subtracted from every row: the exact mean, whatever was left out of the rows."""
        centre = mean_row(task.graph, self._steps)
        return centre if self.params.centre else torch.zeros_like(centre)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Update features and step, or retrain where the bound exceeds the budget."""
        lam, graph = self.params.lam, retained.graph
        with retained.phase("propagate"):
            found = update(self._propagation, self._task.graph, request, graph, self.params.threshold)
            centre = self._centre_of(retained)
            retained.count(rows_updated=found.changed)
        with retained.phase("update"):
            former = self._task.graph
            old, rows = self._propagation.levels[-1] - self._centre, found.levels[-1] - centre
            y = logistic.signs(graph.y, graph.num_classes)
            change = logistic.gradient(self._weights, old, logistic.signs(former.y, former.num_classes), lam)
            change -= logistic.gradient(self._weights, rows, y, lam)
            step = logistic.solve(self._weights, rows, lam, change)
            residual = change - logistic.product(self._weights, rows, lam, step)
            bound = logistic.residual_bound(rows, step, logistic.GAMMA[self.params.constant])
            spent = self._spent + bound + float(residual.norm())
            weights = self._weights + step
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
        return logistic.log_probabilities((rows - self._centre) @ self._weights)

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights, float64 [F, C], and the centre subtracted from features, float64 [F]."""
        return {"members/000/weight": self._weights.clone(), "members/000/centre": self._centre.clone()}


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
