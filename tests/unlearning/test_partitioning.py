import math
from unittest.mock import patch

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.errors import BrokenContractError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task
from unlearnbench.unlearning.partitioning import (
    Partitioner,
    assign_by_nodes,
    assign_by_pairs,
    checked_partition,
    partition_statistics,
    shard_bounds,
)


def walk_pairs(cost, low, high):
    """The plain walk, one pair at a time."""
    n, count = len(cost), len(cost[0])
    order = sorted((cost[i][k], i, k) for i in range(n) for k in range(count))
    shard, sizes = [-1] * n, [0] * count
    for _, i, k in order:
        left = shard.count(-1)
        missing = sum(max(0, low - size) for size in sizes)
        if shard[i] < 0 and sizes[k] < high and (sizes[k] < low or left > missing):
            shard[i] = k
            sizes[k] += 1
    return shard


def walk_nodes(cost, low, high):
    n, count = len(cost), len(cost[0])
    shard, sizes = [-1] * n, [0] * count
    for i in sorted(range(n), key=lambda node: (min(cost[node]), node)):
        left = shard.count(-1)
        missing = sum(max(0, low - size) for size in sizes)
        for k in sorted(range(count), key=lambda k: (cost[i][k], k)):
            if sizes[k] < high and (sizes[k] < low or left > missing):
                shard[i] = k
                sizes[k] += 1
                break
    return shard


@settings(max_examples=200, deadline=None)
@given(
    st.integers(0, 10**6),
    st.integers(1, 7),
    st.integers(0, 40),
    st.sampled_from([0.0, 0.1, 0.5, 3.0]),
    st.sampled_from([2, 5, 1000]),
    st.sampled_from([1, 3, 4096]),
)
def test_assignments_equal_the_plain_walk(seed, count, extra, slack, levels, looked_at):
    n = count + extra
    # Few levels make many ties.
    cost = torch.randint(0, levels, (n, count), generator=torch.Generator().manual_seed(seed)).double()
    low, high = shard_bounds(n, count, slack)
    before = cost.clone()
    for fast, slow in ((assign_by_pairs, walk_pairs), (assign_by_nodes, walk_nodes)):
        with patch("unlearnbench.unlearning.partitioning._LOOKED_AT", looked_at):
            shard = fast(cost, low, high)
        assert shard.tolist() == slow(cost.tolist(), low, high)
        sizes = torch.bincount(shard, minlength=count)
        assert low <= int(sizes.min()) <= int(sizes.max()) <= high
    assert torch.equal(cost, before)


@settings(max_examples=100, deadline=None)
@given(st.integers(1, 5000), st.integers(1, 60), st.floats(0, 1))
def test_bounds_always_leave_room(n, count, slack):
    if count > n:
        return
    low, high = shard_bounds(n, count, slack)
    assert 1 <= low <= n / count <= high
    if slack == 0:
        assert high - low <= 1


def test_bounds_by_hand():
    assert shard_bounds(100, 10, 0.1) == (9, 11)
    assert shard_bounds(1895, 20, 0.1) == (85, 105)
    assert shard_bounds(8, 4, 0.0) == (2, 2)
    assert shard_bounds(5, 5, 0.9) == (1, 2)


def test_bounds_that_cannot_hold_are_refused():
    with pytest.raises(UsageError, match="do not fit"):
        assign_by_pairs(torch.rand(10, 3), 1, 3)


class Odd(Partitioner):
    name = "odd"

    def __init__(self, result):
        super().__init__()
        self.result = result

    def partition(self, task, num_shards):
        return self.result


@pytest.mark.parametrize(
    ("result", "message"),
    [
        (torch.zeros(60), "int64 tensor of shape"),
        (torch.zeros(59, dtype=torch.int64), "int64 tensor of shape"),
        ([0] * 60, "got list"),
        (torch.full((60,), 3), "shard 3 of 3"),
        (torch.zeros(60, dtype=torch.int64), "left shard 1 empty"),
    ],
)
def test_a_partitioner_that_breaks_its_contract_is_named(result, message):
    with pytest.raises(BrokenContractError, match=message) as error:
        checked_partition(Odd(result), toy_task(), 3)
    assert "odd" in str(error.value)


def test_a_shuffle_gives_near_equal_shards_and_a_hash_ignores_the_other_nodes():
    catalogue = load_catalogue()
    task = toy_task(toy_graph(num_nodes=103, first_id=FIRST_ID))
    shuffled = resolve(catalogue, "partitioner", "random").build().partition(task, 10)
    assert sorted(set(torch.bincount(shuffled).tolist())) == [10, 11]
    hashed = resolve(catalogue, "partitioner", "hash").build()
    assert hashed.node_by_node
    whole = hashed.partition(task, 10)
    few = toy_task(task.graph.induced(task.graph.ids[::2]))
    assert torch.equal(hashed.partition(few, 10), whole[::2])


def test_statistics_by_hand():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = Graph(torch.ones(4, 1), torch.tensor([0, 1, 0, 0]), edges, torch.arange(4), 2)
    found = partition_statistics(graph, torch.tensor([0, 0, 1, 1]), 3)
    assert found["sizes"] == [2, 2, 0]
    assert found["edges_kept"] == 0.5
    assert found["label_entropy"] == pytest.approx(0.5 * math.log(2))
    assert found["graph_entropy"] == pytest.approx(-(0.75 * math.log(0.75) + 0.25 * math.log(0.25)))
    empty = Graph(graph.x, graph.y, edges[:, :0], graph.ids, 2)
    assert partition_statistics(empty, torch.tensor([0, 0, 1, 1]), 2)["edges_kept"] is None
