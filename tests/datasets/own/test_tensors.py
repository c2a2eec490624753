"""Tensors whose shape, strides, layout or indices are not what memory holds."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from graph_samples import saved, user_graph
from torch import Tensor
from torch_geometric.edge_index import EdgeIndex

from unlearnbench.datasets.base import load_graph
from unlearnbench.datasets.own.file import File
from unlearnbench.errors import DataError
from unlearnbench.graph import Graph

HUGE = 2**40
GRAPH = user_graph()
X, Y, EDGES = GRAPH["x"], GRAPH["y"], GRAPH["edge_index"]
NODES = len(Y)
# Torch warns of unusual kinds when they are made.
pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


def load(folder: Path, **changes: Any) -> Graph:
    return load_graph(File(File.Params(path=str(saved(folder / "g.pt", **changes)))), folder)


def in_memory(**changes: Any) -> Graph:
    return File(File.Params()).of_value(user_graph(**changes))


def coo(indices: list[list[int]], shape: tuple[int, int], dtype: Any = torch.float32) -> Tensor:
    values = torch.ones(len(indices[0]), dtype=dtype)
    return torch.sparse_coo_tensor(torch.tensor(indices), values, shape, check_invariants=False)


def csr(rows: list[int], columns: list[int], shape: tuple[int, int] = (NODES, 4)) -> Tensor:
    parts = torch.tensor(rows), torch.tensor(columns), torch.ones(len(columns))
    return torch.sparse_csr_tensor(*parts, shape, check_invariants=False)


def repeated(dtype: Any, *shape: int) -> Tensor:
    return torch.ones(1, dtype=dtype).expand(*shape)


def three_masks() -> dict[str, Tensor]:
    return {f"{part}_mask": repeated(torch.bool, NODES, HUGE) for part in ("train", "val", "test")}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda: {"x": repeated(torch.float32, NODES, HUGE)},
            r"x of shape \[40, 1099511627776\] would take 175921860444160 b",
        ),
        (lambda: {"x": repeated(torch.float32, 2**31, 2**31)}, "x of shape"),
        (
            lambda: {"y": repeated(torch.int64, HUGE)},
            "y of shape .* would take 8796093022208 bytes, of which 8 are there",
        ),
        (lambda: {"edge_index": repeated(torch.int64, 2, HUGE)}, "edge_index of shape"),
        (lambda: {"ids": repeated(torch.int64, HUGE)}, "ids of shape"),
        (lambda: {"num_classes": repeated(torch.int64, HUGE)}, "num_classes of shape"),
        (three_masks, "train_mask of shape"),
        (lambda: {"x": coo([[0, 99], [0, 1]], (NODES, 4))}, "x holds no plain numbers .* found index 99"),
        (lambda: {"x": coo([[0, -1], [0, 1]], (NODES, 4))}, "negative index -1"),
        (lambda: {"x": coo([[0], [0]], (NODES, 2**50))}, "x of shape"),
        (lambda: {"x": coo([[0], [0]], (2**50, 4))}, "x of shape"),
        (lambda: {"edge_index": coo([[0, 5], [0, 1]], (2, 10), torch.int64)}, "edge_index holds no .* found index 5"),
        (lambda: {"x": csr([0] + [1] * NODES, [77])}, "col_indices"),
        (lambda: {"x": csr([0] + [1] * NODES, [-5])}, "col_indices"),
        (lambda: {"x": csr([0] + [100] * NODES, [0])}, "crow_indices"),
        (lambda: {"x": csr([0, 1] + [0] * (NODES - 2) + [1], [0])}, "crow_indices"),
        (lambda: {"x": csr([0] + [1] * NODES, [0], (NODES, 2**50))}, "x of shape"),
        (lambda: {"x": torch.nested.nested_tensor([X[0], X[1]])}, "a nested tensor"),
        (lambda: {"x": X.to("meta")}, "a tensor without data"),
        (lambda: {"x": torch.zeros(NODES, 4, dtype=torch.uint8).view(torch.bits8)}, "bits8"),
        (lambda: {"x": X.to(torch.complex32)}, "complex32"),
        (lambda: {"x": torch.zeros(NODES, 4, dtype=torch.complex64).conj()}, "complex"),
    ],
)
def test_what_memory_does_not_hold_is_refused_before_it_is_used(
    change: Callable[[], dict[str, Any]], message: str, tmp_path: Path
) -> None:
    with pytest.raises(DataError, match=message) as caught:
        load(tmp_path, **change())
    assert "g.pt" in caught.value.message
    with pytest.raises(DataError, match=message):
        in_memory(**change())


@pytest.mark.parametrize(
    "change",
    [
        lambda: {"x": torch._neg_view(-X)},
        lambda: {"y": torch._neg_view(-Y), "edge_index": torch._neg_view(-EDGES)},
        lambda: {"x": torch.view_as_complex(torch.stack([X, -X], -1)).conj().real},
        lambda: {"x": torch.view_as_complex(torch.stack([X, -X], -1)).conj().imag},
        lambda: {"x": X.T.contiguous().T, "y": torch.stack([Y, Y], 1)[:, 0], "edge_index": EDGES.T.contiguous().T},
        lambda: {"x": X.to_sparse_csr(), "edge_index": EDGES.to_sparse()},
        lambda: {"x": X.to_sparse_csc(), "y": Y.to(torch.int8)},
        lambda: {"x": X.to_sparse_bsr((2, 2))},
        lambda: {"x": torch.nn.Buffer(X), "other": repeated(torch.float32, HUGE)},
    ],
)
def test_other_views_and_layouts_hold_the_same_numbers(change: Callable[[], dict[str, Any]], tmp_path: Path) -> None:
    wanted = load(tmp_path).checksum()
    assert load(tmp_path, **change()).checksum() == wanted
    assert in_memory(**change()).checksum() == wanted


def test_a_value_that_stands_for_all_nodes_is_copied(tmp_path: Path) -> None:
    graph = load(tmp_path, x=repeated(torch.float32, NODES, 3))
    graph.x[0] += 1
    assert graph.x.sum(dim=1).tolist() == [6] + [3] * (NODES - 1)


def test_an_index_that_stands_twice_counts_twice_as_torch_has_it(tmp_path: Path) -> None:
    graph = load(tmp_path, x=coo([[0, 0, 39], [1, 1, 3]], (NODES, 4)))
    assert torch.nonzero(graph.x).tolist() == [[0, 1], [39, 3]]
    assert graph.x[0, 1] == 2


def test_classes_of_tensors_are_left_behind(tmp_path: Path) -> None:
    class Own(Tensor):
        pass

    graph = in_memory(x=X.as_subclass(Own), edge_index=EdgeIndex(EDGES))
    assert type(graph.x) is type(graph.edge_index) is Tensor
    assert graph.checksum() == load(tmp_path).checksum()


def test_what_is_in_memory_is_copied(tmp_path: Path) -> None:
    mine = user_graph()
    graph = File(File.Params()).of_value(mine)
    for name in ("x", "y", "edge_index"):
        mine[name].zero_()
    assert graph.checksum() == load(tmp_path).checksum()


@pytest.mark.parametrize("kind", [torch.int8, torch.uint8, torch.int16])
def test_labels_of_few_bits_are_compared_as_numbers(kind: Any, tmp_path: Path) -> None:
    wanted = torch.arange(NODES) + 80
    assert load(tmp_path, y=wanted.to(kind)).y.tolist() == wanted.tolist()
