"""A9: unlabelled nodes, classes that do not occur, labels of other types, several labels a node."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import saved

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph
from unlearnbench.protocol import protocol

NO_EDGES = torch.empty(2, 0, dtype=torch.int64)


def masks(*parts: list[int], nodes: int = 6) -> dict[str, torch.Tensor]:
    found = {}
    for name, positions in zip(("train_mask", "val_mask", "test_mask"), parts, strict=True):
        found[name] = torch.zeros(nodes, dtype=torch.bool)
        found[name][positions] = True
    return found


def load(folder: Path, **changes: Any) -> tuple[Graph, list[str]]:
    path = saved(folder / "g.pt", **{"nodes": 6, "edge_index": NO_EDGES, **changes})
    dataset = File(File.Params(path=str(path)))
    return load_graph(dataset, folder), dataset.notes


def test_markers_of_unlabelled_nodes_are_no_class_and_missing_classes_count(tmp_path: Path) -> None:
    graph, notes = load(tmp_path, y=torch.tensor([0, 2, 2, 0, -1, -100]), **masks([0, 1], [2], [3]))
    assert graph.num_classes == 3
    assert graph.y.tolist() == [0, 2, 2, 0, -1, -1]
    assert notes == ["2 nodes have no label: they are neither trained on nor scored."]


@pytest.mark.parametrize(
    ("parts", "message"),
    [
        (([0, 1, 4], [2], [3]), r"1 unlabelled training node \(first: 4\)"),
        (([0, 1], [2], [3, 4, 5]), r"2 unlabelled test nodes \(first: 4\)"),
    ],
)
def test_an_unlabelled_node_in_a_mask_is_an_error(parts: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message):
        load(tmp_path, y=torch.tensor([0, 2, 2, 0, -1, -1]), **masks(*parts))


def test_folds_leave_unlabelled_nodes_out(tmp_path: Path) -> None:
    y = torch.arange(40) % 2
    y[::4] = -1
    graph, _ = load(tmp_path, nodes=40, y=y)
    parts = protocol.split(graph, 0, "file", 0)
    assert torch.equal(torch.cat(list(parts.parts().values())).sort().values, torch.nonzero(y >= 0).flatten())


def test_whole_floats_are_classes_with_a_note_and_nan_is_no_label(tmp_path: Path) -> None:
    graph, notes = load(tmp_path, nodes=3, y=torch.tensor([0.0, 1.0, float("nan")]))
    assert graph.y.tolist() == [0, 1, -1]
    assert graph.y.dtype == torch.int64
    assert notes[0] == "labels are float32; all are whole numbers and taken as classes."
    column, _ = load(tmp_path, nodes=3, y=torch.tensor([[0], [1], [1]], dtype=torch.uint8))
    assert column.y.tolist() == [0, 1, 1]
    boolean, _ = load(tmp_path, nodes=3, y=torch.tensor([True, False, True]))
    assert boolean.y.tolist() == [1, 0, 1]


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (torch.zeros(6, 2), r"shape \[6, 2\]: multi-label graphs cannot be used"),
        (torch.tensor([0.0, 0.5, 1, 1, 1, 1]), "label 0.5 in row 1 is not a whole number"),
        (torch.full((6,), float("inf")), "label inf in row 0"),
        (torch.full((6,), -1), "no node has a label"),
        (torch.ones(6, dtype=torch.complex64), "complex"),
    ],
)
def test_other_labels_are_refused_by_name(y: torch.Tensor, message: str, tmp_path: Path) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path, y=y)
    assert "file:g.pt" in caught.value.message
