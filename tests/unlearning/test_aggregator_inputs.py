"""H7: after a request the aggregator learns anew, from the members as they are now and from retained nodes."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from command_line import command, install
from method_samples import METHODS, fitted, same, setting

from unlearnbench.unlearning.aggregation import sample_of

__all__ = ["command", "install"]


@pytest.mark.parametrize("text", [METHODS[3], METHODS[5], METHODS[8], "sisa[num_shards=5,aggregator=attention]"])
def test_the_aggregator_is_that_of_a_run_that_never_saw_the_data(text: str) -> None:
    _, task, request = setting()
    retained = task.without(request)
    method = fitted(text, task)
    before = {name: value.clone() for name, value in method.state().items() if name.startswith("aggregator/")}
    assert before
    method.unlearn(request, retained)
    never = fitted(text, replace(retained, given=method.kept()))
    after = {name: value for name, value in method.state().items() if name.startswith("aggregator/")}
    assert same(after, {name: never.state()[name] for name in after}) == []
    assert same(before, after)


@pytest.mark.parametrize("text", [METHODS[3], METHODS[5]])
def test_the_aggregator_learns_from_current_members_and_retained_nodes_alone(text, monkeypatch):
    _, task, request = setting()
    seen = []
    method = fitted(text, task)
    cls = type(method.aggregator)
    fit = cls.fit

    def spy(self, task, members, graph):
        seen.append((members, graph))
        fit(self, task, members, graph)

    monkeypatch.setattr(cls, "fit", spy)
    retained = task.without(request)
    method.unlearn(request, retained)
    ((members, graph),) = seen
    assert not bool(torch.isin(graph.ids, request.ids).any())
    assert torch.equal(graph.ids, sample_of(method.aggregator, retained))
    now = method.members(retained.query(graph.ids, method.aggregator.view))
    assert torch.equal(members.logits, now.logits)
