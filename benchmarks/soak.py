"""Kills runs at random moments, again and again, and looks for anything that was lost, spoilt or done twice.

A run of twelve cells is started, killed with SIGKILL at a random moment, started again, and so on until it
ends by itself; then the next one, in a folder of its own, until there were kills enough. After every kill each
record must parse, and those there before must be the same bytes; at the end there must be every cell once,
equal but for times to those of a run that nobody killed, and `store clean` must leave nothing but them.

    python benchmarks/soak.py [--kills 100] [--seed 0] [--folder DIR] [OPTIONS OF unlearnbench run]
"""

from __future__ import annotations

import argparse
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType

from unlearnbench.errors import UnlearnbenchError
from unlearnbench.records.record import Record, read_record
from unlearnbench.records.store import remove_temporaries, temporaries

METHODS = ("--methods", "sisa,grapheraser,graphrevoker", "--repetitions", "3", "--epochs", "20", "--num-shards", "5")
# Imports once what a run needs, then makes a copy of itself for each run: kills meet cells, not imports.
SERVER = """
import json, os, sys
import unlearnbench.cli.running
import unlearnbench.cli.run
from unlearnbench.cli import main
print("ready", flush=True)
for line in sys.stdin:
    order = json.loads(line)
    child = os.fork()
    if child == 0:
        log = os.open(order["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.dup2(log, 1)
        os.dup2(log, 2)
        main(order["arguments"])
    print(child, flush=True)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""


class Server:
    """Runs the command line in copies of one process.

    Args:
        environment: Variables of the process, beside those of this one.
    """

    def __init__(self, environment: dict[str, str] | None = None) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-c", SERVER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        self._line()

    def run(self, arguments: Sequence[str], log: Path, seconds: float | None) -> int:
        """Run a command and kill it after so many seconds, if it still runs: its exit code, -9 if it was killed."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"arguments": list(arguments), "log": str(log)}) + "\n")
        self._process.stdin.flush()
        child = int(self._line())
        if not select.select([self._process.stdout], [], [], seconds)[0]:
            os.kill(child, signal.SIGKILL)
        return int(self._line())

    def _line(self) -> str:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit("The process that runs are copies of has ended.")
        return line

    def __enter__(self) -> Server:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._process.kill()
        self._process.communicate()


@dataclass
class Findings:
    """What came of it.

    Args:
        cells: Cells of one run.
        kills: Runs that were killed.
        runs: Runs that came to their end, each after any number of kills.
        kept: Records that were there at a kill, over all kills.
        leftovers: Temporary files that killed runs left and that were removed.
        faults: What was lost, spoilt or done twice.
    """

    cells: int
    kills: int = 0
    runs: int = 0
    kept: int = 0
    leftovers: int = 0
    faults: list[str] = field(default_factory=list)


def soak(server: Server, arguments: Sequence[str], folder: Path, kills: int, seed: int) -> Findings:
    """Kill runs.

    Args:
        server: Starts them.
        arguments: Of `unlearnbench run`, without --out.
        folder: Where results go; empty.
        kills: How many runs to kill.
        seed: Of the moments.
    """
    rng, log = random.Random(seed), folder / "log"
    start = time.monotonic()
    code = server.run(["run", *arguments, "--out", str(folder / "whole")], log, None)
    horizon = time.monotonic() - start
    expected = _records(folder / "whole", faults := [])
    findings = Findings(len(expected), faults=faults)
    if code != 0:
        raise SystemExit(f"A run that nobody killed ended with {code}:\n{log.read_text()}")
    while findings.kills < kills:
        out = folder / f"{findings.runs:03d}"
        known: dict[Path, bytes] = {}
        code = -signal.SIGKILL
        while code == -signal.SIGKILL:
            moment = rng.uniform(0, horizon) if findings.kills < kills else None
            code = server.run(["run", *arguments, "--out", str(out)], log, moment)
            known = _look(out, known, code, findings)
        findings.runs += 1
        _close(out, expected, code, findings)
    return findings


def _look(out: Path, known: dict[Path, bytes], code: int, findings: Findings) -> dict[Path, bytes]:
    """Compare what is there after a run with what was there before it."""
    _records(out, findings.faults)
    now = {path: path.read_bytes() for path in out.glob("records/*/*/*/*.json")}
    findings.faults += [f"{path}: lost or changed by a later run" for path in known if now.get(path) != known[path]]
    if code == -signal.SIGKILL:
        findings.kills += 1
        findings.kept += len(now)
    return now


def _close(out: Path, expected: dict[str, Record], code: int, findings: Findings) -> None:
    """Look at what a run that came to its end has left."""
    if code != 0:
        findings.faults.append(f"{out}: the last run ended with {code}")
    records = _records(out, findings.faults)
    if records.keys() != expected.keys():
        findings.faults.append(f"{out}: {len(records)} cells instead of {len(expected)}")
    for key in records.keys() & expected.keys():
        one, other = records[key], expected[key]
        if (one.status, one.metrics, one.digests, one.counts) != (
            other.status,
            other.metrics,
            other.digests,
            other.counts,
        ):
            findings.faults.append(f"{out}: cell {key} came out different")
    findings.leftovers += len(remove_temporaries(out, older_than=0))
    files = [path for path in out.rglob("*") if path.is_file()]
    # A record and its arrays for each cell, and the machine.
    if len(files) != 2 * len(expected) + 1 or temporaries(out):
        findings.faults.append(f"{out}: {len(files)} files instead of {2 * len(expected) + 1}")


def _records(out: Path, faults: list[str]) -> dict[str, Record]:
    records: dict[str, Record] = {}
    for path in sorted(out.glob("records/*/*/*/*.json")):
        try:
            record = read_record(path)
        except UnlearnbenchError as error:
            faults.append(error.message)
            continue
        if record.key in records:
            faults.append(f"{path}: cell {record.key} is there twice")
        records[record.key] = record
    return records


def main() -> None:
    """Print a table of what came of it; exit code 1 if there was a fault."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--folder", type=Path)
    options, arguments = parser.parse_known_args()
    if os.name == "nt":
        raise SystemExit("Windows has neither fork nor SIGKILL.")
    with tempfile.TemporaryDirectory() as temporary, Server() as server:
        folder = options.folder or Path(temporary)
        folder.mkdir(parents=True, exist_ok=True)
        start = time.monotonic()
        findings = soak(server, arguments or METHODS, folder, options.kills, options.seed)
        seconds = time.monotonic() - start
    rows = {
        "seed": options.seed,
        "kills survived": findings.kills,
        "runs to the end": findings.runs,
        "cells of each": findings.cells,
        "records there at a kill": findings.kept,
        "temporaries removed": findings.leftovers,
        "faults": len(findings.faults),
        "minutes": f"{seconds / 60:.1f}",
    }
    for name, value in rows.items():
        print(f"{name:<24} {value}")
    for fault in findings.faults:
        print(fault)
    sys.exit(bool(findings.faults))


if __name__ == "__main__":
    main()
