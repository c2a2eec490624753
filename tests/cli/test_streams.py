"""Standard output of any encoding, full or closed: every table that can be written is, and no record is lost."""

from __future__ import annotations

import csv
import io
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from command_line import SHARDS, command, install, records_of
from plugin_samples import TOYS, write_distribution

from unlearnbench.cli.streams import standard_streams
from unlearnbench.records.record import read_record
from unlearnbench.records.store import Store

pytestmark = pytest.mark.slow

__all__ = ["command", "install"]

ENCODINGS = {
    "C": {"PYTHONUTF8": "0", "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0"},
    "cp1252": {"PYTHONIOENCODING": "cp1252"},
}
RUN = (
    *("run", "-m", "sisa", "--datasets", "toy", "--epochs", "2", "--repetitions", "2", *SHARDS),
    *("--no-isolate", "--out", "out"),
)
NAME = "sisé ± √2"
BROKEN = "error: Standard output cannot be written: {}. Cells that are done have their records."


def start(folder: Path, *arguments: str, **options: Any) -> subprocess.CompletedProcess[bytes]:
    """Run the command line in a process of its own, in which the toy methods are installed."""
    site = folder / "site"
    if not site.exists():
        write_distribution(site, "ub-toys", TOYS)
    path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
    options = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **options}
    environment = {**os.environ, "PYTHONPATH": path, "PYTHONUNBUFFERED": "", **options.pop("environment", {})}
    arguments = (sys.executable, "-m", "unlearnbench", *arguments)
    return subprocess.run(arguments, cwd=folder, env=environment, check=False, **options)


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_a_run_shows_its_tables_in_any_encoding(tmp_path: Path, encoding: str) -> None:
    done = start(tmp_path, *RUN, environment=ENCODINGS[encoding])
    assert done.returncode == 0, done.stderr
    shown, sign = (done.stdout.decode("cp1252"), "±") if encoding == "cp1252" else (done.stdout.decode("ascii"), "+-")
    assert f"mean {sign} standard deviation" in shown
    assert len(records_of(tmp_path / "out")) == 4


@pytest.fixture
def strange(command: Any, tmp_path: Path) -> Path:
    """Make a results folder with a label that few encodings have."""
    assert command(*RUN).code == 0
    for path in (tmp_path / "out").glob("records/*/*/sisa/*.json"):
        record = read_record(path)
        Store(tmp_path / "out", path.parents[2].name).save(record.model_copy(update={"label": NAME}), {})
    return tmp_path


@pytest.mark.parametrize("encoding", ENCODINGS)
def test_csv_is_utf8_and_the_rest_degrades(strange: Path, encoding: str) -> None:
    done = start(strange, "report", "out", "--format", "csv", environment=ENCODINGS[encoding])
    assert done.returncode == 0, done.stderr
    assert done.stdout == start(strange, "report", "out", "--format", "csv", environment={"PYTHONUTF8": "1"}).stdout
    assert NAME in {row["method"] for row in csv.DictReader(io.StringIO(done.stdout.decode("utf-8")))}
    shown = start(strange, "report", "out", environment=ENCODINGS[encoding])
    assert shown.returncode == 0, shown.stderr
    name = rb"sis\xe9 \xb1 " if encoding == "cp1252" else b"sise +- "
    assert name.replace(rb"\xe9", b"\xe9").replace(rb"\xb1", b"\xb1") + rb"\u221a2" in shown.stdout


@contextmanager
def broken(how: str) -> Iterator[dict[str, Any]]:
    """Yield options for a process whose standard output cannot be written."""
    if how == "closed":
        yield {"preexec_fn": partial(os.close, 1), "stdout": None}
        return
    if how == "full":
        with open("/dev/full", "wb") as file:
            yield {"stdout": file}
        return
    reading, writing = os.pipe()
    os.close(reading)
    with os.fdopen(writing, "wb") as file:
        yield {"stdout": file}


REASONS = {"closed": "Bad file descriptor", "full": "No space left on device", "unread": "Broken pipe"}
on_linux = pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")


@on_linux
@pytest.mark.parametrize("how", REASONS)
@pytest.mark.parametrize(
    ("arguments", "environment"),
    [
        (("ls", "method"), {}),
        (("ls", "method"), ENCODINGS["C"]),
        (("run", "--help"), {"PYTHONUNBUFFERED": "1"}),
    ],
    ids=["utf8", "C", "unbuffered"],
)
def test_a_broken_standard_output_is_one_line(
    tmp_path: Path, how: str, arguments: tuple[str, ...], environment: dict[str, str]
) -> None:
    with broken(how) as options:
        done = start(tmp_path, *arguments, environment=environment, **options)
    assert done.returncode == 1
    assert done.stderr.decode().splitlines() == [BROKEN.format(REASONS[how])]


@on_linux
@pytest.mark.parametrize(("how", "run"), [("closed", RUN), ("full", (*RUN, "--json")), ("unread", RUN)])
def test_what_was_computed_is_kept(tmp_path: Path, how: str, run: tuple[str, ...]) -> None:
    for arguments in (run, ("report", "out", "--format", "csv")):
        with broken(how) as options:
            done = start(tmp_path, *arguments, **options)
        assert done.returncode == 1
        assert done.stderr.decode().splitlines()[-1] == BROKEN.format(REASONS[how])
        assert b"Traceback" not in done.stderr
        assert len(records_of(tmp_path / "out")) == 4
    assert start(tmp_path, "report", "out").returncode == 0


@on_linux
@pytest.mark.parametrize("how", ["closed", "full"])
def test_a_broken_standard_error_costs_nothing(tmp_path: Path, how: str) -> None:
    with open("/dev/full", "wb") as full:
        options = {"stderr": full} if how == "full" else {"stderr": None, "preexec_fn": partial(os.close, 2)}
        done = start(tmp_path, *RUN, "--json", **options)
    assert done.returncode == 0
    # Notes and progress did not end up among the JSON.
    assert json.loads(done.stdout)["ok"] == 4
    assert [record.status for record in records_of(tmp_path / "out").values()] == ["ok"] * 4


def test_a_text_stream_without_bytes_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    text = io.StringIO()
    monkeypatch.setattr(sys, "stdout", text)
    with standard_streams():
        assert sys.stdout is text


def test_a_file_that_takes_a_part_of_each_text_gets_all_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    class Slow(io.RawIOBase):
        taken = b""

        def writable(self) -> bool:
            return True

        def write(self, data: Any) -> int:
            self.taken += bytes(data[:3])
            return min(3, len(data))

    slow = Slow()
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(slow, "utf-8", write_through=True))  # type: ignore[type-var]
    with standard_streams():
        print("all of ± this")
    assert slow.taken.decode() == "all of ± this\n"
