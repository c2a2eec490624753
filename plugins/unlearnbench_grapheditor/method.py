"""GraphEditor: closed-form training, and requests served by exchanging rows in the inverse."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from pydantic import Field
from torch import Tensor
from torch.nn import functional

from unlearnbench import Claim, ComponentParams, Graph, Query, Request, Task, Unlearner, search
from unlearnbench.unlearning import (
    LINEAR_MODEL,
    Normalisation,
    changed_rows,
    propagated,
    propagation_steps,
    softmax_regression,
)
from unlearnbench_grapheditor import ridge


class GraphEditor(Unlearner):
    """Ridge regression of one-hot labels on propagated features (Cong and Mahdavi).

    To forget, the rows that the request removes or changes are taken out of the inverse of the
    regression's Gram matrix, and the rows that changed are put in again as they are now.

    Between requests that inverse, Z'Y and the retained task are kept.
    """

    name = "graph-editor"
    title = "GraphEditor"
    version = 1
    summary = "Ridge regression on propagated features; a request exchanges rows in its inverse."
    reference = (
        "Cong and Mahdavi, GraphEditor: An Efficient Graph Representation Learning and Unlearning Approach, 2022,"
        " the closed form and its updates"
    )
    claim = Claim.APPROXIMATE
    claim_reason = "exact but for rounding"
    forgets = frozenset({"node", "edge"})
    models = frozenset({LINEAR_MODEL})
    uses_training = False
    supports_edge_weight = True
    _task: Task
    _inverse: Tensor
    _products: Tensor

    class Params(ComponentParams):
        """The regression, the propagation and the fine-tuning."""

        lam: float = Field(
            default=0.1,
            gt=0,
            allow_inf_nan=False,
            description="Ridge penalty; not per node.",
            json_schema_extra=search(0.001, 100.0, log=True),
        )
        normalisation: Normalisation = Field(
            default="symmetric", description="Propagate as the model sgc does, or the mean of neighbours."
        )
        finetune: int = Field(default=0, ge=0, description="Steps of L-BFGS on the cross-entropy, afterwards.")

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        if self.params.finetune:
            self.claim_reason = ""

    def fit(self, task: Task) -> None:
        """Propagate and solve.

        Raises:
            RefusedError: The base model is not `sgc`: nothing is trained.
        """
        self._steps = propagation_steps(task, self.name)
        with task.phase("train"):
            self._solve_afresh(task)
            self._deploy(task)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Exchange the rows in reach of the request, or solve afresh where that is cheaper."""
        former = self._task.graph
        with retained.phase("update"):
            reached = former.ids[changed_rows(former, request, self._steps, self.params.normalisation)]
            left = reached[retained.graph.contains(reached)]
            inverse = None
            if not ridge.is_cheaper_afresh(len(reached) + len(left), retained.graph.num_nodes, len(self._inverse)):
                gone, gone_y = self._sample(former, reached)
                come, come_y = self._sample(retained.graph, left)
                inverse = ridge.exchanged(self._inverse, gone, come)
            if inverse is None:
                self._solve_afresh(retained)
            else:
                self._inverse, self._products = inverse, self._products + come.T @ come_y - gone.T @ gone_y
                self._task = retained
            self._deploy(retained)
        retained.count(rows_changed=len(reached), solved_afresh=int(inverse is None))

    def _sample(self, graph: Graph, ids: Tensor) -> tuple[Tensor, Tensor]:
        """Return the rows of some nodes, the last column constant, and their labels, one-hot, both float64."""
        at = graph.positions(ids)
        return self._rows(graph, at), functional.one_hot(graph.y[at], graph.num_classes).to(torch.float64)

    def _rows(self, graph: Graph, at: Tensor) -> Tensor:
        return functional.pad(propagated(graph, self._steps, self.params.normalisation, at), (0, 1), value=1.0)

    def _solve_afresh(self, task: Task) -> None:
        rows, y = self._sample(task.graph, task.graph.ids)
        self._inverse, self._products, self._task = ridge.inverse(rows, self.params.lam), rows.T @ y, task

    def _deploy(self, task: Task) -> None:
        self._weights = self._inverse @ self._products
        if self.params.finetune:
            rows, y = self._sample(task.graph, task.graph.ids)
            labels = y.argmax(dim=1)
            self._weights, steps = softmax_regression(rows, labels, self._weights, 0.0, self.params.finetune)
            task.count(steps=steps, node_epochs=steps * len(rows))

    def predict(self, query: Query) -> Tensor:
        """Return the log-softmax of the regression's outputs: the largest output is the predicted class."""
        graph = query.context(self._task.graph.ids)
        rows = self._rows(graph, graph.positions(query.targets))
        return torch.log_softmax(rows @ self._weights, dim=1).to(torch.float32)

    def state(self) -> Mapping[str, Tensor]:
        """Return the weights, float64 [F + 1, C], the last row of which is the bias."""
        return {"members/000/weight": self._weights.clone()}
