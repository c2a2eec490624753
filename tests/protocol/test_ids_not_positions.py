"""B1: what is forgotten and what is in a shard is told by the ids of nodes, never by places in a list."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import command, install, records_of
from plugin_samples import Write

from unlearnbench.datasets.checks import checked_graph
from unlearnbench.errors import DataError, RefusedError
from unlearnbench.graph import Graph, Split
from unlearnbench.protocol import Forget, Protocol, Request, protocol
from unlearnbench.protocol.drawing import draw
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.requirements import requirements_of
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task
from unlearnbench.testing.graphs import toy_task
from unlearnbench.unlearning.partitioning import check_kept_partition, checked_partition

__all__ = ["command", "install"]

CATALOGUE = load_catalogue()
PARTITIONERS = CATALOGUE.names("partitioner")
# Training a large network longer says nothing more about ids.
SHORT = {"gpa": "gpa[hidden=8,epochs=2]"}
TRAIN = [9, 7, 5, 3, 1]
SPLIT = {"train": TRAIN, "val": [2, 0], "test": [8, 4, 6]}

TEN = """
import torch

from unlearnbench import Dataset, Graph
from unlearnbench.graph import Split
from unlearnbench import Unlearner, hookimpl


class Ten(Dataset):
    '''Ten nodes on a ring; the training nodes are no prefix, and stand in no order.'''

    name = "ten"

    def load(self, root):
        ends = torch.arange(10)
        edges = torch.stack([ends, (ends + 2) % 10])
        x = torch.eye(10)
        y = torch.arange(10) // 2 % 2
        parts = [torch.tensor(ids) for ids in ([9, 7, 5, 3, 1], [2, 0], [8, 4, 6])]
        return Graph(x, y, torch.cat([edges, edges.flip(0)], dim=1), torch.arange(10), 2, Split(*parts))


class Local(Unlearner):
    '''Takes places in the list of training nodes for their ids.'''

    name = "local"

    def fit(self, task):
        self.ids = torch.arange(task.graph.num_nodes)

    def unlearn(self, request, retained):
        pass

    def predict(self, query):
        query.context(self.ids)
        return torch.zeros(len(query.targets), 2).log_softmax(dim=1)

    def state(self):
        return {}


class Keeping(Local):
    '''Says of its partition what KEPT gives.'''

    name = "keeping"

    def fit(self, task):
        self.ids = task.graph.ids

    def predict(self, query):
        return torch.zeros(len(query.targets), 2).log_softmax(dim=1)

    def kept(self):
        return {"partition": KEPT(self.ids)}


@hookimpl
def register_datasets(register):
    register(Ten)


@hookimpl
def register_unlearners(register):
    register(Local)
    register(Keeping)
"""


def ten() -> Graph:
    """The graph of the example."""
    ends = torch.arange(10)
    edges = torch.stack([ends, (ends + 2) % 10])
    parts = [torch.tensor(ids) for ids in SPLIT.values()]
    y = torch.arange(10) // 2 % 2
    return Graph(torch.eye(10), y, torch.cat([edges, edges.flip(0)], dim=1), ends, 2, Split(*parts))


def test_requests_are_training_ids_never_positions() -> None:
    train = torch.tensor(TRAIN)
    drawn = set()
    for seed in range(50):
        request = draw(Forget(None, 2), train, 10, torch.Generator().manual_seed(seed))
        assert len(request.ids) == 2
        assert bool(torch.isin(request.ids, train).all())
        drawn |= set(request.ids.tolist())
    assert drawn == set(TRAIN)


@pytest.mark.parametrize("name", PARTITIONERS)
def test_over_fifty_seeds_shards_are_disjoint_and_hold_the_retained_training_nodes(name: str) -> None:
    spec = resolve(CATALOGUE, "partitioner", SHORT.get(name, name))
    lacking = [need.module for need in requirements_of(spec.cls) if not need.is_met]
    if lacking:
        pytest.skip(f"{name} needs {', '.join(lacking)}, which is not installed")
    graph, train = checked_graph(ten(), "ten"), set(TRAIN)
    for seed in range(50):
        found = protocol.repetition_data(Protocol(forget=Forget(None, 2), own_split=True), graph, seed, "ten", 0)
        forgotten = set(found.request.ids.tolist())
        assert len(forgotten) == 2
        assert forgotten < train
        task: Task = replace(toy_task(graph.induced(found.split.train), epochs=1, catalogue=CATALOGUE), seed=seed)
        shard = checked_partition(spec.build(), task, 2)
        shards = [task.graph.ids[shard == number].tolist() for number in range(2)]
        assert sorted(shards[0] + shards[1]) == sorted(train)
        left = [set(one) - forgotten for one in shards]
        assert left[0] | left[1] == train - forgotten
        assert not left[0] & left[1]


@pytest.mark.slow
def test_a_run_forgets_training_nodes_and_its_shards_hold_no_others(
    command: Any, install: Write, tmp_path: Path
) -> None:
    install("ub-ten", TEN)
    methods = "retrain,sisa,sisa[partitioner=hash],grapheraser,gif"
    arguments = ("--forget-count", "2", "--num-shards", "2", "--epochs", "2", "--seeds", "0,1")
    told = command("run", "-m", methods, "-d", "ten", *arguments, "--out", str(tmp_path / "out"))
    assert told.code == 0, told.err
    assert "10 cells: 10 ok" in told.err
    for record in records_of(tmp_path / "out").values():
        (path,) = (tmp_path / "out").rglob(f"{record.key}.npz")
        with np.load(path) as arrays:
            assert arrays["train"].tolist() == sorted(TRAIN)
            assert arrays["test"].tolist() == [4, 6, 8]
            assert len(arrays["forgotten"]) == 2
            assert set(arrays["forgotten"].tolist()) < set(TRAIN)
            assert all(len(arrays[name]) == 3 for name in arrays if "/test/" in name)
        if record.partition is not None:
            assert sum(record.partition["sizes"]) == 5


def test_the_order_in_which_a_dataset_names_its_nodes_changes_nothing() -> None:
    graph = ten()
    assert graph.split is not None
    ordered = replace(graph, split=Split(*(ids.sort().values for ids in graph.split.parts().values())))
    found = checked_graph(graph, "ten")
    assert found.split is not None
    assert [ids.tolist() for ids in found.split.parts().values()] == [[1, 3, 5, 7, 9], [0, 2], [4, 6, 8]]
    assert found.checksum() == checked_graph(ordered, "ten").checksum() == ordered.checksum()


@pytest.mark.parametrize(
    ("kept", "said"),
    [
        ("lambda ids: torch.stack([torch.arange(len(ids)), 0 * ids], dim=1)", "the first is 0"),
        ("lambda ids: torch.stack([ids.sort().values, 0 * ids], dim=1)[[0, 0, 1, 2, 3]]", "node 1 2 times"),
        ("lambda ids: torch.stack([ids.sort().values, 0 * ids], dim=1)[:4]", "node 9 0 times"),
        ("lambda ids: torch.stack([ids, 0 * ids - 1], dim=1)", "shard -1"),
        ("lambda ids: ids", "(node id, shard), got torch.int64 [5]"),
        # As it was before the request: two of the nodes are gone.
        ("lambda ids: torch.stack([ids, 0 * ids], dim=1)", "2 nodes that are not retained training nodes"),
    ],
)
def test_a_plugin_that_keeps_a_wrong_partition_is_refused(
    command: Any, install: Write, tmp_path: Path, kept: str, said: str
) -> None:
    install("ub-ten", f"{TEN}\nKEPT = {kept}\n")
    arguments = ("--forget-count", "2", "--repetitions", "1", "--no-reference", "--out", str(tmp_path / "out"))
    told = command("run", "-m", "keeping", "-d", "ten", *arguments)
    ((_, record),) = records_of(tmp_path / "out").items()
    assert record.status == "refused", record
    assert said in told.err
    assert record.metrics == {}


def test_a_plugin_that_asks_for_places_in_the_list_is_refused(command: Any, install: Write, tmp_path: Path) -> None:
    install("ub-ten", TEN)
    arguments = ("--forget-count", "2", "--repetitions", "1", "--no-reference", "--out", str(tmp_path / "out"))
    told = command("run", "-m", "local", "-d", "ten", *arguments)
    ((_, record),) = records_of(tmp_path / "out").items()
    assert record.status == "refused"
    assert "3 nodes that are not retained training nodes, the first is 0" in told.err


def test_a_request_of_other_nodes_is_refused_whole() -> None:
    graph = ten()
    task = toy_task(graph.induced(torch.tensor(TRAIN)), catalogue=CATALOGUE)
    with pytest.raises(Exception, match="1 nodes of the request are not training nodes, the first is 4"):
        task.without(Request(torch.tensor([3, 4])))


def test_kept_partitions_come_back_in_the_order_of_the_graph() -> None:
    graph = ten().induced(torch.tensor(TRAIN))
    kept = torch.tensor([[1, 0], [3, 1], [5, 0], [7, 1], [9, 2]])
    assert check_kept_partition(kept, graph).tolist() == [2, 1, 0, 1, 0]
    with pytest.raises(RefusedError, match="got list"):
        check_kept_partition([[1, 0]], graph)  # type: ignore[arg-type]


@pytest.mark.parametrize("part", ["train", "val", "test"])
def test_a_mask_in_place_of_ids_is_told(part: str) -> None:
    graph = ten()
    assert graph.split is not None
    masks = replace(graph.split, **{part: torch.isin(graph.ids, torch.tensor(SPLIT[part]))})
    with pytest.raises(DataError, match=r"nodes of its split are torch\.bool \[10\], expected int64"):
        checked_graph(replace(graph, split=masks), "ten")
