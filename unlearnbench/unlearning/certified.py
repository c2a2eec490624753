"""What certified methods share: regressions with a random term, whose steps may spend a budget of gradient."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import Field
from torch import Tensor

from unlearnbench.component import ComponentParams, search
from unlearnbench.task import Task
from unlearnbench.unlearning import logistic
from unlearnbench.unlearning.base import Claim, Unlearner
from unlearnbench.unlearning.linear import LINEAR_MODEL


class CertifiedRegression(Unlearner):
    """Logistic regressions on propagated features (Chien et al., ICLR 2023).

    A random linear term in the loss hides a gradient of bounded norm. A request is answered by a Newton step; the
    gradient that it may leave is bounded, and the bounds of all requests add up. Before they exceed the budget a
    subclass trains anew.

    Subclasses set `_trainings` to 0 in `fit`, keep the centre of their rows as `_centre`, and declare `constant`.
    """

    claim = Claim.CERTIFIED
    forgets = frozenset({"node", "edge", "feature"})
    models = frozenset({LINEAR_MODEL})
    uses_training = False
    supports_edge_weight = True

    class Params(ComponentParams):
        """The certificate, the noise and the penalty."""

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

    _trainings: int
    _weights: Tensor
    _centre: Tensor
    _spent: float

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self.claim_reason = f"epsilon {self.params.epsilon:g}, delta {self.params.delta:g}"

    @property
    def budget(self) -> float:
        """The largest gradient that the random term hides."""
        return logistic.budget(self.params.std, self.params.epsilon, self.params.delta)

    def train(self, task: Task, rows: Tensor) -> None:
        """Train with a new random term on the task's nodes.

        Args:
            task: What is retained.
            rows: float64 [n, F], propagated and centred, in the order of the task's nodes.
        """
        y = logistic.signs(task.graph.y, task.graph.num_classes)
        rng = task.generator(self.name, "noise", self._trainings)
        self._weights, steps, self._spent = logistic.train(rows, y, self.params.lam, self.params.std, rng)
        self._trainings += 1
        task.count(steps=steps, node_epochs=steps * len(rows))
        logistic.check_within(self._spent, self.budget)

    def gradient(self, task: Task, rows: Tensor) -> Tensor:
        """Return the gradient of the loss of a task's nodes at the weights, float64 [F, C]."""
        y = logistic.signs(task.graph.y, task.graph.num_classes)
        return logistic.gradient(self._weights, rows, y, self.params.lam)

    def stepped(self, rows: Tensor, change: Tensor) -> tuple[Tensor, float]:
        """Take a Newton step without deploying it.

        Args:
            rows: float64 [n, F], those of the retained nodes.
            change: float64 [F, C], the gradient before the request less that after it.

        Returns:
            The weights after it, and the gradient that is spent with it.
        """
        lam, gamma = self.params.lam, logistic.GAMMA[self.params.constant]
        step = logistic.solve(self._weights, rows, lam, change)
        residual = change - logistic.product(self._weights, rows, lam, step)
        spent = self._spent + logistic.residual_bound(rows, step, gamma) + float(residual.norm())
        return self._weights + step, spent

    def log_probabilities(self, rows: Tensor) -> Tensor:
        """Return the logarithm of the normalised probabilities of the one-against-rest regressions, float64 [n, C].

        Args:
            rows: float64 [n, F], propagated, not centred.
        """
        return logistic.log_probabilities((rows - self._centre) @ self._weights)

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights, float64 [F, C], and the centre subtracted from features, float64 [F]."""
        return {"members/000/weight": self._weights.clone(), "members/000/centre": self._centre.clone()}
