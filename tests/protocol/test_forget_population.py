"""What is forgotten is drawn from the training nodes, its number is rounded half up and stated, its ids are kept."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import ONCE, SHARDS, command, install, records_of
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.errors import UsageError
from unlearnbench.protocol import Forget
from unlearnbench.protocol.drawing import draw
from unlearnbench.protocol.protocol import split
from unlearnbench.protocol.requests import rounded_half_up
from unlearnbench.testing.graphs import toy_graph

__all__ = ["command", "install"]


@pytest.mark.parametrize(
    ("ratio", "nodes", "count"),
    [(0.005, 2708, 14), (0.005, 3327, 17), (0.29, 100, 29), (0.57, 100, 57), (0.145, 100, 15)],
)
def test_a_ratio_is_of_all_nodes_and_rounded_half_up(ratio: float, nodes: int, count: int) -> None:
    request = draw(Forget(ratio), torch.arange(nodes), nodes, torch.Generator().manual_seed(0))
    assert len(request.ids) == count


@settings(max_examples=200, deadline=None)
@given(st.integers(1, 999), st.integers(1, 5000))
def test_rounding_is_that_of_whole_numbers(thousandths: int, nodes: int) -> None:
    assert rounded_half_up(thousandths / 1000, nodes) == (2 * thousandths * nodes + 1000) // 2000


def test_half_the_nodes_are_for_training_and_only_they_are_forgotten() -> None:
    train = torch.arange(100) * 2 + 1
    for seed in range(20):
        request = draw(Forget(None, 29), train, 200, torch.Generator().manual_seed(seed))
        assert len(request.ids.unique()) == 29
        assert bool((request.ids % 2 == 1).all())


def test_requests_that_cannot_be_served_are_refused() -> None:
    train = torch.arange(100, 110)
    rng = torch.Generator().manual_seed(0)
    with pytest.raises(UsageError, match="rounds to none"):
        draw(Forget(0.01), train, 10, rng)
    with pytest.raises(UsageError, match="leaves none"):
        draw(Forget(None, 10), train, 100, rng)
    with pytest.raises(UsageError, match="leaves none"):
        draw(Forget(None, None, tuple(range(100, 110))), train, 200, rng)
    with pytest.raises(UsageError, match="`forget` 150"):
        draw(Forget(None, None, (100, 150)), train, 200, rng)


def test_a_drawn_request_is_of_training_nodes_stated_and_kept(command: Any, tmp_path: Path) -> None:
    told = command("run", "-m", "steady", *ONCE, "--forget-ratio", "0.29", "--out", str(tmp_path / "out"))
    assert told.code == 0
    assert "toy (29 of 100 nodes forgotten)" in told.err
    records = records_of(tmp_path / "out").values()
    assert {record.cell["method"]["name"] for record in records} == {"retrain", "steady"}
    for record in records:
        assert record.requests[0]["count"] == 29
        (path,) = (tmp_path / "out").rglob(f"{record.key}.npz")
        with np.load(path) as arrays:
            assert len(np.unique(arrays["forgotten"])) == 29
            assert np.isin(arrays["forgotten"], arrays["train"]).all()
            assert arrays["forgotten"].min() >= 5000


def test_nodes_to_forget_are_named_by_their_ids(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    parts = split(toy_graph(100, first_id=5000), 0, "toy", 0)
    wanted = [int(parts.train[7]), int(parts.train[2])]
    arguments = ("run", "-m", "sisa", *ONCE, *SHARDS, "--forget")
    assert command(*arguments, ",".join(map(str, wanted)), "--out", str(out)).code == 0
    for record in records_of(out).values():
        assert record.cell["protocol"]["forget"] == {"kind": "node", "ids": sorted(wanted)}
        assert record.requests[0]["count"] == 2
    for stranger in (int(parts.test[0]), int(parts.val[0]), 150):
        told = command(*arguments, f"{wanted[0]},{stranger}", "--out", str(tmp_path / "other"))
        assert told.code == 2
        assert f"--forget {stranger}: not a training node" in told.err
        assert not (tmp_path / "other").exists()


@pytest.mark.parametrize(
    ("amount", "said"),
    [
        (("--forget-ratio", "0.004"), "--forget-ratio 0.004 of 100 nodes rounds to none"),
        (("--forget-count", "70"), "The request of 70 nodes leaves none of the 70 training nodes"),
        (("--forget-ratio", "0.7"), "The request of 70 nodes leaves none of the 70 training nodes"),
    ],
)
def test_an_amount_that_does_not_fit_the_dataset_stops_the_run(
    command: Any, tmp_path: Path, amount: tuple[str, str], said: str
) -> None:
    told = command("run", "-m", "steady", *ONCE, *amount, "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert said in told.err
    assert not (tmp_path / "out").exists()
