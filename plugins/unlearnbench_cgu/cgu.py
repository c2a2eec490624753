"""CGU: objective perturbation, one Newton step per request, and retraining when the budget is spent."""

from __future__ import annotations

from typing import Literal

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Paper, Query, Request, Task, later
from unlearnbench.unlearning import CertifiedRegression, Normalisation, propagated, propagation_steps


class Cgu(CertifiedRegression):
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
    released = {"std": 0.01}

    class Params(CertifiedRegression.Params):
        """The certificate, the noise, the penalty and the propagation."""

        normalisation: Normalisation = Field(
            default="mean", description="Propagate the mean of neighbours, as the paper, or as the model sgc does."
        )
        centre: bool = Field(default=True, description="Subtract the mean of the retained nodes' propagated features.")
        constant: Literal["paper", "tight"] = later(
            "paper", "Lipschitz constant in the bound: the paper's, 1/4, or the least, .096: tight."
        )

    def fit(self, task: Task) -> None:
        """Propagate and train.

        Raises:
            RefusedError: The base model is not `sgc`: nothing is trained.
        """
        self._steps = propagation_steps(task, self.name)
        self._trainings = 0
        with task.phase("train"):
            rows, self._centre = self._centred(task)
            self.train(task, rows)
        self._task = task

    def _centred(self, task: Task) -> tuple[Tensor, Tensor]:
        rows = propagated(task.graph, self._steps, self.params.normalisation)
        centre = rows.mean(dim=0) if self.params.centre else torch.zeros_like(rows[0])
        return rows - centre, centre

    def unlearn(self, request: Request, retained: Task) -> None:
        """Step, or retrain where the bound of the step exceeds the budget."""
        with retained.phase("update"):
            rows, centre = self._centred(retained)
            change = self.gradient(self._task, self._centred(self._task)[0]) - self.gradient(retained, rows)
            weights, spent = self.stepped(rows, change)
        fits = spent <= self.budget
        if fits:
            self._weights, self._spent = weights, spent
        else:
            with retained.phase("retrain"):
                self.train(retained, rows)
        retained.count(retrained=int(not fits))
        self._task, self._centre = retained, centre

    def predict(self, query: Query) -> Tensor:
        """Return the logarithm of the normalised probabilities of the one-against-rest regressions."""
        graph = query.context(self._task.graph.ids)
        rows = propagated(graph, self._steps, self.params.normalisation)[graph.positions(query.targets)]
        return self.log_probabilities(rows)
