"""H12: shares out of range, and splits that are none, end with 2 before any work."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import torch
from command_line import ONCE, command, install
from graph_samples import saved

__all__ = ["command", "install"]


@pytest.mark.parametrize("ratio", ["3.0", "-0.1", "1.0", "0", "1.0000001", "-0", "inf", "nan", "1e400"])
@pytest.mark.parametrize("way", ["option", "run file"])
def test_a_ratio_out_of_range(ratio: str, way: str, command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    given = ["--forget-ratio", ratio]
    if way == "run file":
        (tmp_path / "run.toml").write_text(f"forget_ratio = {'inf' if ratio == '1e400' else ratio}")
        given = ["--config", "run.toml"]
    told = command("run", "-m", "steady", *ONCE, "--out", str(out), *given)
    assert told.code == 2
    assert "is not between 0 and 1" in told.err
    assert "Traceback" not in told.err
    assert not out.exists()


def test_the_shares_of_a_split_are_the_protocols_and_nobody_elses(command: Any, tmp_path: Path) -> None:
    """Splits that sum to 1.8 cannot be asked for: no option, no key of a run file and no setting takes shares."""
    (tmp_path / "run.toml").write_text("split = [0.9, 0.5, 0.4]")
    for given in (
        ["--config", "run.toml"], ["--split", "0.9,0.5,0.4"], ["--set", "protocol.split=0.9"], ["--train-ratio", "0.9"],
    ):  # fmt: skip
        told = command("run", "-m", "steady", *ONCE, "--out", str(tmp_path / "out"), *given)
        assert told.code == 2
        assert "split" in told.err or "--train-ratio" in told.err
        assert not (tmp_path / "out").exists()


def mask(*positions: int) -> torch.Tensor:
    return torch.isin(torch.arange(40), torch.tensor(positions))


def test_masks_of_a_file_that_overlap_are_refused(command: Any, tmp_path: Path) -> None:
    """The one way to bring a split: of 40 nodes 36, 20 and 16, 1.8 times as many as there are."""
    masks = {"train_mask": mask(*range(36)), "val_mask": mask(*range(20)), "test_mask": mask(*range(16))}
    saved(tmp_path / "graph.pt", **masks)
    told = command("run", "-m", "steady", *ONCE[2:], "-d", "file:graph.pt", "--out", str(tmp_path / "out"))
    assert told.code == 2
    assert "is both a training and a validation" in told.err
    assert not (tmp_path / "out").exists()
