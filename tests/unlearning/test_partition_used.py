"""H2: the partition that members are trained on is the one that was computed."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from command_line import command, install
from method_samples import METHODS, SHARDED, fitted, same, setting

from unlearnbench.graph import Graph
from unlearnbench.protocol import protocol
from unlearnbench.records.digits import kept_of_metrics
from unlearnbench.running.runner import run_cell
from unlearnbench.task import Task
from unlearnbench.unlearning.partitioning import partition_statistics

__all__ = ["command", "install"]


@pytest.mark.parametrize("text", SHARDED)
def test_the_record_describes_the_partition_that_the_partitioner_gives(text: str) -> None:
    made = cell(text)
    record, arrays, _ = run_cell(made, GRAPH, surroundings())
    graph = GRAPH.induced(torch.from_numpy(arrays["train"]))
    task = Task(graph, made.model, made.training, torch.device("cpu"), protocol.task_seed(0, "digits", 0))
    shard = made.method.params.partitioner.build().partition(task, 5)
    assert record.partition == kept_of_metrics(partition_statistics(graph, shard, 5))
    inside = [int(shard[a]) == int(shard[b]) for a, b in graph.edge_index.t()]
    assert record.partition["edges_kept"] == pytest.approx(sum(inside) / len(inside))
    # Another deal of the same sizes keeps other edges: the number would tell.
    assert partition_statistics(graph, shard.roll(1), 5)["edges_kept"] != record.partition["edges_kept"]


@pytest.mark.parametrize("text", [METHODS[1], METHODS[2], METHODS[7]])
def test_each_member_learns_from_the_nodes_of_its_shard_and_no_others(text: str) -> None:
    """Other features of one node, the partition given: exactly the member of its shard comes out another."""
    _, task, _ = setting()
    method = fitted(text, task)
    partition = method.kept()["partition"]
    for node in (0, 31, 77):
        x = task.graph.x.clone()
        x[node] += 1
        changed = replace(
            task,
            graph=Graph(x, task.graph.y, task.graph.edge_index, task.graph.ids, 3),
            given={"partition": partition.clone()},
        )
        other = fitted(text, changed)
        members = {name.split("/")[1] for name in same(method.state(), other.state()) if name.startswith("members/")}
        (shard,) = partition[partition[:, 0] == task.graph.ids[node], 1].tolist()
        assert {int(member) for member in members} == {shard}


@pytest.mark.parametrize("text", SHARDED)
def test_the_partition_kept_is_the_one_computed_and_covers_the_training_nodes_once(text):
    _, task, _ = setting()
    method = fitted(text, task)
    kept = method.kept()["partition"]
    assert torch.equal(kept[:, 0].sort().values, task.graph.ids.sort().values)
    assert torch.equal(kept[:, 1], method.params.partitioner.build().partition(task, 5))
