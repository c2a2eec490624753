"""A method that smooths another method's predictions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from pydantic import Field, model_validator
from torch import Tensor
from typing_extensions import override

from unlearnbench import Claim, ComponentParams, Query, Request, Spec, Task, Unlearner, View, part, search
from unlearnbench.unlearning import smooth


class Smoothed(Unlearner):
    """Trains and forgets as another method does, and smooths its predictions in the full view.

    Labels of retained training nodes are the anchors: the smoothing half of Correct and Smooth.
    Nothing is trained on them, so that forgetting a node's label means dropping it.
    """

    name = "smoothed"
    title = "Smoothed"
    version = 1
    summary = "Any method, its full view smoothed over the retained graph."
    reference = "Huang et al., Combining Label Propagation and Simple Models, ICLR 2021, equation 6"
    named_by_parts = True

    class Params(ComponentParams):
        """The method, and how its predictions are smoothed."""

        method: Spec = part("unlearner", "sisa", "Whose predictions are smoothed.")
        share: float = Field(
            default=0.7,
            ge=0,
            lt=1,
            description="Weight of the neighbours; 0: no smoothing.",
            json_schema_extra=search(0.0, 0.95),
        )
        rounds: int = Field(default=15, ge=0, description="Rounds of smoothing; 0: no smoothing.")

        @model_validator(mode="after")
        def _once(self) -> Smoothed.Params:
            if issubclass(self.method.cls, Smoothed):
                raise ValueError("the method is smoothed already")
            return self

    def __init__(self, params: Params) -> None:
        super().__init__(params)
        self._method: Unlearner = params.method.build()
        self.forgets, self.models = self._method.forgets, self._method.models  # type: ignore[misc]
        self.supports_edge_weight = self._method.supports_edge_weight

    @classmethod
    def references(cls, params: Params) -> Sequence[str]:
        """Return Retrain with the same smoothing."""
        return [f"{cls.name}[method=retrain,share={params.share},rounds={params.rounds}]"]

    @property
    def claim(self) -> Claim:  # type: ignore[override]
        """The claim of the method."""
        return self._method.claim

    @property
    def claim_reason(self) -> str:  # type: ignore[override]
        """The reason of the method."""
        return self._method.claim_reason

    @property
    def deletes_at_inference(self) -> bool:  # type: ignore[override]
        """Whether the method does."""
        return self._method.deletes_at_inference

    @property
    def num_shards(self) -> int:
        """The number of shards of the method, 0 if it has none."""
        return getattr(self._method, "num_shards", 0)

    def fit(self, task: Task) -> None:
        """Train the method, on the same task as without smoothing and so with the same bits."""
        self._method.fit(task)
        self._anchor(task)

    def unlearn(self, request: Request, retained: Task) -> None:
        """Let the method forget, and drop the labels of forgotten nodes."""
        self._method.unlearn(request, retained)
        if self.deletes_at_inference:
            self._anchor(retained)

    def predict(self, query: Query) -> Tensor:
        """Return the method's predictions, in the full view smoothed.

        Other views do not hold the retained graph, which smoothing needs.
        """
        answer = self._method.predict(query)
        if query.view is not View.FULL:
            return answer
        graph = query.context(self._ids)
        targets = graph.positions(query.targets)
        # Before a request an audit asks over the graph without the nodes to be forgotten.
        held = graph.contains(self._ids)
        probabilities = answer.new_zeros(graph.num_nodes, graph.num_classes)
        probabilities[targets] = answer.exp()
        smoothed = smooth(
            probabilities,
            graph.edge_index,
            graph.positions(self._ids[held]),
            self._labels[held],
            self.params.share,
            self.params.rounds,
            targets,
            graph.edge_weight,
        )
        # A class that neither the method nor a neighbour names has probability 0.
        return smoothed.clamp(min=torch.finfo(smoothed.dtype).tiny).log()

    def state(self) -> Mapping[str, Tensor]:
        """Return the method's parameters, and the anchors with their labels."""
        return {**self._method.state(), "anchors/ids": self._ids, "anchors/labels": self._labels}

    def kept(self) -> Mapping[str, Tensor]:
        """Return what the method keeps."""
        return self._method.kept()

    @override
    def memory(self) -> Mapping[str, Tensor]:
        return self._method.memory()

    @override
    def resume(
        self, task: Task, state: Mapping[str, Tensor], kept: Mapping[str, Tensor], memory: Mapping[str, Tensor]
    ) -> None:
        self._method.resume(task, state, kept, memory)
        self._ids, self._labels = state["anchors/ids"].to(task.device), state["anchors/labels"].to(task.device)

    @override
    def can_resume(self) -> bool:
        return self._method.can_resume()

    def _anchor(self, task: Task) -> None:
        self._ids, self._labels = task.graph.ids.clone(), task.graph.y.clone()
