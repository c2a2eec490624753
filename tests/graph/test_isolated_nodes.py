"""A5: isolated nodes stay, at the end of the list too; forgetting one node loses no other."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from graph_samples import saved

from unlearnbench.datasets.base import edge_statistics
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.config import make_config
from unlearnbench.running.execute import execute
from unlearnbench.running.plan import make_plan


def mask(*positions: int) -> torch.Tensor:
    found = torch.zeros(6, dtype=torch.bool)
    found[list(positions)] = True
    return found


def test_test_nodes_without_edges_are_predicted_before_and_after(tmp_path: Path) -> None:
    masks = {"train_mask": mask(0, 1), "val_mask": mask(2), "test_mask": mask(3, 4, 5)}
    path = saved(tmp_path / "g.pt", nodes=6, edge_index=torch.tensor([[0, 1], [1, 0]]), **masks)
    settings = {"methods": ["retrain"], "datasets": [f"file:{path}"], "forget": [1], "repetitions": 1, "epochs": 2}
    plan = make_plan(make_config({**settings, "out": tmp_path / "r", "device": "cpu"}), load_catalogue())
    (graph,) = plan.graphs.values()
    assert graph.num_nodes == 6
    assert edge_statistics(graph)["isolated"] == 4
    retained = Request(torch.tensor([1])).apply(graph)
    assert (retained.ids.tolist(), retained.num_edges) == ([0, 2, 3, 4, 5], 0)
    (record,) = execute(plan)
    assert record.status == "ok"
    arrays = np.load(next((tmp_path / "r").rglob("*.npz")))
    predictions = {name: value for name, value in arrays.items() if "/test/" in name}
    assert len(predictions) == 4
    assert arrays["test"].tolist() == [3, 4, 5]
    for name, value in predictions.items():
        assert len(value) == 3, name
        assert np.isfinite(value).all(), name
