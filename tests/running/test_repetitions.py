"""B8: repetitions differ in all that chance decides, and each has a record, predictions and a state of its own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from command_line import SHARDS, command, csv_rows, install, records_of
from plugin_samples import SCORED, Write

import unlearnbench
from unlearnbench.records.record import Record

__all__ = ["command", "install"]


def arrays_of(out: Path, record: Record) -> dict[str, Any]:
    (path,) = out.rglob(f"{record.key}.npz")
    with np.load(path) as arrays:
        return {name: arrays[name] for name in arrays}


def test_scores_of_three_seeds_are_three_rows_with_their_mean_and_sample_deviation(
    command: Any, install: Write, tmp_path: Path
) -> None:
    install("ub-scored", SCORED)
    out = tmp_path / "out"
    told = command("run", "-m", "scored", "-d", "one-class", "--seeds", "1,2,3", "--epochs", "1", "--no-reference",
                   "--out", str(out))  # fmt: skip
    assert told.code == 0, told.err
    frame = unlearnbench.load_records(out)
    for view in ("shard", "full"):
        rows = frame[frame["view"] == view].set_index("repetition")["f1_micro"]
        assert rows.to_dict() == pytest.approx({1: 0.1, 2: 0.2, 3: 0.3})
    (row,) = csv_rows(command("report", str(out), "--format", "csv").out)
    assert row["n"] == "3"
    assert float(row["f1_micro_shard_mean"]) == pytest.approx(0.2)
    assert float(row["f1_micro_shard_sd"]) == pytest.approx(0.1)
    assert "20.00 ± 10.00" in command("report", str(out)).out


def test_everything_that_chance_decides_depends_on_the_repetition(command: Any, tmp_path: Path) -> None:
    out, state = tmp_path / "out", tmp_path / "state"
    told = command("run", "-m", "sisa", "-d", "toy", "--epochs", "2", *SHARDS, "--seeds", "0,1,2",
                   "--forget-count", "5", "--save-state", str(state), "--out", str(out))  # fmt: skip
    assert told.code == 0
    records = records_of(out)
    assert sorted(records) == [(name, number) for name in ("retrain", "sisa") for number in range(3)]
    for name in ("retrain", "sisa"):
        mine = [records[name, number] for number in range(3)]
        arrays = [arrays_of(out, record) for record in mine]
        states = [unlearnbench.load_state(state / f"{record.key}.pt").weights for record in mine]
        assert len({record.key for record in mine}) == 3
        assert len({record.requests[0]["ids_sha256"] for record in mine}) == 3
        for part in ("train", "val", "test", "forgotten"):
            assert len({found[part].tobytes() for found in arrays}) == 3
        assert len({found["after/test/shard"].tobytes() for found in arrays}) == 3
        for one in range(3):
            for other in range(one):
                assert all(not torch.equal(states[one][key], states[other][key]) for key in states[one])
    # Within a repetition, data and request are the same for every method.
    for number in range(3):
        one, other = (arrays_of(out, records[name, number]) for name in ("retrain", "sisa"))
        for part in ("train", "val", "test", "forgotten"):
            assert np.array_equal(one[part], other[part])


def test_the_base_seed_makes_other_repetitions(command: Any, tmp_path: Path) -> None:
    found = []
    for seed in ("0", "7"):
        out = tmp_path / seed
        arguments = ("-d", "toy", "--epochs", "2", *SHARDS, "--repetitions", "1", "--no-reference", "--out", str(out))
        assert command("run", "-m", "sisa", *arguments, "--set", f"seed={seed}").code == 0
        (record,) = records_of(out).values()
        found.append((record, arrays_of(out, record)))
    (one, first), (other, second) = found
    assert one.key != other.key
    assert one.requests[0]["ids_sha256"] != other.requests[0]["ids_sha256"]
    assert one.digests["before"] != other.digests["before"]
    assert all(not np.array_equal(first[part], second[part]) for part in ("train", "val", "test"))


def test_with_a_split_of_its_own_repetitions_still_differ_in_request_and_training(tmp_path: Path) -> None:
    nodes = torch.arange(40)
    masks = {f"{part}_mask": torch.isin(nodes % 4, torch.tensor(rests))
             for part, rests in (("train", [0, 1]), ("val", [2]), ("test", [3]))}  # fmt: skip
    ends = torch.stack([nodes, (nodes + 2) % 40])
    torch.save({"x": torch.randn(40, 4, generator=torch.Generator().manual_seed(0)), "y": nodes % 2,
                "edge_index": torch.cat([ends, ends.flip(0)], dim=1), **masks}, tmp_path / "g.pt")  # fmt: skip
    records = unlearnbench.run(
        ["sisa"],
        datasets=[f"file:{tmp_path / 'g.pt'}"],
        **{"forget_count": 3, "num_shards": 2, "epochs": 2, "repetitions": 3, "out": tmp_path / "out"},
        reference=False,
        device="cpu",
    )
    arrays = [arrays_of(tmp_path / "out", record) for record in records]
    assert len({found["train"].tobytes() for found in arrays}) == 1
    assert len({record.requests[0]["ids_sha256"] for record in records}) == 3
    assert len({str(record.digests["before"]) for record in records}) == 3
