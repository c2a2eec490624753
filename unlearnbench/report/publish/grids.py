"""Whether records fit together: one request, all repetitions, Retrain, and no record twice."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from unlearnbench.component import canonical_json
from unlearnbench.records.record import Record
from unlearnbench.report.frame.record_groups import REFERENCE
from unlearnbench.report.frame.tuned_rows import method_of, training_of
from unlearnbench.report.publish.timing import outermost_seconds

Records = Mapping[Path, Record]


def grid_problems(mine: Records, others: Sequence[Record]) -> dict[Path, str]:
    """Return the files whose records do not fit the rest, and why.

    Args:
        mine: The records to be submitted, failures too.
        others: Those that are there already.
    """
    problems: dict[Path, str] = {}
    for check in (_requests_apart, _copied, _incomplete):
        for path, reason in check(mine, others).items():
            problems.setdefault(path, reason)
    return problems


def _requests_apart(mine: Records, others: Sequence[Record]) -> dict[Path, str]:
    """Find settings whose records were not made with one request."""
    drawn: defaultdict[str, set[str]] = defaultdict(set)
    for record in (*mine.values(), *others):
        drawn[_request_setting(record)] |= {str(request.get("ids_sha256")) for request in record.requests}
    reason = "records of the same dataset, protocol, seed and repetition have different requests."
    return {path: reason for path, record in mine.items() if len(drawn[_request_setting(record)]) > 1}


def _request_setting(record: Record) -> str:
    """Name what must have the same request for every method and model."""
    parts = ("protocol", "dataset", "repetition", "seed")
    return canonical_json([record.is_audit, *(record.cell[part] for part in parts)])


def _copied(mine: Records, others: Sequence[Record]) -> dict[Path, str]:
    """Find records with the seconds of another one, or of one cell started in the same second on two machines."""
    seen: defaultdict[object, list[Record]] = defaultdict(list)
    for record in (*mine.values(), *others):
        for mark in _marks(record):
            if not any(_same(record, other) for other in seen[mark]):
                seen[mark].append(record)
    problems = {}
    for path, record in mine.items():
        twin = next((one for mark in _marks(record) for one in seen[mark] if not _same(one, record)), None)
        if twin is not None:
            problems[path] = f"it has the seconds or the start of {twin.key} of {twin.machine}: one is a copy."
    return problems


def _marks(record: Record) -> list[object]:
    seconds = outermost_seconds(record)
    timed = [seconds] if len(seconds) > 1 and any(seconds) else []
    return [] if record.is_failure else [*timed, (record.key, str(record.provenance.get("started")))]


def _same(one: Record, other: Record) -> bool:
    return (one.machine, one.key) == (other.machine, other.key)


def _incomplete(mine: Records, others: Sequence[Record]) -> dict[Path, str]:
    """Find methods that lack a repetition which others have, and settings without Retrain.

    A failure counts: it is left out by itself, and tables then show that a repetition is missing.
    """
    rows: defaultdict[str, defaultdict[str, set[int]]] = defaultdict(lambda: defaultdict(set))
    declared: defaultdict[str, set[int]] = defaultdict(set)
    for record in (*mine.values(), *others):
        if not record.is_audit:
            rows[_setting(record)][_method(record)].add(record.cell["repetition"])
            grid = record.provenance.get("repetitions") or []
            declared[_setting(record) + _method(record)] |= {*grid, *range(record.cell["repetition"])}
    problems = {}
    for path, record in mine.items():
        if record.is_audit or record.is_failure:
            continue
        group = rows[_setting(record)]
        numbers = group[_method(record)]
        reference = {number for name, row in group.items() if name.startswith(f'["{REFERENCE}",') for number in row}
        if missing := declared[_setting(record) + _method(record)] - numbers:
            problems[path] = f"its method lacks repetition {_listed(missing)} of its grid."
        elif missing := numbers - reference:
            problems[path] = f"Retrain is missing in repetition {_listed(missing)} of its dataset, model and settings."
    return problems


def _listed(numbers: set[int]) -> str:
    first = sorted(numbers)
    return ", ".join(map(str, first[:5])) + (f" and {len(first) - 5} more" if len(first) > 5 else "")


def _setting(record: Record) -> str:
    cell = {**record.cell, "training": training_of(record.cell)}
    return canonical_json({key: value for key, value in cell.items() if key not in ("method", "repetition")})


def _method(record: Record) -> str:
    return canonical_json([record.cell["method"]["name"], method_of(record.cell)])
