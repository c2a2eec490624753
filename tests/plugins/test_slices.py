"""Slices: every node is in one, and forgetting goes back to a checkpoint that never saw it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

import unlearnbench
from unlearnbench.audits.exactness.reach import reachable_tensors
from unlearnbench.component import Spec
from unlearnbench.gnn import train_networks
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task, View
from unlearnbench.task.training import Silent
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task
from unlearnbench_sisa.method import Sisa
from unlearnbench_sisa.slices import hashed_slice_of, slice_epochs, slice_of

CATALOGUE = load_catalogue()


class InOrder(Sisa):
    """Slices by the place of an id among 0..9, as in the example of PAINS B2."""

    def slices_of(self, ids: Tensor, task: Task) -> Tensor:
        return slice_of(ids, 10, self.slices)


class Counts(Silent):
    """Keeps what is counted."""

    def __init__(self) -> None:
        self.found: dict[str, int] = {}

    def count(self, **amounts: int) -> None:
        for name, amount in amounts.items():
            self.found[name] = self.found.get(name, 0) + amount


def made(bracket: str, cls: type[Sisa] | None = None) -> Any:
    spec = resolve(CATALOGUE, "unlearner", bracket)
    return spec.build() if cls is None else cls(spec.params)


def fitted(method: Any, task: Task) -> Any:
    method.fit(task)
    return method


def everything(method: Any) -> dict[str, Tensor]:
    """All parameters that are held: what is deployed and the checkpoints."""
    checkpoints = {
        f"checkpoints/{shard}/{number}/{name}": value
        for shard, saved in method._checkpoints.items()
        for number, parameters in saved.items()
        for name, value in parameters.items()
    }
    return {**method.state(), **checkpoints}


def agree(one: dict[str, Tensor], other: dict[str, Tensor]) -> bool:
    return one.keys() == other.keys() and all(torch.equal(one[name], other[name]) for name in one)


def forget(method: Any, task: Task, ids: list[int]) -> tuple[Task, dict[str, int]]:
    request, counts = Request(torch.tensor(ids)), Counts()
    retained = replace(task.without(request), listener=counts)
    method.unlearn(request, retained)
    return retained, counts.found


def never(bracket: str, method: Any, retained: Task) -> Any:
    """A run that never saw what was forgotten, given the partition of the rest."""
    return fitted(made(bracket, type(method)), replace(retained, given=method.kept()))


@settings(max_examples=200, deadline=None)
@given(total=st.integers(1, 60), slices=st.integers(1, 12))
def test_slices_cover_every_place_and_are_equal_but_for_the_last(total: int, slices: int) -> None:
    found = slice_of(torch.arange(total), total, slices)
    sizes = torch.bincount(found, minlength=slices).tolist()
    assert len(sizes) == slices
    assert found.tolist() == sorted(found.tolist())
    if total >= slices:
        assert set(sizes[:-1]) <= {total // slices}
        assert sizes[-1] == total // slices + total % slices
    else:
        assert sizes == [1] * total + [0] * (slices - total)


def test_hashed_slices_depend_on_no_other_node_and_are_about_equal() -> None:
    ids = torch.arange(6000) + FIRST_ID
    found = hashed_slice_of(ids, 7, 6)
    assert torch.equal(hashed_slice_of(ids[::3], 7, 6), found[::3])
    assert torch.equal(hashed_slice_of(ids.view(-1, 2), 7, 6), found.view(-1, 2))
    assert not torch.equal(hashed_slice_of(ids, 8, 6), found)
    # Binomial with mean 1000: five standard deviations are 144.
    assert int((torch.bincount(found, minlength=6) - 1000).abs().max()) < 144


def test_epochs_of_the_steps() -> None:
    assert slice_epochs(100, 1) == [100]
    assert slice_epochs(100, 2) == [67, 66]
    assert slice_epochs(100, 5) == [33, 34, 33, 33, 34]
    assert slice_epochs(2, 5) == [1, 1, 1, 1, 1]
    assert slice_epochs(0, 3) == [0, 0, 0]


@given(slices=st.integers(1, 20), epochs=st.integers(1, 500))
def test_all_steps_cost_what_training_without_slices_does(slices: int, epochs: int) -> None:
    steps = slice_epochs(epochs, slices)
    assert len(steps) == slices
    assert min(steps) >= 1
    if 2 * epochs >= slices + 1:
        assert abs(sum(number * step for number, step in enumerate(steps, 1)) / slices - epochs) < 1
        assert max(steps) - min(steps) <= 1


@pytest.mark.parametrize(("forgotten", "retrained"), [*((i, 3) for i in range(3)), *((i, 2) for i in range(3, 6)),
                                                      *((i, 1) for i in range(6, 10))])  # fmt: skip
def test_the_example_of_ten_nodes_in_three_slices(forgotten: int, retrained: int) -> None:
    bracket = "sisa[num_shards=1,slices=3]"
    task = toy_task(toy_graph(num_nodes=10, edges=20), epochs=6)
    method = fitted(made(bracket, InOrder), task)
    before = method.state()
    retained, counts = forget(method, task, [forgotten])
    assert counts["slices_retrained"] == retrained
    # Three epochs a step, over what is left of one, two and three slices.
    left = [sum(node != forgotten for node in range(end)) for end in (3, 6, 10)]
    assert counts["node_epochs"] == 3 * sum(left[3 - retrained :])
    assert counts["steps"] == 3 * retrained
    assert not agree(method.state(), before)
    assert agree(everything(method), everything(never(bracket, method, retained)))


@pytest.mark.slow
@pytest.mark.parametrize("bracket", ["sisa[num_shards=2,slices=3]", "sisa[num_shards=2,slices=3,partitioner=hash]"])
def test_every_node_forgotten_equals_never_having_had_it(bracket: str) -> None:
    task = toy_task(toy_graph(num_nodes=14, edges=30, first_id=FIRST_ID), epochs=4)
    seen = set()
    for node in task.graph.ids.tolist():
        method = fitted(made(bracket), task)
        before = everything(method)
        shard = dict(method.kept()["partition"].tolist())
        number = dict(zip(task.graph.ids.tolist(), method.slices_of(task.graph.ids, task).tolist(), strict=True))
        retained, counts = forget(method, task, [node])
        mates = [number[other] for other in shard if other != node and shard[other] == shard[node]]
        assert counts["shards_hit"] == 1
        assert counts["slices_retrained"] == 3 - max(number[node], min(mates))
        after = everything(method)
        assert agree(after, everything(never(bracket, method, retained)))
        # What the node was never in stays, everything else is new.
        kept = {name for name in after.keys() & before.keys() if torch.equal(after[name], before[name])}
        for name in after:
            place = name.split("/")
            if place[0] == "checkpoints":
                assert (name in kept) == (int(place[1]) != shard[node] or int(place[2]) < number[node])
            elif place[0] == "members":
                assert (name in kept) == (int(place[1]) != shard[node])
        seen.add(number[node])
    assert seen == {0, 1, 2}


def test_no_checkpoint_that_saw_the_node_can_be_reached() -> None:
    task = toy_task(toy_graph(num_nodes=24, first_id=FIRST_ID), epochs=4)
    method = fitted(made("sisa[num_shards=2,slices=4]"), task)
    ids = task.graph.ids
    node = int(ids[method.slices_of(ids, task) == 1][0])
    shard = dict(method.kept()["partition"].tolist())[node]
    old = method._checkpoints[shard]
    assert set(old) == {0, 1, 2}
    stale = [value.clone() for number in (1, 2) for value in old[number].values()]
    stale += [value for name, value in method.state().items() if name.startswith(f"members/{shard:03d}")]
    forget(method, task, [node])
    held = torch.cat([tensor.flatten() for tensor in reachable_tensors(method) if tensor.is_floating_point()])
    for value in stale:
        # Weights of units without a gradient only decay and agree; a copy would agree everywhere.
        known = torch.isin(value[value != 0], held)
        assert len(known) == 0 or float(known.float().mean()) < 0.9


def test_a_step_is_a_training_of_its_own_from_the_checkpoint_before() -> None:
    """Against members trained alone, one step after the other."""
    task = toy_task(toy_graph(), epochs=6)
    method = fitted(made("sisa[num_shards=3,slices=3]"), task)
    partition = method.kept()["partition"]
    for shard in range(3):
        ids = partition[partition[:, 1] == shard, 0]
        number = hashed_slice_of(ids, task.key("slices"), 3)
        start: dict[int, dict[str, Tensor]] = {}
        of_step = replace(task, training=replace(task.training, epochs=3))
        for step in range(3):
            graph = task.graph.induced(ids[number <= step])
            start = {shard: train_networks(of_step, [graph], [shard], start=start, step=step).state(0)}
            if step < 2:
                assert agree(start[shard], method._checkpoints[shard][step])
        deployed = {n.split("/")[2]: v for n, v in method.state().items() if n.startswith(f"members/{shard:03d}")}
        assert agree(deployed, start[shard])


@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_one_slice_is_no_slice(model: str) -> None:
    task = toy_task(model=model)
    plain = made("sharded[num_shards=4,partitioner=random,aggregator=mean]")
    sliced = made("sisa[num_shards=4,slices=1]")
    for method in (plain, sliced):
        fitted(method, task)
    assert agree(sliced.state(), plain.state())
    for method in (plain, sliced):
        _, counts = forget(method, task, [3, 4])
        assert counts["node_epochs"] > 0
    assert agree(sliced.state(), plain.state())
    assert sliced._checkpoints == {}


def test_requests_one_after_the_other_equal_all_at_once() -> None:
    bracket = "sisa[num_shards=3,slices=4]"
    task = toy_task(toy_graph(first_id=FIRST_ID))
    ids = task.graph.ids[[1, 20, 33, 50]].tolist()
    method = fitted(made(bracket), task)
    retained = task
    for node in ids:
        retained, _ = forget(method, retained, [node])
    at_once = fitted(made(bracket), task)
    forget(at_once, task, ids)
    assert agree(everything(method), everything(at_once))
    assert agree(everything(method), everything(never(bracket, method, retained)))


def test_shards_and_slices_that_become_empty() -> None:
    bracket = "sisa[num_shards=3,slices=3]"
    task = toy_task(toy_graph(first_id=FIRST_ID))
    method = fitted(made(bracket), task)
    partition = method.kept()["partition"]
    number = method.slices_of(partition[:, 0], task)
    # All of shard 0, and of shards 1 and 2 the first and the last slice.
    gone = (partition[:, 1] == 0) | ((partition[:, 1] == 1) & (number == 0)) | ((partition[:, 1] == 2) & (number == 2))
    retained, counts = forget(method, task, partition[gone, 0].sort().values.tolist())
    assert {shard: set(saved) for shard, saved in method._checkpoints.items()} == {1: {1}, 2: {0, 1}}
    # Shard 1 starts at its second slice; the last step of shard 2 goes over its first two slices.
    assert counts["slices_retrained"] == 2 + 1
    other = never(bracket, method, retained)
    assert agree(everything(method), everything(other))
    query = retained.query(retained.graph.ids[:5], View.SHARD)
    assert torch.equal(method.predict(query), other.predict(query))


def test_a_second_fit_starts_from_nothing() -> None:
    task, other = toy_task(), toy_task(seed=1)
    method = fitted(made("sisa[num_shards=3,slices=3]"), other)
    assert agree(everything(fitted(method, task)), everything(fitted(made("sisa[num_shards=3,slices=3]"), task)))


def test_trained_one_by_one_the_bits_are_the_same() -> None:
    task = toy_task()
    alone = replace(task, training=replace(task.training, one_by_one=True))
    methods = [fitted(made("sisa[num_shards=3,slices=3]"), one) for one in (task, alone)]
    for method, one in zip(methods, (task, alone), strict=True):
        forget(method, one, [5, 30])
    assert agree(everything(methods[0]), everything(methods[1]))


@pytest.mark.slow
def test_an_edge_is_in_the_slice_of_its_later_end() -> None:
    bracket = "sisa[num_shards=1,slices=3]"
    task = toy_task(toy_graph(num_nodes=10, edges=25), epochs=6)
    for first, second in task.graph.pairs().tolist():
        method = fitted(made(bracket, InOrder), task)
        request, counts = Request(torch.tensor([[first, second]]), "edge"), Counts()
        retained = replace(task.without(request), listener=counts)
        method.unlearn(request, retained)
        assert counts.found["slices_retrained"] == 3 - int(slice_of(torch.tensor(max(first, second)), 10, 3))
        assert agree(everything(method), everything(never(bracket, method, retained)))


def test_a_run_counts_slices_and_the_bytes_of_checkpoints(tmp_path: Path) -> None:
    asked = {"num_shards": 3, "epochs": 4, "repetitions": 1, "forget_count": 1, "out": tmp_path}
    records = unlearnbench.run(["sisa", "sisa[slices=3,partitioner=hash]"], **asked)
    by_slices = {record.cell["method"]["params"].get("slices"): record for record in records}
    plain, sliced = by_slices[1], by_slices[3]
    for record in (plain, sliced):
        assert record.status == "ok", record.notes
    assert plain.counts["fit_checkpoint_bytes"] == 0
    assert plain.counts["slices_retrained"] == plain.counts["shards_hit"] == 1
    # Two checkpoints beside each of three members.
    assert sliced.counts["fit_checkpoint_bytes"] == 2 * sliced.counts["parameter_bytes"]
    retrained = sliced.counts["slices_retrained"]
    assert sliced.counts["checkpoint_bytes"] == (retrained - 1) * sliced.counts["parameter_bytes"] / 3
    assert sliced.counts["steps"] == 2 * retrained
    assert sliced.claim == {"claim": "exact", "reason": ""}


def test_slices_are_at_least_one() -> None:
    with pytest.raises(unlearnbench.UsageError, match="slices"):
        resolve(CATALOGUE, "unlearner", "sisa[slices=0]")
    assert isinstance(resolve(CATALOGUE, "unlearner", "sisa[slices=2]"), Spec)
