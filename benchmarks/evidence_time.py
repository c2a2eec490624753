"""How long the missing records of many commands take: a command a line in, one line out.

One process plans them all: importing torch takes longer than a plan.

A cell is taken to last as long as the median record of the same dataset, model, method and audit; without one, as the
median of the most alike that there are. `benchmarks/evidence.sh` calls it before it computes anything.
"""

from __future__ import annotations

import io
import json
import shlex
import sys
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from statistics import median
from typing import Any

from unlearnbench.cli import main as main_of_unlearnbench
from unlearnbench.records.columns import rows_of

RECORDS = "records/*/*/*/*.json"
# From the most alike to whatever there is: an audit of a method is nothing like a run of it.
ALIKE = (
    ("audit", "dataset", "model", "method"),
    ("audit", "dataset", "method"),
    ("audit", "dataset"),
    ("audit", "method"),
    ("audit",),
    (),
)


def durations(folder: Path) -> dict[tuple[Any, ...], list[float]]:
    """Collect the seconds of all finished cells in a results folder, by every key in `ALIKE`."""
    found: dict[tuple[Any, ...], list[float]] = {}
    for path in folder.glob(RECORDS):
        record = json.loads(path.read_text("ascii"))
        phases = rows_of(record.get("phases") or [])
        seconds = sum(phase.get("seconds") or 0.0 for phase in phases if "/" not in phase["name"])
        if record["status"] != "ok" or not seconds:
            continue
        cell = record["cell"]
        described = {
            "audit": cell.get("audit", {}).get("name"),
            "dataset": cell["dataset"]["name"],
            "model": cell["model"]["name"],
            "method": record["label"].split("[")[0],
        }
        for names in ALIKE:
            found.setdefault(tuple(described[name] for name in names), []).append(seconds)
    return found


def seconds_of(cell: Mapping[str, Any], known: Mapping[tuple[Any, ...], Sequence[float]]) -> float:
    """Return the median duration of the cells most like this one; 0 if there are none at all."""
    plain = {**cell, "model": cell["model"].split("[")[0], "method": cell["method"].split("[")[0]}
    for names in ALIKE:
        if alike := known.get(tuple(plain[name] for name in names)):
            return median(alike)
    return 0.0


def planned(command: str) -> list[dict[str, Any]]:
    """Return the cells of a command, a line as a shell quotes it, after the name of the program.

    Raises:
        SystemExit: The command is refused. What it said is printed.
    """
    plan, said = io.StringIO(), io.StringIO()
    try:
        with redirect_stdout(plan), redirect_stderr(said):
            main_of_unlearnbench([*shlex.split(command), "--dry-run", "--json"])
    except SystemExit as ended:
        if ended.code:
            sys.exit(f"{said.getvalue()}== refused: unlearnbench {command}")
    cells: list[dict[str, Any]] = json.loads(plan.getvalue())["cells"]
    return cells


def sentence(
    cells: Iterable[Mapping[str, Any]], known: Mapping[tuple[Any, ...], Sequence[float]], stored: Collection[str]
) -> str:
    """Say how many cells there are, how many are missing and how long these take.

    Args:
        cells: The planned cells.
        known: Durations, as `durations` returns them.
        stored: Keys of the cells that have a record, from whichever machine.
    """
    wanted = {cell["key"]: cell for cell in cells}
    missing = [cell for cell in wanted.values() if cell["wanted"]]
    if not missing:
        return f"== all {len(wanted)} records are there"
    minutes = round(sum(seconds_of(cell, known) for cell in missing) / 60)
    took = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(minutes, 1)} min"
    text = f"== {len(missing)} of {len(wanted)} records are missing: about {took}, by the time that alike ones took"
    anew = sum(cell["key"] in stored for cell in missing)
    return f"{text}; {anew} are there from another machine or a busy one" if anew else text


def main() -> None:
    """Read commands from standard input; the argument is the results folder."""
    cells = [cell for command in sys.stdin for cell in planned(command.strip())]
    folder = Path(sys.argv[1])
    stored = {path.stem for path in folder.glob(RECORDS)}
    print(sentence(cells, durations(folder), stored), flush=True)


if __name__ == "__main__":
    main()
