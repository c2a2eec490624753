"""B7: combining members changes none of them and gives one answer every time; learned weights cannot collapse."""

from __future__ import annotations

from importlib import metadata
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import ONCE, command, install, records_of
from hypothesis import given
from hypothesis import strategies as st
from plugin_samples import FakePoint, Write, plugin_of, source_of
from torch import Tensor

from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import View
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning.aggregation import Aggregator, Members
from unlearnbench_grapheraser import pools
from unlearnbench_grapheraser.weighted import Weighted, learn_weights

__all__ = ["command", "install"]

CATALOGUE = load_catalogue()
# Every aggregator, those that learn in few steps.
BRACKETS = [
    "majority",
    "mean",
    "mean_log",
    "proportional",
    "attention[epochs=3]",
    "contrastive[epochs=2]",
    "similarity",
    "stacking",
    "weighted[epochs=3]",
    "weighted[epochs=3,pool=prob]",
    "weighted[epochs=3,pool=prob,normalise=step]",
    "weighted[epochs=3,pool=legacy]",
    "weighted[epochs=3,out_of_fold=true]",
]
A, B = [[0.9, 0.1]], [[0.2, 0.8]]


def example() -> Members:
    """The two members of the example, on one node that is in no shard."""
    return Members(torch.zeros(2, 1, 4), torch.tensor([A, B]).log(), torch.tensor([-1]), torch.tensor([30, 30]))


def sample() -> tuple[Graph, Members]:
    graph = toy_graph(40)
    rng = torch.Generator().manual_seed(1)
    logits = torch.randn(3, 40, 3, generator=rng)
    embeddings = torch.randn(3, 40, 8, generator=rng)
    return graph, Members(embeddings, logits, torch.arange(40) % 3, torch.tensor([14, 13, 13]))


def copies(members: Members, graph: Graph) -> list[Tensor]:
    parts = (members.embeddings, members.logits, members.shard, members.sizes, graph.x, graph.y, graph.edge_index)
    return [part.clone() for part in (*parts, graph.ids)]


def test_every_aggregator_is_tried() -> None:
    assert {bracket.partition("[")[0] for bracket in BRACKETS} == set(CATALOGUE.names("aggregator"))


@pytest.mark.parametrize("bracket", ["mean", "proportional", "weighted[pool=prob,epochs=0]"])
def test_the_mean_of_the_example_twice(bracket: str) -> None:
    aggregator: Aggregator = resolve(CATALOGUE, "aggregator", bracket).build()
    members = example()
    if aggregator.sample is not None:
        graph = toy_graph(1)
        aggregator.fit(toy_task(graph, catalogue=CATALOGUE), members, Graph(graph.x, graph.y, graph.edge_index,
                                                                            graph.ids, 2))  # fmt: skip
    for _ in range(2):
        torch.testing.assert_close(aggregator.combine(members).exp(), torch.tensor([[0.55, 0.45]]))
        assert torch.equal(members.logits, example().logits)


@pytest.mark.parametrize("bracket", BRACKETS)
def test_no_aggregator_changes_what_it_is_given_and_two_calls_give_one_answer(bracket: str) -> None:
    graph, members = sample()
    before = copies(members, graph)
    aggregator: Aggregator = resolve(CATALOGUE, "aggregator", bracket).build()
    if aggregator.sample is not None:
        aggregator.fit(toy_task(graph, catalogue=CATALOGUE), members, graph)
    state = {name: value.clone() for name, value in aggregator.state().items()}
    first = aggregator.combine(members)
    kept = first.clone()
    assert torch.equal(aggregator.combine(members), kept)
    assert torch.equal(first, kept)
    torch.testing.assert_close(first.exp().sum(dim=1), torch.ones(40))
    assert all(torch.equal(one, other) for one, other in zip(before, copies(members, graph), strict=True))
    assert all(torch.equal(value, state[name]) for name, value in aggregator.state().items())


def test_normalised_weights() -> None:
    voting = torch.tensor([True, True])
    assert pools.normalised(torch.tensor([0.0, 0.0]), voting).tolist() == [0.5, 0.5]
    assert pools.normalised(torch.tensor([1.0, 3.0]), voting).tolist() == [0.25, 0.75]
    assert pools.normalised(torch.zeros(3), torch.tensor([True, False, True])).tolist() == [0.5, 0, 0.5]


@given(st.lists(st.floats(0, 2.0**127, width=32), min_size=1, max_size=20))
def test_any_weights_become_weights_of_sum_one(values: list[float]) -> None:
    weight = torch.tensor(values)
    found = pools.normalised(weight, torch.ones(len(values), dtype=torch.bool))
    assert bool((found >= 0).all())
    assert float(found.sum()) == pytest.approx(1, rel=1e-4)
    assert weight.tolist() == torch.tensor(values).tolist()


def test_weights_that_are_no_numbers_are_not_passed_off_as_equal_ones() -> None:
    weight = torch.tensor([float("nan"), 1.0])
    assert bool(torch.isnan(pools.normalised(weight, torch.tensor([True, True]))).all())


@pytest.mark.parametrize("pool", ["log_linear", "prob", "legacy"])
def test_weights_that_are_all_driven_to_zero_become_equal(pool: Any) -> None:
    # Both members are wrong about the only node, and the penalty draws the weights to 0.
    said = torch.tensor([[[0.1, 0.9]], [[0.1, 0.9]]]).log()
    settings = Weighted.Params(pool=pool, lr=1.0, keep="last", norm_weight=5.0, epochs=3)
    weight = learn_weights(
        said, torch.tensor([0]), torch.tensor([True, True]), settings, torch.Generator().manual_seed(0)
    )
    assert weight.tolist() == [0.5, 0.5]


@pytest.mark.parametrize("bracket", [bracket for bracket in BRACKETS if bracket.startswith("weighted")])
def test_learned_weights_are_never_negative_and_what_they_give_are_probabilities(bracket: str) -> None:
    graph, members = sample()
    # One member is always wrong: its weight is driven down.
    right = torch.nn.functional.one_hot(graph.y, 3).float()
    members.logits[:] = 2 * right
    members.logits[1] = -10 * right
    aggregator = resolve(CATALOGUE, "aggregator", bracket.replace("epochs=3", "epochs=40,lr=0.1")).build()
    aggregator.fit(toy_task(graph, catalogue=CATALOGUE), members, graph)
    weight = aggregator.state()["weight"]
    assert float(weight[1]) == 0
    assert bool((weight >= 0).all())
    if "pool=" in bracket:
        assert float(weight.sum()) == pytest.approx(1)
    torch.testing.assert_close(aggregator.combine(members).exp().sum(dim=1), torch.ones(40))


def test_pooling_changes_nothing_and_repeats() -> None:
    said = torch.tensor([A, B]).log()
    before = said.clone()
    for _ in range(2):
        pooled = pools.pool(said, torch.tensor([0.5, 0.5]), "prob")
        torch.testing.assert_close(pooled.exp(), torch.tensor([[0.55, 0.45]]))
    assert torch.equal(said, before)


class Vandal(Aggregator):
    """Adds all members up in the first one's own numbers, as a plugin may."""

    name = "vandal"
    summary = "Mean, by way of the first member."

    def combine(self, members: Members) -> Tensor:
        said = members.logits
        said.copy_(members.log_probabilities().exp())
        for other in said[1:]:
            said[0] += other
        members.embeddings.zero_()
        return (said[0] / len(said)).log()


def test_an_aggregator_of_a_plugin_cannot_spoil_the_members() -> None:
    point: Any = FakePoint("vandal", plugin_of(aggregators=[Vandal]))
    catalogue = load_catalogue(entry_points=[*metadata.entry_points(group="unlearnbench"), point])
    task = toy_task(catalogue=catalogue)
    spoilt, sound = (
        resolve(catalogue, "unlearner", f"sharded[num_shards=3,aggregator={name}]").build()
        for name in ("vandal", "mean")
    )
    request = Request(task.graph.ids[:2])
    for method in (spoilt, sound):
        method.fit(task)
        method.unlearn(request, task.without(request))
    for view in (View.SHARD, View.FULL):
        query = task.without(request).query(task.graph.ids[5:9], view)
        first = spoilt.predict(query)
        assert torch.equal(first, spoilt.predict(query))
        torch.testing.assert_close(first, sound.predict(query))


def test_a_run_with_an_aggregator_that_changes_its_input_scores_as_without(
    command: Any, install: Write, tmp_path: Path
) -> None:
    head = "from torch import Tensor\nfrom unlearnbench import Aggregator, Members"
    install("ub-vandal", source_of(head, "aggregator", Vandal))
    methods = "sharded[num_shards=3,aggregator=vandal],sharded[num_shards=3]"
    told = command("run", "-m", methods, *ONCE, "--no-reference", "--out", str(tmp_path / "out"))
    assert "2 cells: 2 ok" in told.err
    found = {}
    for path in sorted((tmp_path / "out").rglob("*.npz")):
        with np.load(path) as arrays:
            found[path.name] = {name: arrays[name] for name in arrays if "/" in name}
    one, other = found.values()
    assert len(one) == 8
    for name, value in one.items():
        np.testing.assert_allclose(value, other[name], rtol=1e-5)
    assert len(records_of(tmp_path / "out")) == 1
