"""What audits found: verdicts side by side, and every score beside what makes it readable."""

from __future__ import annotations

import warnings
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.errors import NothingMatchedError, UnlearnbenchError
from unlearnbench.records.record import Record
from unlearnbench.report.frame.aliases import NO_ALIASES, aliased
from unlearnbench.report.frame.frame import read_results
from unlearnbench.report.frame.names import shown_forget, shown_method, shown_protocol
from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import distinguish, first_of_each
from unlearnbench.report.frame.tuned_rows import is_tuned, method_of, training_of
from unlearnbench.report.tables.mean_scores import CANNOT_TELL, mean_scores
from unlearnbench.report.tables.notes import Note
from unlearnbench.report.tables.table import Table

GATE = "controls"
# Audits whose measures the gate judges; what others measure stands on their own controls.
GATED = ("distance",)
NO_GATE = "no gate"
LEAKAGE, PER_TARGET = "partition-leakage", "per target"
OLDER_ATTACK = "older attack: without that by one likelihood ratio for each target, which sees more."
MEANS = (
    "n: how many requests give a number that says something, and of how many; means are of these, or of all where it is"
    " 0, intervals Student's. An effect that is value over noop is the ratio of their means. The CSV has each request."
)
PLACE = ("protocol_config", "dataset", "dataset_sha256", "dataset_config", "model_config", "training_config", "device")
FACETS = ("protocol", "forget", "dataset", "model", "device")
NAMES = ("label", "alias")
"""What only the column `method` is made of."""
TEXT = (
    *(*PLACE, "protocol", "forget", "model", "seed", "method", "method_config", "audit", "audit_config", "status"),
    *NAMES,
    *("claim", "verdict", "measure", "where", "state", "note", "controls", "machine", "key", "notes"),
)
NUMBERS = ("value", "low", "high", "floor", "effect", "p", "noop")


def load_audits(path: str | Path) -> pd.DataFrame:
    """Read what audits found into a data frame: one row a score, one row for an audit without scores.

    Args:
        path: A results folder, or the folder `records` in it.

    Returns:
        Columns: what was audited (`dataset`, `model`, `method`, `repetition`, ...), the `audit`, the
        method's `claim`, the `verdict`, and for each score `measure`, `where`, `value`, its 95 %
        interval `low` to `high`, `floor`, `noop`, `effect`, `p`, `runs` and `state`.

    Raises:
        NothingMatchedError: There is no readable record of an audit.
    """
    everything, problems = read_results(Path(path))
    for problem in problems:
        warnings.warn(str(problem), stacklevel=2)
    return frame_of_audits(path, everything, problems)


def frame_of_audits(
    path: str | Path, everything: Sequence[Record], problems: Sequence[UnlearnbenchError]
) -> pd.DataFrame:
    """Make the data frame of what `read_results` returned: see `load_audits`; `path` is for messages."""
    records = [record for record in everything if record.is_audit]
    if not records:
        raise NothingMatchedError(f"{path}: no records of audits.", "Make some with `unlearnbench audit`.")
    return audit_frame_of(records, [problem.message for problem in problems])


def audits_among(
    path: str | Path, everything: Sequence[Record], problems: Sequence[UnlearnbenchError]
) -> pd.DataFrame | None:
    """Make the data frame as `frame_of_audits` does; None where there are no audits."""
    return frame_of_audits(path, everything, problems) if any(record.is_audit for record in everything) else None


def audit_frame_of(
    records: Iterable[Record], problems: Sequence[str] = (), aliases: Mapping[str, str] = NO_ALIASES
) -> pd.DataFrame:
    """Make the data frame of records at hand: see `load_audits`; `aliases` are as in `frame_of`."""
    records = [record for record in records if record.is_audit]
    gates: dict[tuple[str, ...], dict[tuple[int, int], Mapping[str, Any]]] = {}
    for one in records:
        if one.audit is not None and one.cell["audit"]["name"] == GATE:
            gates.setdefault(_place(one), {}).setdefault(_unit(one), one.audit["details"])
    rows = [row for record in records for row in _rows(record, _gate(gates.get(_place(record), {}), _unit(record)))]
    shown = distinguish({row["audit_config"]: row["audit"] for row in rows})
    for row in rows:
        row["audit"] = shown[row["audit_config"]]
    frame = aliased(pd.DataFrame(rows, columns=[*TEXT, "repetition", "runs", *NUMBERS]), aliases)
    frame[list(NUMBERS)] = frame[list(NUMBERS)].astype("float64")
    frame["runs"] = frame["runs"].astype("Int64")
    frame = frame.sort_values([*PLACE, "audit", "method", "repetition"], kind="stable", ignore_index=True)
    if problems:  # pandas copies what is here in every operation
        frame.attrs["problems"] = list(problems)
    return frame


def audit_tables(frame: pd.DataFrame) -> list[Table]:
    """Build, for each protocol, dataset, model and device, a table of verdicts and one of each audit's scores."""
    tables = []
    for _, part in frame.groupby(list(PLACE), sort=False):
        tables.append(_verdicts(part))
        for audit, scores in part[part["measure"] != ""].groupby("audit", sort=False):
            tables.append(_scores(str(audit), scores))
    return tables


def _verdicts(part: pd.DataFrame) -> Table:
    results = first_of_each(part, ["audit", "method", "repetition"])
    rows, shown = plain_rows(results), []
    audits = list(dict.fromkeys(row["audit"] for row in rows))
    for method, of_method in rows_by(results, "method", ["audit", "claim", "verdict"]).items():
        verdicts = {audit: joined(row["verdict"] for row in of_method if row["audit"] == audit) for audit in audits}
        shown.append({"method": method, "claim": joined(row["claim"] for row in of_method), **verdicts})
    texts_of: dict[tuple[str, str], set[str]] = {}
    for row in rows:
        texts_of.setdefault((row["audit"], row["method"]), set()).add(row["notes"])
    # What is said of one request among several is in the CSV.
    common = [(*of, texts.pop()) for of, texts in texts_of.items() if len(texts) == 1]
    notes: list[str] = [f"{audit}, {method}: {text}" for audit, method, text in common if text]
    notes.append(Note(provenance(part)))
    return Table("audits", f"Audits: {place_name(part)}.", pd.DataFrame(shown), raw(results), tuple(notes))


def _scores(audit: str, part: pd.DataFrame) -> Table:
    several = part["repetition"].nunique() > 1
    every = plain_rows(part)
    rows = mean_scores(every) if several else every
    columns: dict[str, list[str]] = {name: [str(row[name]) for row in rows] for name in ("method", "measure", "where")}
    columns["value"] = [with_interval(row) for row in rows]
    for name in ("floor", "noop", "effect") if several else ("floor", "noop", "effect", "p"):
        if any(not pd.isna(row[name]) for row in rows):
            columns[name] = [_number(row[name], name) for row in rows]
    if any(not pd.isna(row["runs"]) for row in rows) and not several:
        columns["runs"] = ["" if pd.isna(row["runs"]) else str(int(row["runs"])) for row in rows]
    if several:
        columns["n"] = [row["n"] for row in rows]
    # What is no evidence does not count in `n`.
    if any(row["state"] == NO_GATE if several else row["state"] for row in rows):
        columns["state"] = [row["state"] for row in rows]
    shown = pd.DataFrame(columns)
    texts = (f"{row['where']}, {row['measure']}: {row['note']}" for row in every if row["note"])
    old = [OLDER_ATTACK] if audit.partition(" ")[0] == LEAKAGE and PER_TARGET not in set(part["where"]) else []
    means = [MEANS] if several else []
    notes = (*_meaning(shown, audit), *means, *old, *dict.fromkeys(texts))
    return Table("audits", f"Audit {audit}: {place_name(part)}.", shown, raw(part), notes)


def _meaning(shown: pd.DataFrame, audit: str) -> Iterator[str]:
    meanings = {
        "floor": "floor: what there is where nothing can be found: another retraining, or chance",
        "noop": "noop: what the untouched model gives",
        "effect": "effect: value in units of noop's",
        "p": "p: of the test that there is no difference to the floor",
    }
    texts = [text for column, text in meanings.items() if column in shown]
    if texts:
        yield f"{'; '.join(texts)}."
    if "state" in shown and audit.partition(" ")[0] in GATED:
        yield (
            "valid: the untouched model is rejected here, and the audit controls let the measure through; cannot tell:"
            " one of both fails, so the number says nothing; no gate: `unlearnbench audit controls` was not run here."
        )


def _rows(record: Record, gate: Mapping[str, Any] | None) -> Iterator[dict[str, Any]]:
    cell, audit = record.cell, record.audit or {}
    common = {
        **_placed(record),
        "protocol": shown_protocol(cell["protocol"]),
        "forget": shown_forget(cell["protocol"].get("forget", {})),
        "model": cell["model"]["name"],
        "method": shown_method(record.label, str(cell["method"].get("preset", "")), is_tuned(cell)),
        "method_config": canonical_json(method_of(cell)),
        "label": record.label,
        "alias": record.alias,
        "audit": cell["audit"]["name"],
        "audit_config": canonical_json(cell["audit"]),
        "repetition": cell["repetition"],
        "seed": str(cell["seed"]),
        "status": record.status,
        "claim": _claim(record.claim),
        "verdict": audit.get("verdict", record.status),
        "machine": record.machine,
        "key": record.key,
        "notes": " ".join(audit.get("notes") or []),
    }
    for score in audit.get("scores") or [{}]:
        controls = score.get("controls") or {}
        yield {
            **common,
            **{name: score.get(name) for name in ("value", "low", "high", "floor", "effect", "p", "runs")},
            **{name: score.get(name) or "" for name in ("measure", "where", "note")},
            "state": _state(score, common["audit"], gate),
            "noop": controls.get("noop"),
            "controls": canonical_json(controls) if controls else "",
        }


def _state(score: Mapping[str, Any], audit: str, gate: Mapping[str, Any] | None) -> str:
    """Return whether a score can be read: its own control is rejected, and the gate let its measure through."""
    own = str(score.get("state") or "")
    if own != "valid" or audit not in GATED:
        return own
    if gate is None:
        return NO_GATE
    through = gate.get(str(score.get("measure")))
    # A measure that the gate does not know stands on its own control alone.
    return own if not isinstance(through, Mapping) or through.get("valid") else CANNOT_TELL


def _placed(record: Record) -> dict[str, str]:
    cell = record.cell
    return {
        "protocol_config": canonical_json(cell["protocol"]),
        "dataset": cell["dataset"]["name"],
        "dataset_sha256": str(cell["dataset"].get("sha256", "")),
        "dataset_config": canonical_json({key: value for key, value in cell["dataset"].items() if key != "sha256"}),
        "model_config": canonical_json(cell["model"]),
        "training_config": canonical_json(training_of(cell)),
        "device": str(cell.get("device", "")),
    }


def _place(record: Record) -> tuple[str, ...]:
    return tuple(_placed(record).values())


def _unit(record: Record) -> tuple[int, int]:
    return record.cell["repetition"], record.cell["seed"]


def _gate(gates: Mapping[tuple[int, int], Mapping[str, Any]], unit: tuple[int, int]) -> Mapping[str, Any] | None:
    """Find what judges the measures of a repetition: its own gate, or else that of the first; None without any."""
    return gates[unit if unit in gates else min(gates)] if gates else None


def _claim(claim: Mapping[str, str] | None) -> str:
    if not claim:
        return ""
    return claim["claim"] + (f" ({claim['reason']})" if claim.get("reason") else "")


def place_name(part: pd.DataFrame) -> str:
    """Say what the audits of a place were of."""
    first = part.iloc[0]
    return f"{first['dataset']}, {first['model']}, {first['forget']} forgotten, protocol {first['protocol']}"


def provenance(part: pd.DataFrame) -> str:
    """Say where audits ran."""
    machines = ", ".join(sorted(set(part["machine"])))
    numbers = sorted(set(part["repetition"]))
    repetitions = f"repetition{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"
    return f"Device {part.iloc[0]['device']}; machines: {machines}; {repetitions}."


def raw(part: pd.DataFrame) -> pd.DataFrame:
    """Return the numbers as programs read them: what was audited and the verdict in front."""
    front = [*FACETS, "audit", "method", "repetition", "claim", "verdict"]
    return part[[*front, *(name for name in part.columns if name not in (*front, *NAMES))]]


def joined(values: Iterable[str]) -> str:
    """List different texts, with their counts if there are several."""
    counts = Counter(values)
    if len(counts) == 1:
        return next(iter(counts))
    return ", ".join(f"{value} ({count})" for value, count in counts.items())


def with_interval(row: Row) -> str:
    """Write a value with its interval, if there is one: 0.612 [0.577, 0.647]."""
    text = _number(row["value"], "value")
    if pd.isna(row["low"]) or pd.isna(row["high"]):
        return text
    return f"{text} [{_number(row['low'], 'low')}, {_number(row['high'], 'high')}]"


def _number(value: float, column: str) -> str:
    if pd.isna(value):
        return ""
    if column == "p":
        return f"{value:.4f}"
    return f"{value:.3g}" if abs(value) < 1e-2 and value else f"{value:.3f}"
