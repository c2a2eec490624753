"""What tests of the command line share: a function that runs a command, and readers of what it leaves behind."""

from __future__ import annotations

import csv
import io
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from filelock import FileLock
from plugin_samples import TOYS, Write, install, write_distribution

from unlearnbench.cli import main
from unlearnbench.measure.provenance import provenance
from unlearnbench.records.record import Record, read_record
from unlearnbench.running import plan as planning
from unlearnbench.running.execute import do_cell
from unlearnbench.running.plan import Plan
from unlearnbench.running.runner import run_cell

__all__ = ["install"]

WAIT_SECONDS = 100.0
SMALL = ("--datasets", "toy", "--epochs", "2")
ONCE = (*SMALL, "--repetitions", "1")
SHARDS = ("--num-shards", "3")


APART = ("--isolate", "--no-isolate", "--jobs", "--cell-timeout", "--backend")


def in_one_process(arguments: Sequence[str]) -> list[str]:
    """Have the toys run in the process of the command, unless the arguments say where."""
    computes = bool(arguments) and arguments[0] in ("run", "audit")
    return [*arguments, *(["--no-isolate"] if computes and not set(APART) & set(arguments) else [])]


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
            main(in_one_process(arguments))
        said = capsys.readouterr()
        return Told(int(caught.value.code or 0), said.out, said.err)

    yield run
    signal.signal(signal.SIGTERM, before)


def shared_folder(factory: pytest.TempPathFactory, name: str) -> Path:
    """Give a folder that all workers of a run of tests share: what is made in it is made once, not once for each."""
    base = factory.getbasetemp()
    folder = (base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / f"shared-{name}"
    folder.mkdir(exist_ok=True)
    return folder


def of_committed_source(command: Any, arguments: Sequence[str], made: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Make the results folder `mine` where the command runs, as from source that is committed; once, then copy it."""
    mine = Path("mine").absolute()
    with FileLock(made / "lock"):
        if (made / "mine").exists():
            shutil.copytree(made / "mine", mine)
        else:
            monkeypatch.setattr(planning, "provenance", lambda: {**provenance(), "dirty": False})
            assert command(*arguments).code == 0
            shutil.copytree(mine, made / "part")
            (made / "part").rename(made / "mine")
    return mine


def computed_here(plan: Plan, report: Any) -> Iterator[Record]:
    """Compute the cells of a plan in this process, in place of `run_in_processes`, which takes seconds for each."""
    for cell in plan.wanted:
        yield do_cell(cell, plan.graphs[cell.dataset_label], plan.context, plan.store, None, run_cell)


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


def heed_signals() -> None:
    """Undo what a parent passes on that was started in the background or by nohup: these signals are ignored."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


class Process:
    """The command line in a process of its own, in which the toy methods are installed, and what else is given."""

    def __init__(
        self,
        folder: Path,
        *arguments: str,
        more: dict[str, str] | None = None,
        plain: bool = False,
        **environment: str,
    ) -> None:
        site = folder / "site"
        if not site.exists():
            for distribution, source in {"ub-toys": TOYS, **(more or {})}.items():
                write_distribution(site, distribution, source)
        path = os.pathsep.join(filter(None, [str(site), os.environ.get("PYTHONPATH", "")]))
        self._process = subprocess.Popen(
            [sys.executable, "-m", "unlearnbench", *(arguments if plain else in_one_process(arguments))],
            cwd=folder,
            env={**os.environ, "PYTHONPATH": path, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            preexec_fn=None if os.name == "nt" else heed_signals,
        )

    def wait_for(self, path: Path) -> None:
        until = time.monotonic() + WAIT_SECONDS
        while not path.exists():
            assert self._process.poll() is None, self._process.communicate()
            assert time.monotonic() < until, f"{path.name} did not appear"
            time.sleep(0.02)

    @property
    def pid(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def end(self) -> Told:
        out, err = self._process.communicate(timeout=WAIT_SECONDS)
        return Told(self._process.returncode, out, err)

    def stop(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.communicate()


def csv_rows(text: str) -> list[dict[str, str]]:
    """Read a table in CSV, notes left out."""
    return list(csv.DictReader(io.StringIO(text)))
