"""D2: a record is there whole or not at all; a stopped run loses the cell it was in, and nothing else."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, SMALL, Process, command, files_of, install, records_of
from record_samples import make_record

from unlearnbench.errors import WriteError
from unlearnbench.records.record import DamagedRecordError, read_record
from unlearnbench.records.store import Store

__all__ = ["command", "install"]

SIX = ("run", "-m", "steady,stalling", *SMALL, "--repetitions", "3", "--no-reference", "--out")
FINISHED = {("steady", 0), ("stalling", 0), ("steady", 1)}
ALL = {(method, repetition) for method in ("steady", "stalling") for repetition in range(3)}


def files(root: Path) -> list[Path]:
    return sorted(path for path in root.rglob("*") if path.is_file())


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 130), (signal.SIGKILL, -signal.SIGKILL)]
)
def test_a_run_stopped_in_its_fourth_of_six_cells_goes_on_with_that_one(
    number: signal.Signals, code: int, command: Any, tmp_path: Path
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    process = Process(folder, *SIX, "out", TOY_STALLS=str(folder / "stalled"))
    try:
        process.wait_for(folder / "stalled")
        process.send(number)
        told = process.end()
    finally:
        process.stop()
    assert told.code == code
    if number != signal.SIGKILL:
        assert told.err.splitlines()[-1].startswith("interrupted: ")
        assert "Traceback" not in told.err
    out = folder / "out"
    assert set(records_of(out)) == FINISHED
    assert all(record.status == "ok" for record in records_of(out).values())
    before = files_of(out)
    assert len(before) == 2 * len(FINISHED)

    listed = command(*SIX, str(out), "--dry-run").out.splitlines()
    assert [line.split()[1] for line in listed] == ["done"] * 3 + ["run"] * 3
    told = command(*SIX, str(out))
    assert told.code == 0
    assert "6 cells: 6 ok, 0 failed, 0 refused, 0 diverged; 3 were there already." in told.err
    assert set(records_of(out)) == ALL
    after = files_of(out)
    assert {path: after[path] for path in before} == before
    assert len(after) == 2 * len(ALL)

    *_, last = sorted(out.glob("records/*/*/*/*.json"))
    last.write_bytes(last.read_bytes()[: last.stat().st_size // 2])
    told = command(*SIX, str(out))
    assert told.code == 0
    assert "5 were there already" in told.err
    assert last.name in told.err
    assert set(records_of(out)) == ALL
    assert len(files_of(out)) == 2 * len(ALL)


@pytest.fixture
def store(tmp_path: Path) -> Store:
    return Store(tmp_path, "m-0001")


def test_a_record_cut_in_half_is_named_reported_and_run_again(store: Store) -> None:
    record = make_record()
    path = store.save(record)
    path.write_bytes(path.read_bytes()[:200])
    with pytest.raises(DamagedRecordError, match=record.key) as caught:
        read_record(path)
    assert "Delete the file" in caught.value.hint
    assert not store.has(record.key)
    assert len(store.problems) == 1
    problems: list[object] = []
    store.save(make_record("sisa"))
    assert [r.cell["method"]["name"] for r in store.records(problems)] == ["sisa"]  # type: ignore[arg-type]
    assert len(problems) == 1
    with pytest.raises(DamagedRecordError):
        list(store.records())
    store.save(record)
    assert store.has(record.key)


def test_temporaries_of_a_killed_writer_have_the_name_that_clean_knows(store: Store) -> None:
    kill = "import os, sys; from record_samples import make_record; from unlearnbench.records.store import Store\n"
    kill += "os.replace = lambda *_: os.kill(os.getpid(), 9)\n"
    kill += "Store(sys.argv[1], 'm-0001').save(make_record())"
    path = os.pathsep.join(sys.path)
    subprocess.run([sys.executable, "-c", kill, str(store.root)], env={**os.environ, "PYTHONPATH": path}, check=False)
    assert list(store.records()) == []
    assert len(files(store.root)) == 1
    assert len(store.clean(older_than=-1)) == 1
    assert files(store.root) == []


def test_a_failed_write_leaves_the_old_record_and_no_temporary(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    old = make_record(shard=0.1)
    path = store.save(old)

    def fail(*_: object) -> None:
        raise OSError(errno.ENOSPC, "disk full")

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(WriteError, match="disk full"):
        store.save(make_record(shard=0.9))
    monkeypatch.undo()
    assert read_record(path) == old
    assert len(files(store.root)) == 1


def test_a_record_cut_anywhere_is_no_record(store: Store) -> None:
    record = make_record()
    path = store.save(record)
    whole = path.read_bytes()
    # Without its last character, the newline, it says all that it said.
    for length in [*range(0, len(whole) - 1, 37), len(whole) - 2]:
        path.write_bytes(whole[:length])
        assert not store.has(record.key)
        assert store.wanted(record.key, "only-missing")
        with pytest.raises(DamagedRecordError, match=record.key):
            read_record(path)


def test_a_damaged_record_is_told_once_and_computed_anew(command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    command("run", "-m", "steady", *ONCE, "--out", str(out))
    (path,) = out.glob("records/*/*/steady/*.json")
    whole = path.read_bytes()
    path.write_bytes(whole[:100])
    told = command("report", str(out))
    assert told.err.count(path.name) == 1
    told = command("run", "-m", "steady", *ONCE, "--out", str(out))
    assert told.code == 0
    assert path.name in told.err
    assert "1 were there already" in told.err
    assert read_record(path).status == "ok"
