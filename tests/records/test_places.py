"""Results folders on file systems that lack something: safeguards and clean-ups may fail, and never decide."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, SHARDS, command, install
from record_samples import make_record

from unlearnbench.errors import EXIT_FAILED_CELLS, EXIT_NOTHING_MATCHED, EXIT_OK, WriteError
from unlearnbench.records import files
from unlearnbench.records.files import write_whole
from unlearnbench.records.record import read_record
from unlearnbench.records.store import Store
from unlearnbench.records.unfinished import unfinished_folder

__all__ = ["command", "install"]

LACKING = [errno.EINVAL, errno.ENOTSUP, errno.ENOSYS, errno.EPERM, errno.EACCES, errno.ENOTTY, errno.EBADF]
LOSING = [errno.EIO, errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.ESTALE]


def failing(number: int, only: Callable[[Any], bool] = lambda target: True) -> Callable[..., None]:
    def fail(target: Any, *arguments: Any, **settings: Any) -> None:
        if only(target):
            raise OSError(number, os.strerror(number), str(target))

    return fail


def is_folder(handle: int) -> bool:
    return os.path.isdir(f"/proc/self/fd/{handle}")


@pytest.mark.parametrize("number", LACKING)
@pytest.mark.parametrize("what", ["folders", "everything"])
def test_records_are_written_where_nothing_can_be_flushed(
    number: int, what: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "fsync", failing(number, is_folder if what == "folders" else lambda target: True))
    record = make_record()
    assert read_record(Store(tmp_path / "out", "m-0001").save(record)) == record


@pytest.mark.parametrize("number", LOSING)
def test_a_disk_that_loses_what_is_written_is_an_error(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a"
    path.write_bytes(b"old")
    monkeypatch.setattr(os, "fsync", failing(number))
    with pytest.raises(WriteError, match=os.strerror(number)):
        write_whole(path, b"new")
    assert [one.name for one in tmp_path.iterdir()] == ["a"]
    assert path.read_bytes() == b"old"


def test_folders_that_may_be_written_and_not_read_are_not_flushed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = os.open

    def refuse(path: Any, *arguments: Any, **settings: Any) -> int:
        if os.path.isdir(path):
            raise PermissionError(errno.EACCES, "Permission denied", str(path))
        return opened(path, *arguments, **settings)

    monkeypatch.setattr(os, "open", refuse)
    files.sync_folder(tmp_path)


LEFT = "records/m-0001/cora/sisa/.abc.json.17-0123456789abcdef.unlearnbench-tmp"


@pytest.mark.parametrize("number", [errno.EPERM, errno.EACCES, errno.EROFS, errno.EIO, errno.ESTALE, errno.ENOSYS])
def test_what_another_user_left_behind_stays_and_ends_nothing(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, "m-0001")
    record, failure = make_record("sisa"), make_record("sisa", status="error")
    store.save_failure(failure)
    group = unfinished_folder(tmp_path, "m-0001", record.key) / "fit-0.pt"
    group.parent.mkdir(parents=True)
    for path in (tmp_path / LEFT, group):
        path.write_bytes(b"half")
        os.utime(path, (time.time() - 1e6,) * 2)
    fail = failing(number)
    for name in ("unlink", "rmdir"):
        monkeypatch.setattr(os, name, fail)
    assert store.clean(0) == []
    assert read_record(store.save(record)) == record
    assert store.clean(0) == []
    assert (tmp_path / LEFT).read_bytes() == group.read_bytes() == b"half"


def test_folders_that_may_not_be_looked_into_end_no_clean_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "unfinished/m-0001/abcdef0123456789").mkdir(parents=True)
    monkeypatch.setattr(Path, "stat", failing(errno.EACCES))
    assert Store(tmp_path, "m-0001").clean(0) == []


def test_a_description_of_the_machine_that_another_user_wrote_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(tmp_path, "m-0001")
    path = store.save_machine({"cpu": "x", "torch_threads": 1})
    before = path.read_bytes()
    monkeypatch.setattr(os, "replace", failing(errno.EPERM))
    assert store.save_machine({"cpu": "x", "torch_threads": 2}) == path
    assert path.read_bytes() == before
    path.write_text("{")
    with pytest.raises(WriteError):
        store.save_machine({"cpu": "x", "torch_threads": 2})


def test_a_read_only_store_is_two_lines_before_any_cell(
    command: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    arguments = ("run", "-m", "sisa", *ONCE, *SHARDS, "--out", str(tmp_path / "out"))
    assert command(*arguments).code == EXIT_OK
    (tmp_path / "out" / LEFT).parent.mkdir(parents=True)
    (tmp_path / "out" / LEFT).write_bytes(b"half")
    os.utime(tmp_path / "out" / LEFT, (0, 0))
    with monkeypatch.context() as patch:
        for module, name in ((os, "unlink"), (os, "rmdir"), (os, "replace"), (tempfile, "TemporaryFile")):
            patch.setattr(module, name, failing(errno.EROFS) if module is os else read_only)
        # What is there already is shown.
        assert command(*arguments).code == EXIT_OK
        told = command(*arguments, "--overwrite", "always")
    assert told.code == EXIT_FAILED_CELLS
    error, hint = told.err.splitlines()[-2:]
    assert error.startswith(f"error: {tmp_path / 'out' / 'records'}")
    assert error.endswith("cannot be written: Read-only file system.")
    assert hint.startswith("hint: Make room and see that you may write there")
    assert "Traceback" not in told.err


def read_only(*arguments: Any, **settings: Any) -> None:
    raise OSError(errno.EROFS, os.strerror(errno.EROFS))


@pytest.mark.parametrize("place", ["records", "records/MACHINE", "records/MACHINE/toy", "machines", "unfinished"])
def test_a_file_where_a_folder_belongs_is_one_clear_error(place: str, command: Any, tmp_path: Path) -> None:
    out = tmp_path / "out"
    arguments = ("run", "-m", "sisa", *ONCE, *SHARDS, "--out", str(out))
    assert command(*arguments).code == EXIT_OK
    (machine,) = [path.stem for path in out.glob("machines/*.json")]
    path = out / place.replace("MACHINE", machine)
    if path.exists():
        shutil.rmtree(path)
    path.write_bytes(b"a file")
    told = command(*arguments)
    if place == "unfinished":
        assert told.code == EXIT_OK
    else:
        assert told.code == EXIT_FAILED_CELLS
        assert f"{path}" in told.err
        assert "cannot be written" in told.err
    assert "Traceback" not in told.err
    for arguments in (("report", str(out)), ("leaderboard", "build", str(out)), ("leaderboard", "submit", str(out))):
        told = command(*arguments)
        assert "Traceback" not in told.err
        if place.startswith("records"):
            assert told.code in (EXIT_FAILED_CELLS, EXIT_NOTHING_MATCHED)


def test_leaderboards_that_are_files_or_hold_folders_are_one_clear_error(command: Any, tmp_path: Path) -> None:
    Store(tmp_path, "m-0001").save(make_record("retrain"))
    board = tmp_path / "leaderboard"
    board.write_bytes(b"a file")
    told = command("leaderboard", "build", str(tmp_path))
    assert told.code == EXIT_FAILED_CELLS
    assert told.err.startswith(f"error: {board} cannot be written: ")
    told = command("leaderboard", "verify", str(tmp_path))
    assert told.err.startswith(f"error: {board / 'all.csv'} is missing.")
    board.unlink()
    assert command("leaderboard", "build", str(tmp_path)).code == EXIT_OK
    table = board / "www24/cora.csv"
    table.unlink()
    table.mkdir()
    told = command("leaderboard", "verify", str(tmp_path))
    assert (told.code, told.err.splitlines()[0]) == (EXIT_FAILED_CELLS, f"error: {table} is missing.")
    told = command("leaderboard", "build", str(tmp_path))
    assert (told.code, told.err.splitlines()[0]) == (
        EXIT_FAILED_CELLS,
        f"error: {table} cannot be written: Is a directory.",
    )


def test_a_folder_where_a_record_belongs_is_named_and_left_out(command: Any, tmp_path: Path) -> None:
    store = Store(tmp_path, "m-0001")
    store.save(make_record("retrain"))
    path = store.path(make_record("sisa"))
    path.mkdir(parents=True)
    told = command("report", str(tmp_path))
    assert told.code == EXIT_OK
    assert told.err.startswith(f"warning: {path}: cannot be read (Is a directory).")
    told = command("leaderboard", "build", str(tmp_path))
    assert (told.code, told.err.splitlines()[0]) == (
        EXIT_FAILED_CELLS,
        f"error: {path}: cannot be read (Is a directory).",
    )
