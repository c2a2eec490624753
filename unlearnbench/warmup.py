"""One untimed run of a method on a small graph."""

from __future__ import annotations

from dataclasses import replace

import torch

from unlearnbench import seeds
from unlearnbench.cells import Cell
from unlearnbench.graph import Graph
from unlearnbench.requests import Request
from unlearnbench.task import Task, View
from unlearnbench.unlearning import Unlearner


def warm_up(cell: Cell, device: torch.device) -> None:
    """Run a method once, untimed, on a small graph, so that no cell pays for starting up."""
    num_shards = getattr(cell.method.params, "num_shards", 1)
    chance = seeds.generator(0, "warm-up")
    n, features = max(200, 4 * num_shards), 8
    edges = torch.randint(n, (2, 4 * n), generator=chance)
    graph = Graph(
        torch.randn(n, features, generator=chance),
        torch.arange(n) % 3,
        torch.cat([edges, edges.flip(0)], dim=1),
        torch.arange(n),
        3,
    ).to(device)
    training = replace(cell.training, epochs=2)
    task = Task(graph, cell.model, training, device, seed=0)
    request = Request(torch.arange(2, device=device))
    method: Unlearner = cell.method.build()
    method.fit(task)
    retained = task.without(request)
    method.unlearn(request, retained)
    held = retained if method.deletes_at_inference else task
    for view in (View.SHARD, View.FULL):
        method.predict(held.query(retained.graph.ids[:10], view))
