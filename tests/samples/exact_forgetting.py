"""The check that a method forgets as if what it was asked to forget had never been there."""

from __future__ import annotations

import torch

from unlearnbench.component import Spec
from unlearnbench.measure.digests import digests
from unlearnbench.protocol import Request
from unlearnbench.task import Task, View


def check_forgets_exactly(spec: Spec, task: Task, request: Request) -> None:
    """Assert the same bits of state and predictions, in a method whose partition looks at ids alone."""
    retained = task.without(request)
    forgetting, other = spec.build(), spec.build()
    forgetting.fit(task)
    before = digests(forgetting.state())
    forgetting.unlearn(request, retained)
    other.fit(retained)
    assert digests(forgetting.state()) == digests(other.state())
    assert digests(forgetting.state()) != before
    query = retained.query(task.graph.ids[:7], View.FULL)
    assert torch.equal(forgetting.predict(query), other.predict(query))
