"""CGU: objective perturbation, one Newton step per request, and retraining when the budget is spent."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Claim, ComponentParams, Paper, Query, Request, Task, Unlearner, later, search
from unlearnbench.unlearning import LINEAR_MODEL, Normalisation, logistic, propagated, propagation_steps


class Cgu(Unlearner):
    """Logistic regressions on propagated features, certified for what they forget (Chien et al., ICLR 2023).

    A random linear term in the loss hides a gradient of bounded norm. A request is answered by a Newton
    step; the gradient it may leave is bounded, and the bounds of all requests add up. Before they
    exceed the budget the model is retrained with a new random term.

    Between requests the weights, the retained task and the gradient spent so far are kept.
    """

    name = "cgu"
    title = "CGU"
    version = 1
    summary = "Certified: a Newton step on a noisy linear SGC, with a budget."
    reference = (
        "Chien, Pan and Milenkovic, Efficient Model Updates for Approximate Unlearning, ICLR 2023, theorems on SGC"
    )
    paper = Paper(
        "Chien, Eli and Pan, Chao and Milenkovic, Olgica",
        "Efficient Model Updates for Approximate Unlearning of Graph-Structured Data",
        "International Conference on Learning Representations",
        2023,
        "https://openreview.net/forum?id=fhcu4FBLciL",
    )
    claim = Claim.CERTIFIED
    forgets = frozenset({"node", "edge", "feature"})
    models = frozenset({LINEAR_MODEL})
    uses_training = False
    released = {"std": 0.01}
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
        normalisation: Normalisation = Field(
            default="mean", description="Propagate the mean of neighbours, as the paper, or as the model sgc does."
        )
        centre: bool = Field(default=True, description="Subtract the mean of the retained nodes' propagated features.")
        constant: Literal["paper", "tight"] = later(
            "paper", "Lipschitz constant in the bound: the paper's, 1/4, or the least, .096: tight."
        )

    def __init__(self, params: Any = None) -> None:
        super().__init__(params)
        self.claim_reason = f"epsilon {self.params.epsilon:g}, delta {self.params.delta:g}"

    def fit(self, task: Task) -> None:
        """Propagate and train.

        Raises:
            RefusedError: The base model is not `sgc`: nothing is trained.
        """
        self._steps = propagation_steps(task, self.name)
        self._trainings = 0
        with task.phase("train"):
            rows, self._centre = self._centred(task)
            self._train(task, rows)
        self._task = task

    def _centred(self, task: Task) -> tuple[Tensor, Tensor]:
        rows = propagated(task.graph, self._steps, self.params.normalisation)
        centre = rows.mean(dim=0) if self.params.centre else torch.zeros_like(rows[0])
        return rows - centre, centre

    def _train(self, task: Task, rows: Tensor) -> None:
        y = logistic.signs(task.graph.y, task.graph.num_classes)
        rng = task.generator(self.name, "noise", self._trainings)
        self._weights, steps, self._spent = logistic.train(rows, y, self.params.lam, self.params.std, rng)
        self._trainings += 1
        task.count(steps=steps, node_epochs=steps * len(rows))
        logistic.check_within(self._spent, self.budget)

    @property
    def budget(self) -> float:
        """The largest gradient that the random term hides."""
        return logistic.budget(self.params.std, self.params.epsilon, self.params.delta)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Step, or retrain where the bound of the step exceeds the budget."""
        weights, lam, gamma = self._weights, self.params.lam, logistic.GAMMA[self.params.constant]
        with retained.phase("update"):
            rows, centre = self._centred(retained)
            change = self._gradient(self._task, self._centred(self._task)[0]) - self._gradient(retained, rows)
            step = logistic.solve(weights, rows, lam, change)
            residual = change - logistic.product(weights, rows, lam, step)
            spent = self._spent + logistic.residual_bound(rows, step, gamma) + float(residual.norm())
        fits = spent <= self.budget
        if fits:
            self._weights, self._spent = weights + step, spent
        else:
            with retained.phase("retrain"):
                self._train(retained, rows)
        retained.count(retrained=int(not fits))
        self._task, self._centre = retained, centre

    def _gradient(self, task: Task, rows: Tensor) -> Tensor:
        y = logistic.signs(task.graph.y, task.graph.num_classes)
        return logistic.gradient(self._weights, rows, y, self.params.lam)

    def predict(self, query: Query) -> Tensor:
        """Return the logarithm of the normalised probabilities of the one-against-rest regressions."""
        graph = query.context(self._task.graph.ids)
        rows = propagated(graph, self._steps, self.params.normalisation)[graph.positions(query.targets)]
        return logistic.log_probabilities((rows - self._centre) @ self._weights)

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights, float64 [F, C], and the centre subtracted from features, float64 [F]."""
        return {"members/000/weight": self._weights.clone(), "members/000/centre": self._centre.clone()}
