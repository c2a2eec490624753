"""H9: a record says by how much the parameters changed, and the graph that is scored is the retained one."""

from __future__ import annotations

import math

import pytest
import torch
from cell_samples import GRAPH, Spy, cell, fake, surroundings
from command_line import command, install
from plain_versions import edges_by_id

from unlearnbench.measure.digests import digests, relative_change
from unlearnbench.protocol import Request
from unlearnbench.running.runner import run_cell
from unlearnbench.task import Task, View

__all__ = ["command", "install"]


def test_a_change_of_next_to_nothing_stands_in_the_record() -> None:
    class Hardly(Spy):
        """Moves its one parameter by a ten-millionth."""

        name = "hardly"

        def fit(self, task: Task) -> None:
            super().fit(task)
            self.value = torch.ones(1, dtype=torch.float64)

        def unlearn(self, request: Request, retained: Task) -> None:
            self.value = self.value + 1e-7

    record, _, _ = run_cell(cell(fake(Hardly)), GRAPH, surroundings())
    assert record.status == "ok"
    assert record.digests["relative_change"] == pytest.approx(1e-7, rel=1e-3)
    assert not record.digests["unchanged"]


@pytest.mark.parametrize(("text", "changes"), [("noop", False), ("retrain", True), ("gif", True)])
def test_every_method_has_its_change_recorded(text: str, changes: bool) -> None:
    record, _, _ = run_cell(cell(text), GRAPH, surroundings())
    assert (record.digests["relative_change"] > 0) is changes
    assert record.digests["unchanged"] is not changes


def test_the_graph_scored_after_a_request_is_the_retained_one_and_before_it_the_whole() -> None:
    Spy.seen = []
    _, arrays, _ = run_cell(cell(fake(Spy)), GRAPH, surroundings())
    train, forgotten = set(arrays["train"].tolist()), set(arrays["forgotten"].tolist())
    questions = [query for name, query in Spy.seen if isinstance(name, View)]
    assert len(questions) > 8
    for number, query in enumerate(questions):
        targets = set(query.targets.tolist())
        held = train if number < 4 else train - forgotten
        assert set(query.retained.tolist()) == held
        assert set(query.graph.ids.tolist()) == held | targets
        induced = GRAPH.induced(query.graph.ids)
        assert edges_by_id(query.graph) == edges_by_id(induced)
        assert torch.equal(query.graph.x, induced.x)


def test_digests_and_the_relative_change_by_hand():
    before = {"members/000/a": torch.tensor([3.0, 4.0]), "members/001/a": torch.ones(2), "aggregator/w": torch.ones(1)}
    after = {**before, "members/001/a": torch.tensor([1.0, 4.0])}
    first, second = digests(before), digests(after)
    assert sorted(first) == ["aggregator", "members/000", "members/001"]
    assert [name for name in first if first[name] != second[name]] == ["members/001"]
    assert relative_change(before, after) == pytest.approx(3 / math.sqrt(25 + 2 + 1))
    assert relative_change(before, before) == 0.0
    ids = torch.arange(1000)
    assert relative_change({**before, "ids": ids}, {**after, "ids": ids}) == relative_change(before, after)
