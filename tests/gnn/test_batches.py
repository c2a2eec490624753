"""Mini-batches: what is sampled, and what training on it keeps to."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from command_line import SMALL, command, install, records_of
from hypothesis import given
from hypothesis import strategies as st
from model_samples import MODELS
from task_samples import task_of

from unlearnbench.errors import UsageError
from unlearnbench.gnn import NeighbourSampler, train_networks
from unlearnbench.graph import Graph
from unlearnbench.measure.clock import Meter
from unlearnbench.running.config import make_config
from unlearnbench.task import Training
from unlearnbench.testing.graphs import toy_graph

__all__ = ["command", "install"]

BATCHES = Training(epochs=3, batch_size=7, fanouts=(2, 2))


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def random_graph(seed: int, n: int, edges: int) -> Graph:
    ends = torch.randint(0, n, (2, edges), generator=rng(seed))
    both = torch.cat([ends, ends.flip(0)], dim=1)
    x = torch.rand(n, 3, generator=rng(seed + 1))
    return Graph(x, torch.arange(n) % 2, both, 10 * torch.arange(n) + 3, 2)


def in_batches(model="gcn", graph=None, training=BATCHES):
    return replace(task_of(toy_graph(num_nodes=24) if graph is None else graph, model), training=training)


def neighbours(graph: Graph, nodes: set[int]) -> dict[int, set[int]]:
    source, target = graph.edge_index.tolist()
    return {node: {a for a, b in zip(source, target, strict=True) if b == node} for node in nodes}


@given(st.integers(0, 10**6), st.integers(1, 30), st.integers(0, 60), st.integers(1, 5), st.integers(1, 3))
def test_a_batch_is_induced_by_its_seeds_and_at_most_so_many_neighbours_a_hop(seed, n, edges, fanout, hops):
    graph = random_graph(seed, n, edges)
    seeds = torch.randperm(n, generator=rng(seed))[: 1 + n // 3]
    part = NeighbourSampler(graph).sample(seeds, [fanout] * hops, rng(seed))
    assert torch.equal(part.ids[: len(seeds)], graph.ids[seeds])
    whole = graph.induced(part.ids)
    assert torch.equal(part.x, whole.x)
    assert torch.equal(part.y, whole.y)
    assert sorted(part.edge_index.t().tolist()) == sorted(whole.edge_index.t().tolist())
    reached = frontier = set(seeds.tolist())
    bound = len(frontier)
    within = set(reached)
    for _ in range(hops):
        bound *= fanout
        frontier = set().union(*neighbours(graph, frontier).values()) - within
        within |= frontier
    assert set(graph.positions(part.ids).tolist()) <= within
    assert part.num_nodes <= len(seeds) * sum(fanout**hop for hop in range(hops + 1))


def test_with_room_for_all_neighbours_all_are_there():
    graph = random_graph(5, 30, 50)
    seeds = torch.tensor([4, 11])
    near = neighbours(graph, {4, 11})
    part = NeighbourSampler(graph).sample(seeds, [100], rng())
    assert set(graph.positions(part.ids).tolist()) == {4, 11}.union(*near.values())


@pytest.mark.slow
def test_neighbours_are_drawn_evenly_and_without_replacement():
    star = Graph(torch.ones(6, 1), torch.zeros(6, dtype=torch.int64), torch.tensor([[1, 2, 3, 4, 5], [0] * 5]),
                 torch.arange(6), 2)  # fmt: skip
    sampler, generator, counts = NeighbourSampler(star), rng(), torch.zeros(6)
    for _ in range(2000):
        part = sampler.sample(torch.tensor([0]), [2], generator)
        assert part.num_nodes == 3
        counts[part.ids] += 1
    # Each of five is drawn with chance 2/5: 800 times, with a deviation of 22.
    assert (counts[1:] - 800).abs().max() < 110


@given(st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 12))
def test_an_epoch_meets_every_node_once(seed, n, size):
    graph = random_graph(seed, n, 2 * n)
    met = [part.ids[:count] for part, count in NeighbourSampler(graph).batches(size, [2], rng(seed))]
    assert [len(ids) for ids in met] == [size] * (n // size) + ([n % size] if n % size else [])
    assert torch.equal(torch.cat(met).sort().values, graph.ids)


@pytest.mark.parametrize("model", [*MODELS, "plain"])
def test_a_network_has_the_bits_it_would_have_alone(model):
    graph = toy_graph(num_nodes=24)
    # Three, two and three batches an epoch: two groups, in turn.
    parts = [graph.induced(graph.ids[:16]), graph.induced(graph.ids[:9]), graph.induced(graph.ids[5:22])]
    task = in_batches(model, graph)
    together = train_networks(task, parts, [4, 0, 9])
    one_by_one = train_networks(replace(task, training=replace(BATCHES, one_by_one=True)), parts, [4, 0, 9])
    for place, (part, name) in enumerate(zip(parts, [4, 0, 9], strict=True)):
        alone = train_networks(task, [part], [name]).state(0)
        for networks in (together, one_by_one):
            state = networks.state(place)
            assert all(torch.equal(state[key], value) for key, value in alone.items())


@pytest.mark.parametrize("model", ["gcn", "sage"])
def test_one_batch_of_all_nodes_is_a_step_on_the_whole_graph(model):
    graph = toy_graph(num_nodes=24)
    task = in_batches(f"{model}[dropout=0]", graph, Training(epochs=3, batch_size=24))
    whole = train_networks(replace(task, training=Training(epochs=3)), [graph], [0]).predict([graph])[0][1]
    batch = train_networks(task, [graph], [0]).predict([graph])[0][1]
    # The order of the nodes is another, and so that of sums; Adam turns the sign of a gradient near 0 into a whole
    # step, so that after more steps rounding may show anywhere.
    assert torch.allclose(whole, batch, rtol=0, atol=1e-5)


def test_steps_and_nodes_are_counted():
    meter = Meter(torch.device("cpu"))
    graph = toy_graph(num_nodes=24)
    train_networks(replace(in_batches(graph=graph), listener=meter), [graph, graph.induced(graph.ids[:10])], [0, 1])
    assert meter.counts["steps"] == 3 * 4 + 3 * 2
    assert meter.counts["node_epochs"] == 3 * 34
    assert meter.counts["batch_nodes"] >= 3 * 34


def test_without_batches_a_cell_is_the_one_it_was():
    assert Training().canonical() == {"epochs": 100, "lr": 0.01, "weight_decay": 5e-4, "one_by_one": False}
    assert Training.of(Training().canonical()) == Training()
    assert Training.of(BATCHES.canonical()) == BATCHES


def test_the_command_line_asks_for_batches(tmp_path, command):
    out = tmp_path / "out"
    told = command("run", "-m", "sisa", *SMALL, "--batch-size", "16", "--set", "training.fanouts=3,2", "--repetitions",
                   "1", "--out", str(out))  # fmt: skip
    assert told.code == 0
    assert "batches of 16 with 3, 2 neighbours a hop" in told.err
    for record in records_of(out).values():
        assert record.cell["training"]["batch_size"] == 16
        assert record.cell["training"]["fanouts"] == [3, 2]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"set": {"training.fanouts": "5,5"}}, "there are no batches"),
        ({"batch_size": 8, "set": {"training.fanouts": "5,0"}}, "out of range"),
        ({"batch_size": 8, "set": {"training.fanouts": "5;5"}}, "not a number"),
        ({"batch_size": 8, "set": {"training.batch_size": 8}}, "Use one of `batch_size`"),
        ({"batch_size": 0}, "batch_size = 0"),
        ({"batch_size": True}, "no number"),
    ],
)
def test_batches_that_make_no_sense_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        make_config({"methods": ["sisa"], **settings}).training_settings()
