"""D1: a cell is known by all that its numbers depend on, and by nothing else."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import ONCE, SHARDS, command, files_of, install, records_of
from graph_samples import saved, user_graph

__all__ = ["command", "install"]


def summary(cells: int, ready: int) -> str:
    return f"{cells} cells: {cells} ok, 0 failed, 0 refused, 0 diverged; {ready} were there already."


@pytest.mark.slow
def test_another_amount_to_forget_is_another_cell(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("run", "-m", "steady", "-d", "digits", "--repetitions", "1", "--no-reference", "--out", str(out))
    for count in (270, 540):
        assert summary(1, 0) in command(*arguments, "--forget-count", str(count)).err
    records = [path.stem for path in out.glob("records/*/digits/steady/*.json")]
    assert len(records) == 2
    for count in (270, 540):
        listed = command(*arguments, "--forget-count", str(count), "--dry-run").out.split()
        assert listed[0] in records
        assert listed[1] == "done"
        assert summary(1, 1) in command(*arguments, "--forget-count", str(count)).err
    assert command(*arguments, "--forget-count", "271", "--dry-run").out.split()[1] == "run"


def test_the_order_of_methods_and_options_does_not_matter(command: Any, tmp_path: Path) -> None:
    out = ("--out", str(tmp_path / "out"))
    assert summary(3, 0) in command("run", "-m", "steady", "-m", "frozen", *ONCE, *out).err
    told = command("run", *out, *reversed_pairs(ONCE), "-m", "frozen", "-m", "steady")
    assert summary(3, 3) in told.err


def reversed_pairs(options: tuple[str, ...]) -> list[str]:
    pairs = [options[at : at + 2] for at in range(0, len(options), 2)]
    return [part for pair in reversed(pairs) for part in pair]


@pytest.mark.slow
def test_what_is_there_is_not_computed_again_however_it_is_written(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    first = command("run", "-m", "sisa,steady", *ONCE, *SHARDS, "--out", str(out))
    assert first.code == 0
    assert set(records_of(out)) == {("retrain", 0), ("sisa", 0), ("steady", 0)}
    assert all(record.status == "ok" for record in records_of(out).values())
    assert "sisa[num_shards=3]" in first.out
    before = files_of(out)
    same = [
        ("-m", "sisa,steady", *ONCE, *SHARDS),
        ("-m", "steady", "-m", "sisa[num_shards=3,partitioner=random]", "-d", "toy", "--epochs", "2", "--seeds", "0"),
        (
            "-m",
            "steady,ub-toys:steady,retrain,sisa",
            *ONCE,
            *SHARDS,
            "--forget-ratio",
            "0.005",
            "--set",
            "training.lr=0.01",
        ),
        (
            "-m",
            "sisa[aggregator=mean],steady",
            *ONCE,
            *SHARDS,
            "--models",
            "gcn[]",
            "--device",
            "cpu",
            "--overwrite",
            "never",
        ),
    ]
    for arguments in same:
        told = command("run", *arguments, "--out", str(out))
        assert told.code == 0
        assert "3 cells: 3 ok, 0 failed, 0 refused, 0 diverged; 3 were there already." in told.err
        assert files_of(out) == before
    told = command("run", "-m", "sisa,steady", *ONCE, *SHARDS, "--out", str(out), "--forget-count", "2")
    assert "3 cells: 3 ok, 0 failed, 0 refused, 0 diverged; 0 were there already." in told.err
    assert {path: files_of(out)[path] for path in before} == before


def test_another_version_of_a_component_is_another_cell(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("run", "-m", "steady,frozen", *ONCE, "--no-reference", "--out", str(tmp_path / "out"))
    assert command(*arguments).code == 0
    toys = sys.modules["ub_toys"]
    monkeypatch.setattr(toys.Frozen, "version", 2)
    lines = command(*arguments, "--dry-run").out.splitlines()
    assert [line.split()[1] for line in lines] == ["done", "run"]
    assert summary(2, 1) in command(*arguments).err
    monkeypatch.setattr(toys.Toy, "version", 2)
    assert summary(2, 0) in command(*arguments).err


def test_another_version_of_a_distribution_is_told(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("run", "-m", "steady,frozen", *ONCE, "--no-reference", "--out", str(out))
    assert "were made with" not in command(*arguments).err
    before = files_of(out)
    (info,) = (tmp_path / "site").glob("ub_toys-*.dist-info")
    metadata = info / "METADATA"
    metadata.write_text(metadata.read_text().replace("1.0", "1.1"))
    told = command(*arguments)
    assert "note: 2 records that are there were made with ub-toys 1.0, not 1.1; they are kept: --overwrite" in told.err
    assert summary(2, 2) in told.err
    assert files_of(out) == before
    assert "were made with" not in command(*arguments, "--overwrite", "always").err
    assert {record.provenance["plugins"]["ub-toys"] for record in records_of(out).values()} == {"1.1"}
    assert "were made with" not in command(*arguments).err


def test_other_data_of_one_name_are_another_cell_and_moved_data_are_not(command: Any, tmp_path: Path) -> None:
    arguments = ("run", "-m", "steady", "--repetitions", "1", "--epochs", "2", "--no-reference", "-d")
    out = ("--out", str(tmp_path / "out"), "--forget-count", "2")
    masks = {name: torch.arange(40) % 4 == at for at, name in enumerate(("train_mask", "val_mask", "test_mask"))}
    graph = user_graph(**masks)
    changes: list[dict[str, torch.Tensor]] = [
        {},
        {"x": graph["x"] + 1},
        {"y": graph["y"].flip(0)},
        {"edge_index": graph["edge_index"][:, 1:]},
        {"train_mask": masks["val_mask"], "val_mask": masks["train_mask"]},
    ]
    for change in changes:
        saved(tmp_path / "graph.pt", **{**masks, **change})
        assert summary(1, 0) in command(*arguments, "file:graph.pt", *out).err
    saved(tmp_path / "graph.pt", **masks)
    assert summary(1, 1) in command(*arguments, "file:graph.pt", *out).err
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "graph.pt").rename(tmp_path / "elsewhere" / "graph.pt")
    assert summary(1, 1) in command(*arguments, "file:elsewhere/graph.pt", *out).err


def test_an_audit_does_not_speak_of_the_records_of_runs(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("-m", "steady", *ONCE, "--out", str(out), "--forget-ratio", "0.05")
    assert command("run", *arguments).code == 0
    (path,) = out.glob("records/*/*/steady/*.json")
    path.write_bytes(path.read_bytes()[:100])
    told = command("audit", "exactness", *arguments, "--dry-run")
    assert told.code == 0, told.err
    assert path.name not in told.err
    assert path.name in command("run", *arguments, "--dry-run").err
