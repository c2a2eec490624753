"""Deployed states on disk: plain, whole, readable without the package, and refused when they are anything else."""

from __future__ import annotations

import io
import zipfile
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import Bomb

import unlearnbench
from unlearnbench.errors import UsageError
from unlearnbench.graph import Split
from unlearnbench.records.states import State, load_state, save_state

CELL = {"method": {"name": "sisa", "params": {"num_shards": 3}}, "repetition": 0}


def make_state(**changes: Any) -> State:
    values: dict[str, Any] = {
        "key": "0123abcd",
        "label": "sisa",
        "cell": CELL,
        "weights": {"members/000/weight": torch.arange(6.0).reshape(2, 3)},
        "forgotten": torch.tensor([4]),
        "split": Split(torch.tensor([1, 4, 5]), torch.tensor([2]), torch.tensor([3])),
        "partition": torch.tensor([[1, 0], [5, 1]]),
    }
    return State(**{**values, **changes})


def test_what_is_written_is_read_and_torch_alone_reads_it_too(tmp_path: Path) -> None:
    path = tmp_path / "folder" / "0123abcd.pt"
    save_state(make_state(), path)
    state = unlearnbench.load_state(str(path))
    assert torch.equal(state.weights["members/000/weight"], torch.arange(6.0).reshape(2, 3))
    assert (state.key, state.label, state.cell) == ("0123abcd", "sisa", CELL)
    assert [ids.tolist() for ids in state.split.parts().values()] == [[1, 4, 5], [2], [3]]
    assert state.partition is not None
    assert state.partition.tolist() == [[1, 0], [5, 1]]
    plain = torch.load(path, weights_only=True)
    assert set(plain) == {"unlearnbench_state", "key", "label", "cell", "weights", "forgotten", "split", "partition"}


def test_a_state_has_no_more_than_its_own_part_of_a_larger_tensor(tmp_path: Path) -> None:
    whole = torch.zeros(1000, 1000)
    save_state(make_state(weights={"weight": whole[3, :4]}), tmp_path / "s.pt")
    assert (tmp_path / "s.pt").stat().st_size < 10_000


def test_a_method_without_a_partition_and_forgotten_edges(tmp_path: Path) -> None:
    save_state(make_state(partition=None, forgotten=torch.tensor([[1, 4]])), tmp_path / "s.pt")
    state = load_state(tmp_path / "s.pt")
    assert state.partition is None
    assert state.forgotten.tolist() == [[1, 4]]


def written(value: Any) -> bytes:
    content = io.BytesIO()
    torch.save(value, content)
    return content.getvalue()


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "cannot be read"),
        (b"not a state", "cannot be read"),
        (written({"members/000/weight": torch.zeros(1)}), "is not a state"),
        (written([1, 2]), "is not a state"),
        (written({"unlearnbench_state": 2}), "has layout 2, this unlearnbench reads 1"),
        (written({"unlearnbench_state": 1, "key": "a"}), "it has no label"),
    ],
)
def test_another_file_is_one_clear_error(tmp_path: Path, content: bytes, said: str) -> None:
    path = tmp_path / "s.pt"
    path.write_bytes(content)
    with pytest.raises(UsageError, match=said) as caught:
        load_state(path)
    assert "s.pt" in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("weights", {"weight": [1.0]}, "its weights are not plain tensors by name"),
        ("weights", {"weight": torch.ones(1).expand(2**40)}, "its weights are not plain tensors by name"),
        ("weights", {"weight": torch.eye(2).to_sparse()}, "its weights are not plain tensors by name"),
        ("weights", {"weight": torch._neg_view(torch.ones(2))}, "its weights are not plain tensors by name"),
        ("forgotten", torch.ones(1, dtype=torch.int64).expand(2**40), "forgotten is not a tensor of ids"),
        ("forgotten", torch.tensor([0.5]), "forgotten is not a tensor of ids"),
        ("partition", torch.tensor([1, 2]), "partition is not a tensor of ids"),
        ("split", {"train": torch.tensor([1])}, "split.val is not a tensor of ids"),
    ],
)
def test_a_part_of_another_kind_is_named(tmp_path: Path, name: str, value: Any, said: str) -> None:
    save_state(make_state(), tmp_path / "s.pt")
    plain = torch.load(tmp_path / "s.pt", weights_only=True)
    torch.save({**plain, name: value}, tmp_path / "s.pt")
    with pytest.raises(UsageError, match=said):
        load_state(tmp_path / "s.pt")


def test_a_missing_a_flipped_and_a_dangerous_file(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"absent\.pt does not exist"):
        load_state(tmp_path / "absent.pt")
    path = tmp_path / "s.pt"
    save_state(make_state(), path)
    with zipfile.ZipFile(path) as archive:
        (data,) = [i for i in archive.infolist() if i.filename.endswith("data/0")]
    content = bytearray(path.read_bytes())
    content[content.index(torch.arange(6.0).numpy().tobytes()) + 5] ^= 1
    path.write_bytes(bytes(content))
    with pytest.raises(UsageError, match=f"damaged: {data.filename}"):
        load_state(path)
    torch.save(Bomb(tmp_path / "pwned"), path)
    with pytest.raises(UsageError, match="cannot be read as a state"):
        load_state(path)
    assert not (tmp_path / "pwned").exists()
