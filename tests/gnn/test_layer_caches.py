"""B10: no layer answers from the adjacency of a graph it saw before: after a request every model sees what is left."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import ONCE, SHARDS, command, install
from plugin_samples import Write, source_of
from torch import Tensor, nn
from torch_geometric.nn import GCNConv

from unlearnbench.component import Spec
from unlearnbench.gnn import Model, train_networks
from unlearnbench.graph import Graph
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.task import Task
from unlearnbench.testing.graphs import toy_graph, toy_task

__all__ = ["command", "install"]

MODELS = load_catalogue().names("model")


class Layers(nn.Module):
    """Two layers of PyG, with the switch that keeps the normalised adjacency first seen."""

    def __init__(self, features, classes, cached):
        super().__init__()
        self.conv1, self.conv2 = (GCNConv(size, 16, cached=cached) for size in (features, 16))
        self.linear = nn.Linear(16, classes)

    def embed(self, x, edge_index):
        return self.conv2(self.conv1(x, edge_index).relu(), edge_index).relu()

    def head(self, h):
        return self.linear(h)


class Uncached(Model):
    name = "uncached"
    cached = False

    def build(self, num_features, num_classes, generator):
        return Layers(num_features, num_classes, self.cached)


class Cached(Uncached):
    name = "cached"
    cached = True


class Keeping(Uncached):
    """Keeps the first adjacency by itself, as a layer of anybody's may."""

    name = "keeping"

    def build(self, num_features, num_classes, generator):
        module = super().build(num_features, num_classes, generator)
        embed = module.embed
        seen = []

        def kept(x, edge_index):
            seen.append(edge_index)
            return embed(x, seen[0])

        module.embed = kept
        return module


CLASSES: dict[str, type[Model]] = {cls.name: cls for cls in (Uncached, Cached, Keeping)}


def spec(name: str) -> Spec:
    cls = CLASSES[name]
    return Spec("model", name, 1, cls, cls.Params())


def three(*pairs: tuple[int, int]) -> Graph:
    ends = torch.tensor(pairs).t()
    edges = torch.cat([ends, ends.flip(0)], dim=1)
    return Graph(torch.eye(3) + 0.5, torch.tensor([0, 1, 0]), edges, torch.arange(3), 2)


def trained_and_asked(task: Task, first: Graph, second: Graph) -> list[Tensor]:
    networks = train_networks(task, [first, first], [0, 1])
    alone = networks.predict([second, second])
    shared = networks.predict_shared(second, torch.arange(second.num_nodes))
    return [*(part for answer in alone for part in answer), *shared]


def fresh_copy_asked(task: Task, first: Graph, second: Graph) -> list[Tensor]:
    """Ask networks with the same parameters that never saw the first graph."""
    trained = train_networks(task, [first, first], [0, 1])
    start = {number: trained.state(number) for number in (0, 1)}
    untouched = train_networks(replace(task, training=replace(task.training, epochs=0)), [second, second], [0, 1],
                               start=start)  # fmt: skip
    answers = untouched.predict([second, second])
    shared = untouched.predict_shared(second, torch.arange(second.num_nodes))
    return [*(part for answer in answers for part in answer), *shared]


@pytest.mark.parametrize("pairs", [[(1, 2)], [(0, 1), (1, 2)]], ids=["as many edges", "more edges"])
@pytest.mark.parametrize("name", ["uncached", "cached", "keeping"])
def test_the_example_of_three_nodes(name: str, pairs: list[tuple[int, int]]) -> None:
    first, second = three((0, 1)), three(*pairs)
    answers = {one: trained_and_asked(replace(toy_task(first, epochs=20), model=spec(one)), first, second)
               for one in ("uncached", name)}  # fmt: skip
    torch.testing.assert_close(answers[name], answers["uncached"])
    old = trained_and_asked(replace(toy_task(first, epochs=20), model=spec("uncached")), first, first)
    assert not torch.allclose(answers[name][1], old[1])


@pytest.mark.parametrize("model", [*MODELS, "uncached", "cached", "keeping"])
def test_every_model_answers_as_a_copy_that_never_saw_the_former_graph(model: str) -> None:
    first, second = toy_graph(), toy_graph(seed=4)
    task = toy_task(first, model=model if model in MODELS else "gcn")
    task = task if model in MODELS else replace(task, model=spec(model))
    found, fresh = trained_and_asked(task, first, second), fresh_copy_asked(task, first, second)
    assert all(torch.equal(one, other) for one, other in zip(found, fresh, strict=True))


@pytest.mark.slow
def test_a_run_with_a_caching_model_of_a_plugin_scores_as_without_the_cache(
    command: Any, install: Write, tmp_path: Path
) -> None:
    head = "from torch import nn\nfrom torch_geometric.nn import GCNConv\nfrom unlearnbench import Model\n"
    install("ub-layers", source_of(head + inspect.getsource(Layers), "model", *CLASSES.values()))
    found = {}
    for name in ("uncached", "cached", "keeping"):
        out = tmp_path / name
        told = command("run", "-m", "sisa,gif", "--models", name, *ONCE, *SHARDS, "--out", str(out))
        assert "3 cells: 3 ok" in told.err
        for path in out.glob("records/*/*/*/*.npz"):
            with np.load(path) as arrays:
                found[name, path.parent.name] = {key: arrays[key] for key in arrays}
    assert len(found) == 9
    for (name, method), arrays in found.items():
        plain = found["uncached", method]
        assert arrays.keys() == plain.keys()
        for key, value in arrays.items():
            np.testing.assert_allclose(value, plain[key], rtol=1e-4, atol=1e-5, err_msg=f"{name} {method} {key}")
