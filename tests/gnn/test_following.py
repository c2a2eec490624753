"""Following a training: the loss of each epoch is that of the networks before its step."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from unlearnbench.gnn import train_networks
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Training
from unlearnbench.task.training import AfterEpoch, Answer, Silent
from unlearnbench.testing.graphs import toy_graph, toy_task


class Followed(Silent):
    def __init__(self) -> None:
        self.losses: list[Tensor] = []
        self.asked: list[tuple[str, int, list[int]]] = []

    def follow(self, role: str, step: int, networks: Sequence[int], answer: Answer) -> AfterEpoch:
        self.asked.append((role, step, list(networks)))
        self.answer = answer
        return self.losses.append


@pytest.mark.parametrize("batch_size", [0, 100])
def test_the_loss_is_the_mean_cross_entropy_before_the_step(batch_size: int) -> None:
    listener = Followed()
    model = resolve(load_catalogue(), "model", "gcn[dropout=0]")
    task = replace(toy_task(toy_graph()), model=model, listener=listener)
    graphs = [task.graph, task.graph.induced(task.graph.ids[:12])]
    training = Training(epochs=2, batch_size=batch_size, fanouts=(1000, 1000))
    networks = train_networks(replace(task, training=training), graphs, [3, 5], step=1)
    assert listener.asked == [("member", 1, [3, 5])]
    shown = listener.answer(task.graph, torch.arange(4))
    assert shown is not None
    assert torch.equal(shown, networks.predict_shared(task.graph, torch.arange(4))[1])
    for epoch, losses in enumerate(listener.losses):
        silent = replace(task, training=replace(training, epochs=epoch), listener=Silent())
        answers = train_networks(silent, graphs, [3, 5], step=1).predict(graphs)
        by_hand = [cross_entropy(logits, graph.y) for (_, logits), graph in zip(answers, graphs, strict=True)]
        assert torch.allclose(losses, torch.stack(by_hand), atol=1e-5)
    assert len(listener.losses) == 2
