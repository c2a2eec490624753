"""A4: nothing processed is kept, so another setting or another file under the same name cannot meet an old result."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from graph_samples import NODES, planetoid_files, put, saved, small_planetoid

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.graph import Graph

EDGES = torch.tensor([[0, 1], [1, 0]])


def load(path: Path, **parameters: Any) -> Graph:
    return load_graph(File(File.Params(path=str(path), **parameters)), path.parent)


def test_another_setting_gives_another_graph_at_once(tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", nodes=2, x=torch.tensor([[2.0, 2.0], [0.0, 4.0]]), edge_index=EDGES)
    assert load(path).x.tolist() == [[2, 2], [0, 4]]
    assert load(path, features="degree").x.tolist() == [[1], [1]]
    assert load(path).x.tolist() == [[2, 2], [0, 4]]
    assert len({load(path, features=kind).checksum() for kind in ("given", "degree")}) == 2
    assert [file.name for file in tmp_path.iterdir()] == ["g.pt"]


def test_a_file_that_changed_is_read_anew(tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", nodes=2, x=torch.tensor([[2.0, 2.0], [0.0, 4.0]]), edge_index=EDGES)
    first = load(path)
    saved(path, nodes=2, x=torch.tensor([[0.5, 0.5], [0.0, 1.0]]), edge_index=EDGES)
    assert load(path).x.tolist() == [[0.5, 0.5], [0, 1]]
    assert load(path).checksum() != first.checksum()


def test_a_published_graph_leaves_nothing_behind(tmp_path: Path) -> None:
    put(tmp_path, "Planetoid/Small/raw", planetoid_files())
    (tmp_path / "Planetoid/Small/processed").mkdir()
    (tmp_path / "Planetoid/Small/processed/data.pt").write_bytes(b"an old result")
    before = sorted(tmp_path.rglob("*"))
    assert load_graph(small_planetoid(), tmp_path).num_nodes == NODES
    assert sorted(tmp_path.rglob("*")) == before
