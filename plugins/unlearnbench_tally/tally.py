"""Tally: a linear head in closed form, and its scores smoothed over the retained graph."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

import torch
from pydantic import Field
from torch import Tensor

from unlearnbench import Claim, ComponentParams, Query, Request, Task, Unlearner, UsageError, search
from unlearnbench.unlearning import smooth
from unlearnbench_tally.features import Random, make_features
from unlearnbench_tally.hops import GraphNeighbourhood, Hops, Mode, Normalisation
from unlearnbench_tally.regression import MOST_COLUMNS, FromRows, FromSums, Penalty, Regression

# The density of scores around a one-hot label has this many times the variance of the ridge regression's errors.
_SPREAD = 2


class Tally(Unlearner):
    """Ridge regression of labels on nodes' own rows; the graph enters when answering.

    The head depends on the training nodes through sums alone. Rows are whole numbers, and so the sums are exact:
    subtracting a row gives, bit for bit, the sums of a run that never saw it. Scores are smoothed over the
    retained graph, with the labels of retained training nodes as anchors (Huang et al., ICLR 2021).

    Between requests rows, labels, with `hops` also neighbour lists, and the sums are kept, of retained nodes alone.
    """

    name = "tally"
    title = "Tally"
    version = 1
    summary = "Exact: ridge regression from whole-number sums, smoothed over the graph."
    reference = (
        "ours; sums as in Cao and Yang, Towards Making Systems Forget with Machine Unlearning, IEEE S&P 2015;"
        " smoothing of Correct and Smooth"
    )
    claim = Claim.EXACT
    forgets = frozenset({"node", "edge", "feature"})
    uses_training = False
    supports_edge_weight = True

    class Params(ComponentParams):
        """Rows, penalty, solver, smoothing."""

        hops: int = Field(default=0, ge=0, description="Hops over which rows are averaged; 0: a node's own row.")
        hops_mode: Mode = Field(default="all", description="Rows after the last hop, or those of all side by side.")
        normalisation: Normalisation = Field(
            default="random-walk", description="Mean over neighbours, or weighted by degree: changes one hop more."
        )
        random: Random = Field(default="none", description="Fixed random functions of the features.")
        width: int = Field(default=512, ge=1, description="Columns of random features.")
        bandwidth: float = Field(default=1.0, gt=0, description="Of random Fourier features.")
        ridge: Annotated[float, Field(gt=0)] | Literal["gcv"] = Field(
            default=1.0,
            description="Penalty for rows of length one; gcv: by generalised cross-validation.",
            json_schema_extra=search(0.01, 100.0, log=True),
        )
        class_weight: Literal["none", "balanced"] = Field(default="none", description="Weights of classes.")
        solver: Literal["auto", "sums", "rows"] = Field(
            default="auto", description=f"Cholesky of sums, or, above {MOST_COLUMNS} columns, conjugate gradients."
        )
        bits: int = Field(default=12, ge=4, le=20, description="Rows are rounded to multiples of 2^-bits.")
        smoothing: float = Field(
            default=0.5,
            ge=0,
            lt=1,
            description="Weight of neighbours in a round; 0: off.",
            json_schema_extra=search(0.0, 0.9),
        )
        rounds: int = Field(default=3, ge=1, description="Rounds of smoothing, one hop each.")

    def __init__(self, params: Params | None = None) -> None:
        super().__init__(params)
        # Smoothing uses weights. Sums over weighted neighbours would be no whole numbers, and so not exact.
        self.supports_edge_weight = self.params.hops == 0

    def fit(self, task: Task) -> None:
        """Compute the head.

        Raises:
            UsageError: The sums would not be exact, or the solver cannot choose the penalty.
        """
        self._regression = self._regression_of(task)
        with task.phase("train"):
            self._regression.fit(task)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Compute the head without what is forgotten."""
        self._regression.unlearn(request, retained)

    def predict(self, query: Query) -> Tensor:
        """Return the logarithm of smoothed scores as probabilities: the two views are the same."""
        p, head = self.params, self._regression.head
        ids, labels = self._regression.anchors()
        graph = query.context(ids)
        targets = graph.positions(query.targets)
        source = GraphNeighbourhood(graph, self._regression.features, p.hops)
        nodes, of_target = targets.unique(return_inverse=True)
        rows = self._regression.hops.rows(source, nodes) * 2.0**-p.bits
        # Not 0, so that a row whose scores are all negative can be normalised.
        scores = (rows @ head.weight + head.bias).clamp(min=1e-9)
        scores = (scores / scores.sum(dim=1, keepdim=True))[of_target]
        if p.smoothing:
            every = scores.new_full((graph.num_nodes, graph.num_classes), 1 / graph.num_classes)
            every[targets] = scores
            present = graph.contains(ids)
            anchors = graph.positions(ids[present])
            known = labels[present]
            scores = smooth(every, graph.edge_index, anchors, known, p.smoothing, p.rounds, targets, graph.edge_weight)
        return torch.log_softmax(scores / (_SPREAD * head.variance), dim=1).to(torch.float32)

    def state(self) -> Mapping[str, Tensor]:
        """Return the head, the sums, and the labels that scores are smoothed with."""
        head = self._regression.head
        ids, labels = self._regression.anchors()
        return {
            "members/000/weight": head.weight.clone(),
            "members/000/bias": head.bias.clone(),
            "members/000/variance": head.variance.clone(),
            "smoothing/ids": ids.clone(),
            "smoothing/labels": labels.clone(),
            **self._regression.state(),
        }

    def _regression_of(self, task: Task) -> Regression:
        """Choose the solver from the parameters and the number of features, on which no request has influence."""
        p = self.params
        columns = task.graph.num_features if p.random == "none" else p.width
        columns *= p.hops + 1 if p.hops and p.hops_mode == "all" else 1
        solver = p.solver
        if solver == "auto":
            solver = "sums" if columns <= MOST_COLUMNS or p.ridge == "gcv" else "rows"
        if solver == "rows" and p.ridge == "gcv":
            raise UsageError("tally: `ridge` gcv is computed from the sums.", "Use `solver` sums, or give a `ridge`.")
        penalty = Penalty(None if p.ridge == "gcv" else float(p.ridge), p.class_weight == "balanced")
        features = make_features(task, p.bits, p.random, p.width, p.bandwidth)
        hops = Hops(p.hops, p.hops_mode, p.normalisation, p.bits)
        return FromSums(features, hops, penalty) if solver == "sums" else FromRows(features, hops, penalty)
