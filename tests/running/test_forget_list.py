"""What is to be forgotten: lists, texts and files, of nodes and of edges, few and many."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from unlearnbench.errors import UsageError
from unlearnbench.protocol import Forget
from unlearnbench.running.config import make_config
from unlearnbench.running.forget_list import read_forget


@pytest.mark.parametrize(
    ("text", "ids"),
    [
        ("3, 17", [3, 17]),
        ("-3,-17", [-3, -17]),
        ("3-17,4 - 5", [(3, 17), (4, 5)]),
        ("-3-17,3--17,-3--17", [(-3, 17), (3, -17), (-3, -17)]),
        (np.array([3, 17]), [3, 17]),
        (torch.tensor([[3, 17]]), [[3, 17]]),
        ([3, 17], [3, 17]),
    ],
)
def test_lists_and_texts(text: Any, ids: list[Any]) -> None:
    assert read_forget(text) == ids


def write(folder: Path, name: str, content: Any) -> str:
    path = folder / name
    if isinstance(content, np.ndarray):
        np.save(path, content)
    elif isinstance(content, str):
        path.write_text(content, encoding="utf-8")
    else:
        path.write_text(json.dumps(content))
    return f"@{path}"


@pytest.mark.parametrize(
    ("name", "content", "ids"),
    [
        ("ids.txt", "# mine\n3\n17\n\n-5\n", [3, 17, -5]),
        ("ids.txt", "\ufeff3, 17,\r\n -5\r\n", [3, 17, -5]),
        ("edges.txt", "3-17\n-4--5, 6-7", [(3, 17), (-4, -5), (6, 7)]),
        ("ids.npy", np.array([3, 17, -5], dtype=np.int32), [3, 17, -5]),
        ("edges.npy", np.array([[3, 17], [4, 5]]), [(3, 17), (4, 5)]),
        ("ids.json", [3, 17, -5], [3, 17, -5]),
        ("edges.json", [[3, 17], [4, -5]], [(3, 17), (4, -5)]),
        ("features.txt", "# column 0\n3:0\n-17:0, 5:2", [(3, 0), (-17, 0), (5, 2)]),
        ("features.npy", np.array([[3, 0], [3, 3]]), [(3, 0), (3, 3)]),
        ("features.json", [[3, 3]], [(3, 3)]),
        ("features_of_nodes.json", [3, -17], [3, -17]),
    ],
)
def test_files(name: str, content: Any, ids: list[Any], tmp_path: Path) -> None:
    kind = "feature" if "features" in name else "edge" if isinstance(ids[0], tuple) else "node"
    config = make_config({"forget": write(tmp_path, name, content), "forget_kind": kind})
    assert config.forget_amount() == Forget(None, ids=tuple(ids), kind=kind)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("ids.txt", "3\nx\n", r"ids\.txt: 'x' is not a whole number"),
        ("ids.txt", "3-4\n5\n", r"ids\.txt: '5' is not an edge"),
        ("ids.txt", "3\n4-5\n", r"ids\.txt: '4-5' is not a whole number"),
        ("ids.npy", np.array([1.5]), r"ids\.npy: float64 of shape \[1\]"),
        ("ids.npy", np.zeros((2, 3), dtype=int), r"ids\.npy: int64 of shape \[2, 3\]"),
        ("ids.npy", "no array", r"ids\.npy cannot be read"),
        ("ids.json", "[1,", r"ids\.json cannot be read"),
        ("ids.json", {"a": 1}, r"ids\.json: {'a': 1} is no id"),
        ("ids.json", [1, True], r"ids\.json: True is no id"),
        ("ids.json", [[1, 2, 3]], r"ids\.json: \[1, 2, 3\] is no id"),
        ("ids.txt", "", "names no node"),
    ],
)
def test_what_is_no_list_is_named(name: str, content: Any, message: str, tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=message):
        make_config({"forget": write(tmp_path, name, content)})


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"none\.txt: No such file"):
        read_forget(f"@{tmp_path / 'none.txt'}")


def test_an_error_about_a_long_list_is_short() -> None:
    with pytest.raises(UsageError) as caught:
        read_forget("1," * 100_000 + "x" * 1000)
    assert len(str(caught.value)) < 300


def test_a_million_ids_are_compared_a_few_times_each(tmp_path: Path) -> None:
    """As `list.count` for each compared 10^12 times."""
    compared: Counter[str] = Counter()

    class Id(int):
        __hash__ = int.__hash__

        def __eq__(self, other: object) -> bool:
            compared["equal"] += 1
            return int.__eq__(self, other)  # type: ignore[arg-type]

    Forget(None, ids=tuple(map(Id, range(20_000))))
    assert compared["equal"] <= 3 * 20_000
    many = write(tmp_path, "ids.npy", np.arange(10**6))
    assert make_config({"forget": many}).forget_amount().number_of(0) == 10**6


def test_a_file_of_no_ids_adds_nothing_to_others(tmp_path: Path) -> None:
    empty = write(tmp_path, "empty.json", "[]")
    assert read_forget([empty, "3,8"]) == [3, 8]
