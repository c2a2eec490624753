"""Kills, full disks and odd files: what was finished stays whole, and the same command again goes on from there."""

from __future__ import annotations

import errno
import importlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, SMALL, WAIT_SECONDS, command, files_of, install, records_of
from plugin_samples import TOYS, write_distribution
from repository import ROOT

from unlearnbench.records.record import Record
from unlearnbench.records.store import temporaries

__all__ = ["command", "install"]

SEED = 7
TWELVE = ("-m", "steady,twin", *SMALL, "--repetitions", "4", "--no-isolate")

POSIX = pytest.mark.skipif(os.name == "nt", reason="signals and forks of POSIX")


@pytest.mark.slow
@POSIX
def test_ten_kills_lose_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    soak = importlib.import_module("soak")
    write_distribution(tmp_path / "site", "ub-toys", TOYS)
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])
    out = tmp_path / "out"
    out.mkdir()
    print(f"seed {SEED}")
    with soak.Server({"PYTHONPATH": path}) as server:
        found = soak.soak(server, TWELVE, out, kills=10, seed=SEED)
    assert found.faults == []
    assert found.cells == 12
    assert found.kills == 10
    assert found.runs > 0


def test_the_soak_finds_what_a_kill_must_not_do(tmp_path: Path, command: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(ROOT / "benchmarks")
    soak = importlib.import_module("soak")
    for out in ("whole", "hurt"):
        assert command("run", "-m", "steady,twin", *ONCE, "--out", out).code == 0
    whole = soak._records(tmp_path / "whole", [])
    hurt = tmp_path / "hurt"

    def faults(code: int = 0) -> list[str]:
        findings = soak.Findings(len(whole))
        soak._close(hurt, whole, code, findings)
        return list(findings.faults)

    assert faults() == []
    assert "ended with 1" in faults(1)[0]
    first, second = sorted(hurt.rglob("*/steady/*.json")) + sorted(hurt.rglob("*/twin/*.json"))
    text = first.read_text()
    findings = soak.Findings(len(whole))
    known = soak._look(hurt, {}, -9, findings)
    assert (findings.faults, findings.kills, findings.kept) == ([], 1, 3)
    first.write_text(text[:-20])
    soak._look(hurt, known, -9, findings)
    assert any("not a whole record" in fault for fault in findings.faults)
    assert any("lost or changed" in fault for fault in findings.faults)
    record = Record.model_validate({key: value for key, value in json.loads(text).items() if key != "checksum"})
    first.write_text(record.model_copy(update={"counts": {**record.counts, "steps": 1}}).to_json())
    assert any("came out different" in fault for fault in faults())
    first.unlink()
    assert any("2 cells instead of 3" in fault for fault in faults())
    first.write_text(text)
    copy = second.parent.parent / "elsewhere"
    copy.mkdir()
    shutil.copy(second, copy)
    assert any("there twice" in fault for fault in faults())


def test_store_clean_removes_what_killed_runs_left_and_lists_it(command: Any, tmp_path: Path) -> None:
    assert command("run", "-m", "steady", *ONCE, "--out", "out").code == 0
    out = tmp_path / "out"
    before = files_of(out)
    left = []
    for folder in (next(iter(before)).parent, out / "machines", out / "leaderboard"):
        folder.mkdir(exist_ok=True)
        left.append(folder / ".abc.json.17-0123456789abcdef.unlearnbench-tmp")
        left[-1].write_text("half")
    os.utime(left[0], (1, 1))
    told = command("store", "clean", "out")
    assert told.code == 0
    assert told.out.splitlines() == [str(left[0].relative_to(tmp_path))]
    assert "2 are left: younger than 3600 s" in told.err
    told = command("store", "clean", "out", "--older-than", "0")
    assert set(told.out.splitlines()) == {str(path.relative_to(tmp_path)) for path in left[1:]}
    assert told.err == ""
    assert temporaries(out) == []
    assert files_of(out) == before
    assert command("store", "clean", "nowhere").code == 3
    assert command("store", "clean", "out", "--older-than", "-1").code == 2


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """Give a folder on a disk of 600 KiB, or skip."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = shutil.which("mount")
    if (
        mount is None
        or subprocess.run(
            [mount, "-t", "tmpfs", "-o", "size=600k", "tmpfs", str(place)], capture_output=True, check=False
        ).returncode
    ):
        pytest.skip("mounting a small tmpfs is not allowed here")
    yield place
    subprocess.run(["umount", str(place)], check=True)


def fill(place: Path, leave: int) -> Path:
    """Fill a disk but for so many bytes."""
    filler = place / "filler"
    free = shutil.disk_usage(place).free
    filler.write_bytes(b"x" * (free - leave))
    return filler


def test_a_full_disk_stops_the_run_and_costs_nothing_that_was_finished(command: Any, small_disk: Path) -> None:
    out = small_disk / "out"
    arguments = ("run", *TWELVE, "--out", str(out))
    assert command("run", "-m", "steady", *SMALL, "--repetitions", "1", "--out", str(out)).code == 0
    filler = fill(small_disk, leave=60_000)
    told = command(*arguments)
    assert told.code == 1
    message, hint = told.err.splitlines()[-2:]
    assert message.startswith(f"error: {out}/records/")
    assert message.endswith("cannot be written: No space left on device.")
    assert hint.startswith("hint: Make room")
    assert "Traceback" not in told.err
    assert temporaries(out) == []
    finished = {path: kept for path, kept in files_of(out).items() if path.with_suffix(".json").exists()}
    assert 2 < len(records_of(out)) < 12
    # And a disk that is full from the start.
    filler.unlink()
    filler = fill(small_disk, leave=0)
    assert command(*arguments).code == 1
    assert {path: files_of(out)[path] for path in finished} == finished
    filler.unlink()
    told = command(*arguments)
    assert told.code == 0
    assert f"; {len(finished) // 2} were there already." in told.err
    assert len(records_of(out)) == 12
    assert {path: files_of(out)[path] for path in finished} == finished


@pytest.mark.parametrize(
    ("call", "number"),
    [
        *(("fsync", number) for number in (errno.ENOSPC, errno.EDQUOT, errno.EIO, errno.EROFS)),
        ("replace", errno.EACCES),
    ],
)
def test_whatever_keeps_a_record_from_being_written_is_one_clear_error(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, call: str, number: int
) -> None:
    done, calls = getattr(os, call), []

    def fail(*arguments: Any) -> None:
        calls.append(arguments)
        if len(calls) > (20 if call == "fsync" else 6):
            raise OSError(number, os.strerror(number))
        done(*arguments)

    arguments = ("run", "-m", "steady,twin", *ONCE, "--save-state", "state", "--out", "out")
    with monkeypatch.context() as patch:
        patch.setattr(os, call, fail)
        told = command(*arguments)
    assert told.code == 1
    assert told.err.splitlines()[-2].startswith("error: ")
    assert f"cannot be written: {os.strerror(number)}." in told.err
    assert "run the same command again" in told.err
    assert "Traceback" not in told.err
    assert temporaries(tmp_path) == []
    before = files_of(tmp_path / "out")
    assert command(*arguments).code == 0
    assert len(records_of(tmp_path / "out")) == 3
    kept = {path: content for path, content in before.items() if path.suffix == ".json"}
    assert kept
    assert {path: files_of(tmp_path / "out")[path] for path in kept} == kept


def test_a_folder_that_cannot_be_made_is_told_before_any_training(command: Any, tmp_path: Path) -> None:
    (tmp_path / "out").write_text("a file")
    told = command("run", "-m", "steady", *ONCE, "--out", "out")
    assert told.code in (1, 2)
    assert "out" in told.err
    assert "Traceback" not in told.err
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "machines").write_text("a file")
    told = command("run", "-m", "steady", *ONCE)
    assert told.code == 1
    assert "runs/machines cannot be written" in told.err
    assert not (tmp_path / "runs" / "records").exists()


LIMITED = """
import resource, sys
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
from unlearnbench.cli import main
main(sys.argv[1:])
"""


@pytest.mark.slow
@POSIX
def test_a_process_of_a_cell_that_cannot_save_its_record_stops_the_run(tmp_path: Path) -> None:
    write_distribution(tmp_path / "site", "ub-toys", TOYS)
    path = os.pathsep.join([str(tmp_path / "site"), *filter(None, sys.path)])
    done = subprocess.run(
        [sys.executable, "-c", LIMITED, "run", "-m", "steady", *ONCE, "--isolate", "--out", "out"],
        cwd=tmp_path,
        # Python itself would leave compiled modules that are cut at the limit, and stumble over them.
        env={**os.environ, "PYTHONPATH": path, "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        text=True,
        timeout=WAIT_SECONDS,
        check=False,
    )
    assert done.returncode == 1, done.stderr
    assert "cannot be written: File too large." in done.stderr
    assert "Traceback" not in done.stderr
    assert records_of(tmp_path / "out") == {}
    assert temporaries(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("change", "said", "code"),
    [
        (lambda text: text[: len(text) // 2], "not a whole record", 0),
        (lambda text: text.replace('"schema": 1', '"schema": 0'), "is older than", 1),
        (lambda text: text.replace('"schema": 1', '"schema": 2'), "is newer than", 1),
    ],
)
def test_a_record_that_cannot_be_taken_is_named_and_never_counted(
    command: Any, tmp_path: Path, change: Any, said: str, code: int
) -> None:
    arguments = ("-m", "steady,twin", *ONCE, "--out", "out")
    assert command("run", *arguments).code == 0
    (path,) = (tmp_path / "out").glob("records/*/*/twin/*.json")
    whole = path.read_text()
    path.write_text(change(whole))
    odd = path.read_bytes()
    told = command("report", "out")
    assert said in told.err
    assert path.name in told.err
    assert "\ntwin " not in told.out
    assert path.read_bytes() == odd
    told = command("run", *arguments)
    assert told.code == code
    assert said in told.err
    assert path.name in told.err
    # What is damaged is computed anew; what another version wrote is left to that version.
    assert (path.read_bytes() == odd) == (code == 1)
    if code == 0:
        assert "2 were there already" in told.err
        assert json.loads(path.read_text())["metrics"] == json.loads(whole)["metrics"]
