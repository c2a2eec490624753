"""Fine-tuning: training goes on, on the retained graph."""

from __future__ import annotations

from dataclasses import replace

from pydantic import Field

from unlearnbench import Claim, ComponentParams, Paper, PostHoc, Request, Task, search, train_networks
from unlearnbench.gnn import Networks


class Finetune(PostHoc):
    """Trains the trained network further, without the request; what it has learned of it fades."""

    name = "finetune"
    title = "Fine-tuning"
    version = 1
    summary = "Training goes on, on what is retained."
    reference = "fine-tuning of Golatkar et al., Eternal Sunshine of the Spotless Net, CVPR 2020"
    paper = Paper(
        "Golatkar, Aditya and Achille, Alessandro and Soatto, Stefano",
        "Eternal Sunshine of the Spotless Net: Selective Forgetting in Deep Networks",
        "IEEE/CVF Conference on Computer Vision and Pattern Recognition",
        2020,
        "https://arxiv.org/abs/1911.04933",
    )
    claim = Claim.APPROXIMATE
    forgets = frozenset({"node", "edge", "feature"})
    settings = frozenset({"inductive", "transductive"})

    class Params(ComponentParams):
        """How long, and how fast."""

        epochs: int = Field(
            default=30,
            ge=0,
            description="Epochs on what is retained; 0: nothing changes.",
            json_schema_extra=search(10, 100, log=True),
        )
        lr: float | None = Field(
            default=None,
            gt=0,
            description="Learning rate; left out: that of the training.",
            json_schema_extra=search(0.001, 0.03, log=True),
        )

    def update(self, network: Networks, task: Task, request: Request, retained: Task) -> Networks:
        """Train a copy further."""
        lr = retained.training.lr if self.params.lr is None else self.params.lr
        further = replace(retained, training=replace(retained.training, epochs=self.params.epochs, lr=lr))
        return train_networks(further, [retained.seen], [0], role=self.name, start={0: network.state(0)})
