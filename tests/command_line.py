"""What tests of the command line share: a function that runs a command, and readers of what it leaves behind."""

from __future__ import annotations

import csv
import io
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from plugin_samples import TOYS, Write, install

from unlearnbench.cli import main
from unlearnbench.record import Record, read_record

__all__ = ["install"]

SMALL = ("--datasets", "toy", "--epochs", "2")
ONCE = (*SMALL, "--repetitions", "1")
SHARDS = ("--num-shards", "3")


class Told:
    """How a command ended and what it said."""

    def __init__(self, code: int, out: str, err: str) -> None:
        self.code, self.out, self.err = code, out, err


@pytest.fixture
def command(
    install: Write, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> Iterator[Any]:
    """Give a function that runs a command in this process, in an empty folder, with the toy methods installed."""
    install("ub-toys", TOYS)
    monkeypatch.chdir(tmp_path)
    before = signal.getsignal(signal.SIGTERM)

    def run(*arguments: str) -> Told:
        capsys.readouterr()
        with pytest.raises(SystemExit) as caught:
            main(list(arguments))
        said = capsys.readouterr()
        return Told(int(caught.value.code or 0), said.out, said.err)

    yield run
    signal.signal(signal.SIGTERM, before)


def records_of(out: Path) -> dict[tuple[str, int], Record]:
    """Read every record, by method and repetition."""
    found = [read_record(path) for path in sorted(out.glob("records/*/*/*/*.json"))]
    return {(record.cell["method"]["name"], record.cell["repetition"]): record for record in found}


def files_of(out: Path) -> dict[Path, tuple[int, int, bytes]]:
    """Take note of every record and its arrays: inode, time of writing, content."""
    return {
        path: (path.stat().st_ino, path.stat().st_mtime_ns, path.read_bytes())
        for path in sorted(out.glob("records/*/*/*/*"))
    }


def csv_rows(text: str) -> list[dict[str, str]]:
    """Read a table in CSV, notes left out."""
    return list(csv.DictReader(io.StringIO(text)))
