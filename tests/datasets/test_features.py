"""A10: features that are missing, empty, not finite or zero."""

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

NAN = float("nan")
EDGES = torch.tensor([[0, 1, 2], [1, 0, 1]])


def load(folder: Path, x: torch.Tensor | None, **parameters: Any) -> Graph:
    path = saved(folder / "g.pt", nodes=3, x=x, edge_index=EDGES)
    return load_graph(File(File.Params(path=str(path), **parameters)), folder)


@pytest.mark.parametrize("value", [NAN, float("inf")])
def test_what_is_not_finite_is_named_by_node_and_column(value: float, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="node 1, column 0"):
        load(tmp_path, torch.tensor([[1.0, 2.0], [value, 0.0], [0.0, 0.0]]))


def test_rows_of_zeros_stay_zero(tmp_path: Path) -> None:
    assert load(tmp_path, torch.tensor([[1.0, 2.0], [1.0, 0.0], [0.0, 0.0]])).x[2].tolist() == [0, 0]


@pytest.mark.parametrize("x", [None, torch.empty(3, 0)])
def test_no_features_name_the_option_that_supplies_some(x: torch.Tensor | None, tmp_path: Path) -> None:
    with pytest.raises(DataError, match="features") as caught:
        load(tmp_path, x)
    assert "features=degree or features=constant" in caught.value.hint
    assert load(tmp_path, x, features="degree").x.tolist() == [[1], [2], [0]]
    assert load(tmp_path, x, features="constant").x.tolist() == [[1], [1], [1]]


def test_other_kinds_of_numbers_become_floats(tmp_path: Path) -> None:
    dense = torch.tensor([[1, 0], [0, 2], [0, 0]])
    for x in (dense, dense.to(torch.float64), dense.to(torch.uint8), dense.float().to_sparse()):
        graph = load(tmp_path, x)
        assert graph.x.dtype == torch.float32
        assert graph.x.tolist() == dense.tolist()
    assert load(tmp_path, torch.tensor([1.0, 2.0, 3.0])).x.shape == (3, 1)
    with pytest.raises(DataError, match="complex"):
        load(tmp_path, torch.ones(3, 1, dtype=torch.complex64))
