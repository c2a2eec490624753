"""Relearning curves: areas and steps worked by hand, and what a step depends on."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from audit_samples import toy_subject
from torch.nn import functional

from unlearnbench.audits.relearning.curves import Curves, Recipe, relearn
from unlearnbench.gnn import train_networks

RECIPE = Recipe(steps=5, lr=0.01)


def test_area_is_the_mean_loss_on_the_way_and_steps_are_counted_to_the_target() -> None:
    loss = torch.tensor([[4.0, 1.0, 3.0], [2.0, 1.0, 1.0], [2.0, 1.0, 2.0], [0.0, 1.0, 0.5]], dtype=torch.float64)
    curves = Curves(loss, torch.zeros_like(loss))
    # (3 + 2 + 1) / 3, and (2 + 1.5 + 1.25) / 3.
    assert curves.area.tolist() == pytest.approx([2.0, 1.0, 4.75 / 3])
    # Reached at the first step, never, and before a later rise.
    assert curves.steps_to(torch.tensor([2.0, 0.5, 1.5], dtype=torch.float64)).tolist() == [1, 4, 1]
    assert curves.steps_to(loss[0]).tolist() == [0, 0, 0]


def test_networks_relearn_in_lockstep_as_each_does_alone() -> None:
    subject = toy_subject("retrain", ratio=0.2)
    task, ids = subject.task(), subject.request.ids
    graphs = [task.graph, task.graph.induced(torch.cat([ids[:5], task.graph.ids[~torch.isin(task.graph.ids, ids)]]))]
    together = relearn(train_networks(task, graphs, [0, 1]), graphs, ids, RECIPE)
    for number, graph in enumerate(graphs):
        alone = relearn(train_networks(task, [graph], [number]), [graph], ids, RECIPE)
        assert torch.allclose(together.loss[:, number], alone.loss[:, 0], rtol=1e-5)
        assert torch.equal(together.accuracy[:, number], alone.accuracy[:, 0])


def test_the_first_point_is_the_loss_when_predicting_and_a_step_goes_down_by_the_learning_rate() -> None:
    subject = toy_subject("retrain", ratio=0.2)
    task, ids = subject.task(), subject.request.ids
    networks = train_networks(task, [task.graph], [0])
    before = [parameter.detach().clone() for parameter in networks.parameters()]
    ((_, logits),) = networks.predict([task.graph])
    at = task.graph.positions(ids)
    curves = relearn(networks, [task.graph], ids, Recipe(1, 0.01))
    assert curves.loss.shape == curves.accuracy.shape == (2, 1)
    assert float(curves.loss[0]) == pytest.approx(float(functional.cross_entropy(logits[at], task.graph.y[at])))
    assert float(curves.accuracy[0]) == pytest.approx(float((logits[at].argmax(1) == task.graph.y[at]).double().mean()))
    assert float(curves.loss[1]) < float(curves.loss[0])
    # Adam's first step is the learning rate, against the sign of the gradient.
    moved = torch.cat(
        [(new.detach() - old).abs().flatten() for new, old in zip(networks.parameters(), before, strict=True)]
    )
    assert float(moved.max()) == pytest.approx(0.01, rel=1e-3)


def test_labels_of_other_nodes_do_not_count() -> None:
    subject = toy_subject("retrain", ratio=0.2)
    task, ids = subject.task(), subject.request.ids
    others = ~torch.isin(task.graph.ids, ids)
    changed = replace(task.graph, y=torch.where(others, 0, task.graph.y))
    one, other = (
        relearn(train_networks(task, [task.graph], [0]), [graph], ids, RECIPE) for graph in (task.graph, changed)
    )
    assert torch.equal(one.loss, other.loss)
