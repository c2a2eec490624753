"""H1: what is scored after a request are the retrained networks, in exactly the shards that were hit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from command_line import command, install
from method_samples import SHARDED, fitted, same, setting

from unlearnbench.measure.digests import digests
from unlearnbench.metrics.utility import MicroF1
from unlearnbench.protocol import Request, protocol
from unlearnbench.running.runner import run_cell
from unlearnbench.task import Task, View, make_query

__all__ = ["command", "install"]


SEVERAL = ["retrain", "sisa[num_shards=5]", "grapheraser[num_shards=5]", "graphrevoker[num_shards=5]"]


@pytest.mark.parametrize("text", SEVERAL)
def test_what_is_scored_is_what_a_run_on_the_retained_graph_alone_predicts(text: str) -> None:
    made = cell(text)
    record, arrays, state = run_cell(made, GRAPH, surroundings())
    train, test = (torch.from_numpy(arrays[name]) for name in ("train", "test"))
    task = Task(
        GRAPH.induced(train), made.model, made.training, torch.device("cpu"), protocol.task_seed(0, "digits", 0)
    )
    retained = task.without(Request(torch.from_numpy(arrays["forgotten"])))
    first = made.method.build()
    first.fit(task)
    first.unlearn(Request(torch.from_numpy(arrays["forgotten"])), retained)
    never = made.method.build()
    never.fit(replace(retained, given={name: value.clone() for name, value in first.kept().items()}))
    assert digests(never.state()) == record.digests["after"] == digests(state)
    query = make_query(GRAPH, retained.graph.ids, test, View.SHARD, torch.device("cpu"))
    labels = GRAPH.y[GRAPH.positions(test)]
    for view in (View.SHARD, View.FULL):
        predicted = never.predict(replace(query, view=view))
        np.testing.assert_array_equal(arrays[f"after/test/{view.value}"], predicted.numpy())
        assert not np.array_equal(arrays[f"before/test/{view.value}"], predicted.numpy())
        assert record.metrics["f1_micro"][view.value]["after"] == MicroF1().score(labels, predicted)


def test_counts_and_digests_name_the_members_that_were_hit():
    made = cell("sisa[num_shards=5]")
    record, arrays, _ = run_cell(made, GRAPH, surroundings())
    method = made.method.build()
    task_graph = GRAPH.induced(torch.from_numpy(arrays["train"]))
    task = Task(task_graph, made.model, made.training, torch.device("cpu"), protocol.task_seed(0, "digits", 0))
    shard = method.params.partitioner.build().partition(task, 5)
    hit = sorted(set(shard[task_graph.positions(torch.from_numpy(arrays["forgotten"]))].tolist()))
    assert record.digests["members_changed"] == hit
    assert record.counts["shards_hit"] == len(hit)
    left = sum(int((shard == s).sum()) for s in hit) - len(arrays["forgotten"])
    assert record.counts["node_epochs"] == 8 * left
    assert record.counts["steps"] == 8
    assert record.counts["fit_node_epochs"] == 8 * len(task_graph.ids)
    assert record.counts["fit_steps"] == 8
    assert record.digests["relative_change"] > 0.01


@pytest.mark.parametrize("text", SHARDED)
def test_members_not_hit_are_untouched_and_those_hit_are_new(text):
    _, task, request = setting()
    method = fitted(text, task)
    partition = method.kept()["partition"]
    hit = set(partition[torch.isin(partition[:, 0], request.ids), 1].tolist())
    before = method.state()
    method.unlearn(request, task.without(request))
    changed = {name.split("/")[1] for name in same(before, method.state()) if name.startswith("members/")}
    assert {int(member) for member in changed} == hit
    assert 0 < len(hit) < 5
