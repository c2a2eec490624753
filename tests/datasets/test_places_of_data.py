"""Data roots without a home folder and without file locks."""

from __future__ import annotations

import errno
import fcntl
import os
import pwd
from pathlib import Path
from typing import Any

import pytest
from command_line import ONCE, SHARDS, command, install

from unlearnbench.datasets import base, raw
from unlearnbench.errors import EXIT_OK, EXIT_USAGE, DataError

__all__ = ["command", "install"]


@pytest.fixture
def no_home(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody(*arguments: Any) -> None:
        raise KeyError("getpwuid(): uid not found")

    for name in ("HOME", "XDG_CACHE_HOME", "LOCALAPPDATA"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(pwd, "getpwuid", nobody)


@pytest.mark.usefixtures("no_home")
def test_no_home_is_needed_where_the_root_is_named(command: Any, tmp_path: Path) -> None:
    arguments = ("run", "-m", "sisa", *ONCE, *SHARDS, "--out", str(tmp_path / "out"))
    assert command(*arguments, "--data-root", str(tmp_path)).code == EXIT_OK
    told = command(*arguments)
    assert told.code == EXIT_USAGE
    error, hint = told.err.splitlines()
    assert error.startswith("error: There is no home folder for a data root: ")
    assert hint == "hint: Name one with --data-root or UNLEARNBENCH_DATA."


@pytest.mark.usefixtures("no_home")
def test_raw_files_are_looked_for_in_the_root_alone(tmp_path: Path) -> None:
    files = raw.RawFiles("d", "d/raw", {"a": "URL"}, lambda name, content: None)
    assert files.places(tmp_path) == [tmp_path / "d/raw"]
    (tmp_path / "d/raw").mkdir(parents=True)
    (tmp_path / "d/raw/a").write_bytes(b"a")
    assert files.find(tmp_path) == tmp_path / "d/raw"
    with pytest.raises(DataError, match="There is no home folder"):
        base.data_root()


@pytest.mark.parametrize(
    "number", [errno.ENOLCK, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL, errno.EPERM, errno.EIO, errno.EBADF]
)
def test_files_are_fetched_where_there_are_no_locks(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr(fcntl, "flock", refuse)
    monkeypatch.setattr(fcntl, "lockf", refuse)
    monkeypatch.setattr(raw, "fetch", lambda url, seconds: b"content")
    files = raw.RawFiles("d", "d/raw", {"a": "http://x/a"}, lambda name, content: None)
    assert files.read(tmp_path) == {"a": b"content"}
