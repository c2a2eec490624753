"""How long the missing records take: `unlearnbench ... --dry-run --json` of many commands in, one line out.

A cell is taken to last as long as the median record of the same dataset, model, method and audit; without one, as the
median of the most alike that there are. `benchmarks/evidence.sh` calls it before it computes anything.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

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
    for path in folder.glob("records/*/*/*/*.json"):
        record = json.loads(path.read_text("ascii"))
        seconds = sum(seconds or 0.0 for name, seconds in phases_of(record) if "/" not in name)
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


def phases_of(record: Mapping[str, Any]) -> Iterator[tuple[str, float | None]]:
    """Yield the name and the seconds of each phase; older files have a row for each."""
    phases = record.get("phases") or []
    if isinstance(phases, list):
        yield from ((phase["name"], phase.get("seconds")) for phase in phases)
    else:
        yield from zip(phases["name"], phases.get("seconds", [None] * len(phases["name"])), strict=True)


def seconds_of(cell: Mapping[str, Any], known: Mapping[tuple[Any, ...], Sequence[float]]) -> float:
    """Return the median duration of the cells most like this one; 0 if there are none at all."""
    plain = {**cell, "model": cell["model"].split("[")[0], "method": cell["method"].split("[")[0]}
    for names in ALIKE:
        if alike := known.get(tuple(plain[name] for name in names)):
            return median(alike)
    return 0.0


def plans(text: str) -> Iterator[Mapping[str, Any]]:
    """Read JSON objects that follow each other."""
    decoder, at = json.JSONDecoder(), 0
    while at < len(text):
        if text[at].isspace():
            at += 1
            continue
        plan, at = decoder.raw_decode(text, at)
        yield plan


def sentence(cells: Iterable[Mapping[str, Any]], known: Mapping[tuple[Any, ...], Sequence[float]]) -> str:
    """Say how many cells there are, how many are missing and how long these take."""
    wanted = {cell["key"]: cell for cell in cells}
    missing = [cell for cell in wanted.values() if cell["wanted"]]
    if not missing:
        return f"== all {len(wanted)} records are there"
    minutes = round(sum(seconds_of(cell, known) for cell in missing) / 60)
    took = f"{minutes // 60} h {minutes % 60} min" if minutes >= 60 else f"{max(minutes, 1)} min"
    return f"== {len(missing)} of {len(wanted)} records are missing: about {took}, by the time that alike ones took"


def main() -> None:
    """Read plans from standard input; the argument is the results folder."""
    cells = [cell for plan in plans(sys.stdin.read()) for cell in plan["cells"]]
    print(sentence(cells, durations(Path(sys.argv[1]))), flush=True)


if __name__ == "__main__":
    main()
