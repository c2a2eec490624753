"""Degenerate input: more shards than nodes, equal nodes, no edges. Every node is placed once, no shard is empty."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import ONCE, command, install, records_of
from plugin_samples import Write
from torch import Tensor

from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.requirements import requirements_of
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task
from unlearnbench.unlearning.partitioning import assign_by_nodes, assign_by_pairs, checked_partition
from unlearnbench_grapheraser.capacity import paper_capacity

__all__ = ["command", "install"]

CATALOGUE = load_catalogue()
PARTITIONERS = CATALOGUE.names("partitioner")
FILLING = [name for name in PARTITIONERS if not resolve(CATALOGUE, "partitioner", name).cls.may_be_empty]
TIGHT = [
    "random",
    "bekm[slack=0]",
    "bekm[capacity=paper,delta=0]",
    "blpa[slack=0]",
    "blpa[capacity=paper,delta=0]",
    "gpa[slack=0]",
    "ldg[slack=0]",
    "metis[slack=0]",
]
NO_EDGES = torch.empty(2, 0, dtype=torch.int64)


def partition(bracket: str, graph: Graph, num_shards: int) -> Tensor:
    spec = resolve(CATALOGUE, "partitioner", bracket)
    lacking = [need.module for need in requirements_of(spec.cls) if not need.is_met]
    if lacking:
        pytest.skip(f"{spec.name} needs {', '.join(lacking)}, which is not installed")
    partitioner = spec.build()
    return checked_partition(partitioner, toy_task(graph, catalogue=CATALOGUE), num_shards)


@pytest.mark.parametrize("name", [*PARTITIONERS, "bekm[capacity=paper]", "blpa[capacity=paper]"])
def test_more_shards_than_nodes_is_an_error_that_names_both(name: str) -> None:
    with pytest.raises(UsageError, match="4 shards for 3 training nodes"):
        partition(name, toy_graph(num_nodes=3), 4)


@pytest.mark.parametrize("arguments", [("sisa", "--num-shards", "71"), ("sisa[num_shards=71]",)])
def test_more_shards_than_nodes_stop_the_run_before_any_cell(
    command: Any, tmp_path: Path, arguments: tuple[str, ...]
) -> None:
    told = command("run", "-m", *arguments, *ONCE, "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert "71 shards for the 70 training nodes of toy" in told.err
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", FILLING)
def test_as_many_shards_as_nodes_hold_one_each(name: str) -> None:
    assert sorted(partition(name, toy_graph(num_nodes=7), 7).tolist()) == list(range(7))


@pytest.mark.parametrize(
    ("n", "num_shards", "delta", "expected"), [(100, 10, 0.005, 11), (1895, 20, 0.005, 104), (8, 4, 0, 2)]
)
def test_capacity_of_the_paper(n: int, num_shards: int, delta: float, expected: int) -> None:
    assert paper_capacity(n, num_shards, delta) == expected


def test_the_capacity_is_kept() -> None:
    # All nodes in one place but nine: they crowd one shard as far as its capacity lets them.
    x = torch.cat([torch.zeros(91, 9), 100 * torch.eye(9)])
    graph = Graph(x, torch.zeros(100, dtype=torch.int64), NO_EDGES, torch.arange(100), 2)
    sizes = torch.bincount(partition("bekm[capacity=paper,delta=0.005]", graph, 10), minlength=10)
    assert 1 <= int(sizes.min()) <= int(sizes.max()) <= 11


def test_equal_costs_still_fill_every_shard() -> None:
    for assign in (assign_by_pairs, assign_by_nodes):
        assert torch.bincount(assign(torch.zeros(8, 4), 2, 2)).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("bracket", TIGHT)
@pytest.mark.parametrize("kind", ["equal", "different"])
def test_eight_nodes_without_edges_give_four_shards_of_two(bracket: str, kind: str) -> None:
    x = torch.ones(8, 3) if kind == "equal" else torch.arange(24.0).reshape(8, 3)
    graph = Graph(x, torch.arange(8) % 2, NO_EDGES, torch.arange(8), 2)
    assert torch.bincount(partition(bracket, graph, 4)).tolist() == [2, 2, 2, 2]


@pytest.mark.parametrize("name", PARTITIONERS)
@pytest.mark.parametrize("kind", ["plain", "no edges", "one class", "identical", "zero", "tight"])
def test_every_partitioner_places_every_node_once_within_bounds_and_gives_the_same_answer_twice(
    name: str, kind: str
) -> None:
    graph = toy_graph(num_nodes=47, first_id=FIRST_ID)
    shards = 5
    if kind == "no edges":
        graph = Graph(graph.x, graph.y, NO_EDGES, graph.ids, 3)
    elif kind == "one class":
        graph = Graph(graph.x, torch.zeros_like(graph.y), graph.edge_index, graph.ids, 3)
    elif kind == "identical":
        graph = Graph(torch.ones_like(graph.x), graph.y, graph.edge_index, graph.ids, 3)
    elif kind == "zero":
        graph = Graph(torch.zeros_like(graph.x), graph.y, graph.edge_index, graph.ids, 3)
    elif kind == "tight":
        shards = 47
    copies = [t.clone() for t in (graph.x, graph.y, graph.edge_index, graph.ids)]
    state = torch.random.get_rng_state()
    shard = partition(name, graph, shards)
    assert torch.equal(shard, partition(name, graph, shards))
    assert torch.equal(state, torch.random.get_rng_state())
    assert all(torch.equal(a, b) for a, b in zip(copies, (graph.x, graph.y, graph.edge_index, graph.ids), strict=True))
    if name in FILLING:
        sizes = torch.bincount(shard, minlength=shards)
        assert int(sizes.min()) >= max(1, math.floor(0.9 * 47 / shards))
        assert int(sizes.max()) <= math.ceil(1.1 * 47 / shards)


def test_a_partitioner_that_leaves_a_shard_empty_costs_its_own_cell_alone(
    command: Any, install: Write, tmp_path: Path
) -> None:
    install(
        "ub-lazy",
        "import torch\nfrom unlearnbench import Partitioner, hookimpl\n"
        "class Lazy(Partitioner):\n    name = 'lazy'\n"
        "    def partition(self, task, num_shards):\n"
        "        return torch.arange(task.graph.num_nodes) % (num_shards - 1)\n"
        "@hookimpl\ndef register_partitioners(register):\n    register(Lazy)\n",
    )
    methods = "sharded[num_shards=3,partitioner=lazy],steady"
    told = command("run", "-m", methods, *ONCE, "--out", str(tmp_path / "out"))
    assert told.code == 1
    assert "3 cells: 2 ok, 1 failed, 0 refused, 0 diverged" in told.err
    assert "Partitioner lazy left shard 2 empty" in told.err
    records = records_of(tmp_path / "out")
    assert records["sharded", 0].status == "error"
    assert records["sharded", 0].metrics == {}
    assert records["steady", 0].status == "ok"
