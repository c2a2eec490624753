"""D3: several writers share one results folder; each file has one, and tables are made of records alone."""

from __future__ import annotations

import csv
import io
import multiprocessing
import os
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from command_line import SHARDS, SMALL, Process, command, files_of, install, records_of
from record_samples import make_record

from unlearnbench.records.reading import read_records
from unlearnbench.records.store import Store
from unlearnbench.report import load_records

__all__ = ["command", "install"]

WRITERS, CELLS = 8, 25


def write_cells(root: str, writer: int) -> None:
    """Write 25 cells of one's own, and of each of 25 more the version of this writer."""
    store = Store(Path(root), "m-0001")
    for repetition in range(CELLS):
        store.save(make_record("sisa", repetition, seed=writer), {"ids": np.arange(repetition)})
        store.save(make_record("retrain", repetition, shard=writer / 10), {"ids": np.arange(writer)})


@pytest.mark.slow
def test_eight_writers_of_25_cells_and_of_25_common_ones(command: Any, tmp_path: Path) -> None:
    root = tmp_path / "out"
    # Forks of a process that has imported what is needed: eight imports of torch would take most of the time.
    context = multiprocessing.get_context("spawn" if os.name == "nt" else "forkserver")
    context.set_forkserver_preload([__name__])
    writers = [context.Process(target=write_cells, args=(str(root), writer)) for writer in range(WRITERS)]
    for process in writers:
        process.start()
    for process in writers:
        process.join()
    assert [process.exitcode for process in writers] == [0] * WRITERS
    records = list(read_records(root))
    assert len({record.key for record in records}) == len(records) == WRITERS * CELLS + CELLS
    store = Store(root, "m-0001")
    for record in records:
        ids = store.arrays(record)["ids"]
        assert len(ids) in range(CELLS)
    # Each record is that of one writer, whole.
    assert {record.metrics["f1_micro"]["shard"]["after"] for record in records if record.label == "retrain"} <= {
        writer / 10 for writer in range(WRITERS)
    }
    assert sorted(path.suffix for path in root.rglob("*") if path.is_file()) == [".json"] * 225 + [".npz"] * 225

    frame = load_records(root)
    assert len(frame[frame["method"] == "sisa"].drop_duplicates("key")) == WRITERS * CELLS
    assert command("leaderboard", "build", str(root)).code == 0
    for text in (
        (root / "leaderboard" / "all.csv").read_text(),
        command("report", str(root), "--format", "csv").out,
    ):
        rows = list(csv.reader(io.StringIO(text)))
        assert len({len(row) for row in rows}) == 1
        assert rows.count(rows[0]) == 1
    (sisa,) = (row for row in csv.DictReader(io.StringIO(text)) if row["method"] == "sisa")
    assert sisa["n"] == str(WRITERS * CELLS)


@pytest.mark.slow
def test_two_processes_on_one_store_do_not_harm_each_other(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder, meeting = tmp_path / "work", tmp_path / "meeting"
    folder.mkdir()
    meeting.mkdir()
    monkeypatch.setenv("TOY_MEETS", str(meeting))
    arguments = ("run", "-m", "meeting,sisa,steady", *SMALL, *SHARDS, "--repetitions", "3", "--no-reference", "--out")
    process = Process(folder, *arguments, "out")
    try:
        here = command(*arguments, str(folder / "out"))
        there = process.end()
    finally:
        process.stop()
    assert len(list(meeting.iterdir())) == 2, (here.err, there.err)
    for told in (here, there):
        assert told.code == 0
        assert "9 cells: 9 ok, 0 failed, 0 refused, 0 diverged; 0 were there already." in told.err
    records = records_of(folder / "out")
    assert len(records) == 9
    assert all(record.status == "ok" for record in records.values())
    assert len(files_of(folder / "out")) == 18
    assert not [path for path in (folder / "out").rglob("*") if path.name.startswith(".")]
    before = files_of(folder / "out")
    assert "9 were there already" in command(*arguments, str(folder / "out")).err
    assert files_of(folder / "out") == before
    # Method, repetitions and F1; times differ.
    rows = [next(line for line in told.out.splitlines() if line.startswith("sisa")) for told in (here, there)]
    assert rows[0].split()[:4] == rows[1].split()[:4]
    rows = list(csv.DictReader(io.StringIO(command("report", str(folder / "out"), "--format", "csv").out)))
    assert [(row["method"], row["n"], row["expected"]) for row in rows] == [
        (method, "3", "3") for method in ("meeting", "sisa[num_shards=3]", "steady")
    ]
