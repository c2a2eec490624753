"""A3: files of PyG's data classes load under the safe default of torch; nothing else in a file is ever run."""

from __future__ import annotations

import os
import pickle
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import Bomb, user_graph
from torch_geometric.data import Data

from unlearnbench.datasets.own.reading import read_graph_file
from unlearnbench.errors import DataError


def test_what_pyg_processed_loads(tmp_path: Path) -> None:
    tensors = user_graph()
    torch.save((Data(**tensors).to_dict(), None, Data), tmp_path / "data.pt")
    torch.save(Data(**tensors), tmp_path / "one.pt")
    for name in ("data.pt", "one.pt"):
        found, _ = read_graph_file(tmp_path / name)
        assert all(torch.equal(found[key], value) for key, value in tensors.items())


def test_several_graphs_are_refused(tmp_path: Path) -> None:
    torch.save((Data(**user_graph()).to_dict(), {"x": torch.tensor([0, 20, 40])}, Data), tmp_path / "data.pt")
    with pytest.raises(DataError, match="several graphs"):
        read_graph_file(tmp_path / "data.pt")


@pytest.mark.parametrize("form", ["torch", "inside", "pickle", "array"])
def test_a_file_that_would_run_something_does_not(form: str, tmp_path: Path) -> None:
    bomb: Any = Bomb(tmp_path / "pwned")
    path = tmp_path / ("g.npz" if form == "array" else "g.pt")
    if form == "pickle":
        path.write_bytes(pickle.dumps(bomb))
    elif form == "array":
        import numpy as np

        np.savez(path, **{**user_graph(), "y": np.array([bomb], dtype=object)})
    else:
        torch.save(bomb if form == "torch" else {**user_graph(), "extra": bomb}, path)
    with pytest.raises(DataError, match=path.name) as caught:
        read_graph_file(path)
    assert not (tmp_path / "pwned").exists()
    if form in ("torch", "inside"):
        assert f"{os.mkdir.__module__}.mkdir" in caught.value.message


@pytest.mark.parametrize("value", [[1, 2], torch.ones(3), "text"])
def test_other_plain_values_are_no_graph(value: Any, tmp_path: Path) -> None:
    torch.save(value, tmp_path / "g.pt")
    with pytest.raises(DataError, match=f"holds a {type(value).__name__}"):
        read_graph_file(tmp_path / "g.pt")
