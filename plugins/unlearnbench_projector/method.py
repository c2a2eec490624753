"""Projector: the part of the weights that only the forgotten nodes' features span is removed."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Claim, ComponentParams, Paper, Query, Request, Task, Unlearner, search
from unlearnbench.unlearning import LINEAR_MODEL, Normalisation, propagated, propagation_steps, softmax_regression
from unlearnbench_projector import projection

# Training ends long before, at its optimum.
_MOST_STEPS = 1000


class Projector(Unlearner):
    """Softmax regression on propagated features, projected to forget (Cong and Mahdavi, AISTATS 2023).

    Trained from zero, the weights are a combination of the training nodes' features. To forget they are
    projected onto the span of the remaining nodes' features, then fine-tuned within it.

    Between requests the weights, the dimension of the span and the retained task are kept.
    """

    name = "projector"
    title = "Projector"
    version = 1
    summary = "A linear SGC whose weights are projected onto the span of the remaining features."
    reference = (
        "Cong and Mahdavi, Efficiently Forgetting What You Have Learned in Graph Representation Learning via"
        " Projection, AISTATS 2023, linear GNNs"
    )
    paper = Paper(
        "Cong, Weilin and Mahdavi, Mehrdad",
        "Efficiently Forgetting What You Have Learned in Graph Representation Learning via Projection",
        "International Conference on Artificial Intelligence and Statistics",
        2023,
        "https://arxiv.org/abs/2302.08990",
    )
    claim = Claim.APPROXIMATE
    claim_reason = "features only"
    models = frozenset({LINEAR_MODEL})
    uses_training = False
    supports_edge_weight = True

    class Params(ComponentParams):
        """The training, the propagation and the fine-tuning."""

        lam: float = Field(
            default=1e-5,
            ge=0,
            allow_inf_nan=False,
            description="L2 penalty of the mean loss.",
            json_schema_extra=search(1e-7, 0.01, log=True),
        )
        normalisation: Normalisation = Field(
            default="symmetric", description="Propagate as the model sgc does, or the mean of neighbours."
        )
        finetune: int = Field(default=5, ge=0, description="Steps of L-BFGS on the retained nodes after a projection.")

    def fit(self, task: Task) -> None:
        """Propagate and train.

        Raises:
            RefusedError: The base model is not `sgc`: nothing is trained.
        """
        self._steps = propagation_steps(task, self.name)
        with task.phase("train"):
            start = torch.zeros(
                task.graph.num_features, task.graph.num_classes, dtype=torch.float64, device=task.device
            )
            self._weights = self._trained(task, start, _MOST_STEPS)
            self._rank = len(_basis(task))
        self._task = task

    def unlearn(self, request: Request, retained: Task) -> None:
        """Project and fine-tune; where the span is the same, the projection is the identity and left out."""
        with retained.phase("update"):
            basis = _basis(retained)
            lost, self._rank = max(0, self._rank - len(basis)), len(basis)
            if lost:
                self._weights = projection.projected(self._weights, basis)
            if self.params.finetune:
                self._weights = self._trained(retained, self._weights, self.params.finetune)
        retained.count(dimensions_lost=lost)
        self._task = retained

    def _trained(self, task: Task, start: Tensor, most: int) -> Tensor:
        rows = propagated(task.graph, self._steps, self.params.normalisation)
        weights, steps = softmax_regression(rows, task.graph.y, start, self.params.lam, most)
        task.count(steps=steps, node_epochs=steps * len(rows))
        return weights

    def predict(self, query: Query) -> Tensor:
        """Return the log-probabilities of the regression."""
        graph = query.context(self._task.graph.ids)
        rows = propagated(graph, self._steps, self.params.normalisation, graph.positions(query.targets))
        return torch.log_softmax(rows @ self._weights, dim=1).to(torch.float32)

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights, float64 [F, C]."""
        return {"members/000/weight": self._weights.clone()}


def _basis(task: Task) -> Tensor:
    # Rows of length 1 have the same span, and none of them is lost in rounding.
    return projection.basis(propagated(task.graph, 0, "mean"))
