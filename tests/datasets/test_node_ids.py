"""A6: a user's ids, with gaps and in any order, are remapped once and come back wherever ids are said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from graph_samples import tables

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError, UsageError
from unlearnbench.protocol import Forget, protocol
from unlearnbench.protocol.drawing import draw
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.running.config import make_config
from unlearnbench.running.execute import execute
from unlearnbench.running.plan import make_plan

THREE = ("id,a\n10,1\n20,2\n37,3\n", "id,c\n10,0\n20,1\n37,0\n", "a,b\n10,20\n20,37\n")


def test_ids_with_gaps_are_forgotten_by_their_own_numbers(tmp_path: Path) -> None:
    graph = load_graph(File(File.Params(path=str(tables(tmp_path / "t", *THREE)))), tmp_path)
    request = draw(Forget(None, None, (20,)), graph.ids, graph.num_nodes, torch.Generator())
    retained = request.apply(graph)
    assert retained.ids.tolist() == [10, 37]
    assert retained.x.tolist() == [[1], [3]]
    assert retained.num_edges == 0


def test_an_edge_to_an_unknown_node_is_named_by_file_and_row(tmp_path: Path) -> None:
    folder = tables(tmp_path / "t", THREE[0], THREE[1], THREE[2] + "20,99\n")
    with pytest.raises(DataError, match=r"edges\.csv, row 4: node 99"):
        load_graph(File(File.Params(path=str(folder))), tmp_path)


@pytest.mark.slow
def test_a_run_takes_and_records_the_ids_of_the_user(tmp_path: Path) -> None:
    ids = [7 * i + 1000 for i in range(40)]
    folder = tables(
        tmp_path / "t",
        "id,a,b\n" + "".join(f"{i},{i % 2},{i % 3}\n" for i in ids),
        "id,c\n" + "".join(f"{i},{i % 2}\n" for i in reversed(ids)),
        "a,b\n" + "".join(f"{a},{b}\n" for a, b in zip(ids, ids[2:], strict=False)),
    )
    settings = {"methods": ["retrain"], "datasets": [f"file:{folder}"], "repetitions": 1, "epochs": 2, "device": "cpu"}
    whole = load_graph(File(File.Params(path=str(folder))), tmp_path)
    assert torch.equal(whole.y, whole.ids % 2)
    plan = make_plan(make_config({**settings, "forget_count": 1, "out": tmp_path / "r"}), load_catalogue())
    parts = protocol.split(whole, 0, plan.cells[0].dataset_identity, 0)
    chosen = parts.train[[0, 5]].tolist()
    plan = make_plan(make_config({**settings, "forget": chosen, "out": tmp_path / "r"}), load_catalogue())
    (record,) = execute(plan)
    assert record.status == "ok"
    arrays = np.load(next((tmp_path / "r").rglob("*.npz")))
    assert set(arrays["train"].tolist()) <= set(ids)
    assert record.requests[0]["count"] == 2
    with pytest.raises(UsageError, match=f"`forget` {parts.test[0]}: not a training node"):
        make_plan(make_config({**settings, "forget": parts.test[:1].tolist(), "out": tmp_path}), load_catalogue())
    with pytest.raises(UsageError, match="`forget` 3: not a training node"):
        make_plan(make_config({**settings, "forget": [3], "out": tmp_path}), load_catalogue())
