"""H6: no edge of a forgotten node is left, and no other edge is lost."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from cell_samples import GRAPH, Spy, cell, fake, surroundings
from command_line import command, install
from plain_versions import edges_by_id

from unlearnbench.errors import UsageError
from unlearnbench.protocol import Request
from unlearnbench.running.runner import run_cell
from unlearnbench.task import View
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task

__all__ = ["command", "install"]


def test_what_a_method_retrains_on_and_is_asked_about_lacks_exactly_the_edges_of_the_forgotten() -> None:
    Spy.seen = []
    _, arrays, _ = run_cell(cell(fake(Spy)), GRAPH, surroundings())
    gone = set(arrays["forgotten"].tolist())
    assert gone
    whole = edges_by_id(GRAPH.induced(torch.from_numpy(arrays["train"])))
    (retained,) = (shown for name, shown in Spy.seen if name == "unlearn")
    assert edges_by_id(retained) == [pair for pair in whole if not gone & set(pair)]
    assert len(edges_by_id(retained)) < len(whole)
    questions = [shown for name, shown in Spy.seen if isinstance(name, View)]
    for query in questions[4:]:
        ids = torch.cat([retained.ids, query.targets])
        assert edges_by_id(query.graph) == edges_by_id(GRAPH.induced(ids))


def test_no_edge_of_a_forgotten_node_is_left_and_no_other_is_lost():
    task = toy_task(toy_graph(num_nodes=80, edges=300, first_id=FIRST_ID))
    forgotten = task.graph.ids[[3, 40, 41]]
    retained = task.without(Request(forgotten))
    gone = set(forgotten.tolist())
    assert edges_by_id(retained.graph) == [pair for pair in edges_by_id(task.graph) if not gone & set(pair)]
    assert retained.graph.ids.tolist() == [i for i in task.graph.ids.tolist() if i not in gone]
    again = retained.without(Request(task.graph.ids[:2]))
    assert again.graph.num_nodes == 75
    given = replace(task, given={"partition": torch.stack([task.graph.ids, task.graph.ids % 4], dim=1)})
    left = given.without(Request(forgotten)).given["partition"]
    assert left[:, 0].tolist() == retained.graph.ids.tolist()
    with pytest.raises(UsageError, match="not training nodes"):
        retained.without(Request(forgotten[:1]))
