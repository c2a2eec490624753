"""What `unlearnbench show` prints of a record."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

_BESIDE = {"arrays": "", "curves": ".curves"}


def is_record(name: str) -> bool:
    """Whether a name is the path of a file that may be a record."""
    return name.endswith(".json") and Path(name).is_file()


def describe_record(path: Path) -> dict[str, Any]:
    """Describe a record as plain JSON values: what was computed, what came of it, and the files beside it.

    Raises:
        UnlearnbenchError: It is no record, or it cannot be read.
    """
    from unlearnbench.records.record import read_record

    record = read_record(path)
    cell = record.cell
    beside = {kind: path.with_name(f"{record.key}{ending}.npz") for kind, ending in _BESIDE.items()}
    return {
        "key": record.key,
        "status": record.status,
        "method": record.label,
        "alias": record.alias or None,
        "dataset": cell["dataset"]["name"],
        "model": cell["model"]["name"],
        "repetition": cell["repetition"],
        "audit": cell["audit"]["name"] if record.is_audit else None,
        "claim": (record.claim or {}).get("claim"),
        "verdict": (record.audit or {}).get("verdict"),
        "unlearn_seconds": record.unlearn_seconds,
        "metrics": record.metrics,
        "error": record.error and record.error["message"],
        "notes": record.notes,
        **{kind: str(file) if file.is_file() else None for kind, file in beside.items()},
    }


def record_lines(described: dict[str, Any]) -> Iterator[str]:
    """Yield the lines that describe a record."""
    for key in ("key", "status", "method", "alias", "dataset", "model", "repetition", "audit", "claim", "verdict"):
        if described[key] is not None:
            yield f"{key}: {described[key]}"
    for name, views in described["metrics"].items():
        for view, moments in views.items():
            values = ", ".join(f"{moment} {value:.4f}" for moment, value in moments.items() if value is not None)
            if values:
                yield f"{name}, {view} view: {values}"
    if described["unlearn_seconds"] is not None:
        yield f"unlearning took {described['unlearn_seconds']:.4g} s"
    if described["error"]:
        yield f"error: {described['error']}"
    yield from (f"note: {note}" for note in described["notes"])
    yield from (f"{kind}: {described[kind]}" for kind in _BESIDE if described[kind])
