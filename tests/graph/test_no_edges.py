"""A7: a graph without edges is a graph, for every model and every method."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from graph_samples import saved

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.graph import Graph
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.config import make_config
from unlearnbench.running.execute import execute
from unlearnbench.running.plan import make_plan
from unlearnbench.task import View
from unlearnbench.testing.graphs import toy_task

pytestmark = pytest.mark.slow

CATALOGUE = load_catalogue()
MODELS = CATALOGUE.names("model")
EMPTY = torch.empty(2, 0, dtype=torch.int64)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_predicts_on_four_nodes_without_edges(model: str) -> None:
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(0))
    task = toy_task(Graph(x, torch.tensor([0, 1, 0, 1]), EMPTY, torch.arange(4), 2), model, catalogue=CATALOGUE)
    method = resolve(CATALOGUE, "unlearner", "retrain").build()
    method.fit(task)
    for view in View:
        said = method.predict(task.query(task.graph.ids, view))
        assert said.shape == (4, 2)
        assert bool(torch.isfinite(said).all())


@pytest.mark.parametrize("edges", [EMPTY, torch.tensor([[], []])])
def test_an_empty_list_of_edges_may_have_any_type(edges: torch.Tensor, tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", edge_index=edges)
    graph = load_graph(File(File.Params(path=str(path))), tmp_path)
    assert graph.edge_index.dtype == torch.int64
    assert graph.edge_index.shape == (2, 0)


@pytest.mark.parametrize("model", MODELS)
def test_every_method_runs_without_edges(model: str, tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", edge_index=EMPTY)
    settings = {
        "methods": ["sisa", "grapheraser", "graphrevoker"], "datasets": [f"file:{path}"], "models": [model],
        "repetitions": 1, "epochs": 2, "num_shards": 2, "forget_count": 2, "out": tmp_path / "r", "device": "cpu",
    }  # fmt: skip
    records = execute(make_plan(make_config(settings), CATALOGUE))
    assert {record.label: record.status for record in records} == dict.fromkeys(
        [record.label for record in records], "ok"
    )
    assert len(records) == 4
