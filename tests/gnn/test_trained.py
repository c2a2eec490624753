"""A task that knows networks trained before trains none of them twice, and no bit depends on that."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from model_samples import shards
from task_samples import task_of

from unlearnbench.gnn import Networks, train_networks
from unlearnbench.gnn import training as module
from unlearnbench.graph import Graph
from unlearnbench.task import Task
from unlearnbench.testing.graphs import toy_task

PARTS = shards(4, None)


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[list[int]]:
    """The names of the networks of each training."""
    found, original = list[list[int]](), module._train_all

    def train(task: Task, graphs: Sequence[Graph], names: Sequence[int], *others: Any) -> Networks:
        found.append(list(names))
        return original(task, graphs, names, *others)

    monkeypatch.setattr(module, "_train_all", train)
    return found


def same(one: Networks, other: Networks) -> bool:
    return all(
        torch.equal(value, other.state(network)[name])
        for network in range(one.num_networks)
        for name, value in one.state(network).items()
    )


@pytest.mark.parametrize("model", ["gcn", "plain"])
def test_what_is_known_is_not_trained_again_and_has_the_same_bits(model: str, made: list[list[int]]) -> None:
    task = replace(task_of(PARTS[0], model, 3), trained={})
    first = train_networks(task, PARTS[1:3], [1, 2])
    every = train_networks(task, PARTS, range(4))
    again = train_networks(task, PARTS, range(4))
    assert made == [[1, 2], [0, 3]]
    plain = train_networks(replace(task, trained=None), PARTS, range(4))
    assert same(every, plain)
    assert same(again, plain)
    assert all(torch.equal(value, plain.state(2)[name]) for name, value in first.state(1).items())


def test_known_networks_are_copies(made: list[list[int]]) -> None:
    task = replace(toy_task(epochs=2), trained={})
    first = train_networks(task, PARTS[:1], [0])
    wanted = {name: value.clone() for name, value in first.state(0).items()}
    for parameter in (*first.parameters(), *train_networks(task, PARTS[:1], [0]).parameters()):
        parameter.data.fill_(7)
    again = train_networks(task, PARTS[:1], [0]).state(0)
    assert all(torch.equal(value, again[name]) for name, value in wanted.items())
    assert made == [[0]]


def test_whatever_changes_a_training_is_another_one(made: list[list[int]]) -> None:
    task = replace(toy_task(epochs=2), trained={})
    graph = PARTS[0]
    other = replace(graph, x=graph.x + 1)
    tasks = [task, replace(task, seed=task.seed + 1), replace(task, training=replace(task.training, lr=0.5))]
    tasks.append(replace(task, model=toy_task(model="sage").model))
    for one in tasks:
        train_networks(one, [graph], [0])
    start = train_networks(task, [graph], [0]).state(0)
    assert len(made) == 4
    train_networks(task, [other], [0])
    train_networks(task, [replace(graph, y=graph.y.flip(0))], [0])
    train_networks(task, [replace(graph, edge_index=graph.edge_index.flip(1))], [0])
    train_networks(task, [graph], [1])
    train_networks(task, [graph], [0], role="other")
    train_networks(task, [graph], [0], step=1)
    train_networks(task, [graph], [0], start={0: start})
    train_networks(task, [graph], [0], start={0: {name: 2 * value for name, value in start.items()}})
    assert len(made) == len(task.trained or {}) == 12
