"""A8: directed graphs, duplicates and self-loops are counted and said when a graph comes in."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from graph_samples import saved

from unlearnbench.cli import main
from unlearnbench.datasets.base import describe, edge_statistics, load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.protocol import Request

COLUMNS = torch.tensor([(0, 1), (0, 1), (1, 2), (2, 2), (2, 0), (3, 3)]).T


def test_what_kind_of_edges_there_are_is_said_in_one_line(tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", nodes=4, edge_index=COLUMNS)
    graph = load_graph(File(File.Params(path=str(path))), tmp_path)
    assert torch.equal(graph.edge_index, COLUMNS)
    assert describe(graph) == (
        "4 nodes, 3 undirected pairs, directed, 1 duplicate edges, 2 self-loops, 1 isolated nodes,"
        " 4 features, 2 classes"
    )
    both = load_graph(File(File.Params(path=str(path), undirected=True)), tmp_path)
    assert edge_statistics(both) == {"pairs": 3, "directed": False, "duplicates": 0, "self_loops": 2, "isolated": 1}


@pytest.mark.usefixtures("same_signals")
def test_a_run_says_it_before_anything_else(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = saved(tmp_path / "g.pt", edge_index=COLUMNS)
    arguments = ["-d", f"file:{path}", "--forget-count", "2", "--dry-run", "--out", str(tmp_path / "r")]
    with pytest.raises(SystemExit) as caught:
        main(["run", "-m", "retrain", *arguments])
    assert caught.value.code == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "undirected pairs" in line]
    assert line.startswith("note: file:g.pt: 40 nodes, 3 undirected pairs, directed, 1 duplicate edges, 2 self-loops")


def test_a_forgotten_node_takes_all_copies_of_its_edges_and_no_other(tmp_path: Path) -> None:
    path = saved(tmp_path / "g.pt", nodes=4, edge_index=COLUMNS)
    left = Request(torch.tensor([1])).apply(load_graph(File(File.Params(path=str(path))), tmp_path))
    assert [(int(left.ids[a]), int(left.ids[b])) for a, b in left.edge_index.T] == [(2, 2), (2, 0), (3, 3)]
