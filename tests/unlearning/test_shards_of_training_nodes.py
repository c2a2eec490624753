"""H3: shards hold the training nodes, all of them and no others; no test node is in any."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from cell_samples import GRAPH, Spy, cell, fake, surroundings
from command_line import command, install
from method_samples import METHODS, fitted, setting

from unlearnbench.protocol import Request, protocol
from unlearnbench.running.runner import run_cell
from unlearnbench.task import View
from unlearnbench.testing.graphs import toy_task

__all__ = ["command", "install"]


@pytest.mark.parametrize("text", METHODS)
def test_shards_are_the_training_nodes_and_hold_no_test_node(text: str) -> None:
    graph, _, _ = setting()
    parts = protocol.split(graph, 0, "toy", 0)
    # Ids are no positions, and training nodes no beginning of all nodes: a mix-up could not go unseen.
    assert int(graph.ids.min()) > graph.num_nodes
    task = toy_task(graph.induced(parts.train), epochs=2)
    method = fitted(text, task)
    request = Request(parts.train[[1, 20, 50]])
    for ids in (parts.train, parts.train[~torch.isin(parts.train, request.ids)]):
        if "partition" in method.kept():
            kept = method.kept()["partition"]
            assert sorted(kept[:, 0].tolist()) == ids.tolist()
            assert len(kept[:, 0].unique()) == len(kept)
            assert not bool(torch.isin(kept[:, 0], torch.cat([parts.test, parts.val])).any())
            assert sorted(kept[:, 1].unique().tolist()) == list(range(5))
        else:
            assert text == "retrain"
        if ids is parts.train:
            method.unlearn(request, task.without(request))


def test_a_method_sees_training_nodes_and_unlabelled_queries_and_nothing_else():
    Spy.seen = []
    _, arrays, _ = run_cell(cell(fake(Spy)), GRAPH, surroundings())
    (_, trained), (_, retained) = (shown for shown in Spy.seen if shown[0] in ("fit", "unlearn"))
    assert np.array_equal(trained.ids.numpy(), arrays["train"])
    assert set(retained.ids.tolist()) == set(arrays["train"].tolist()) - set(arrays["forgotten"].tolist())
    for view, query in Spy.seen:
        if not isinstance(view, View):
            continue
        assert bool((query.graph.y == -1).all())
        part = "test" if np.array_equal(query.targets.numpy(), arrays["test"]) else "val"
        strangers = set(query.graph.ids.tolist()) - set(query.retained.tolist())
        assert strangers == set(arrays[part].tolist())
    after = [query for view, query in Spy.seen if isinstance(view, View)][4:]
    assert not any(np.isin(query.graph.ids.numpy(), arrays["forgotten"]).any() for query in after)
