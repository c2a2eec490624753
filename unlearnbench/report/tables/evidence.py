"""Columns and cells of the table `forgetting`: what audits and runs say about one method."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache

import pandas as pd

from unlearnbench.errors import DataError
from unlearnbench.records.record import FAILURES
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap, scores
from unlearnbench.report.frame.metrics import writer
from unlearnbench.report.frame.record_groups import UNIT, first_of_each
from unlearnbench.report.tables.audits import joined, with_interval
from unlearnbench.report.tables.columns import RATIO
from unlearnbench.statistics import corrected_paired_t

CANNOT_TELL, NO_GATE, OLDER = "cannot tell", "no gate", "older attack"


@dataclass(frozen=True)
class Evidence:
    """A column that an audit fills.

    Args:
        name: In raw data; also `name_low`, `name_high`, `name_n`, `name_state`.
        title: Its head.
        meaning: What a cell says, one sentence.
        audit: The audit; its verdict stands where there is no number.
        measure: The measure of a score; empty: the column is the verdict.
        where: The place of a score: the first that a record has.
        value: `value` or `effect`.
        older: Places of scores by an attack that was replaced.
    """

    name: str
    title: str
    meaning: str
    audit: str
    measure: str = ""
    where: tuple[str, ...] = ()
    value: str = "value"
    older: tuple[str, ...] = ()


DISTANCE = Evidence(
    "distance",
    "distance on D",
    "distance of the outputs for the forgotten nodes from those of the same pipeline trained without them, relative"
    " to the untouched model: 0 is as retrained, 1 as if nothing had been forgotten.",
    "distance",
    "js",
    ("forgotten, own",),
    "effect",
)
EVIDENCE = (
    Evidence(
        "exactness",
        "exactness",
        "the verdict of the audit exactness, by bits: is the model what it would be had the data never been there?",
        "exactness",
    ),
    DISTANCE,
    Evidence(
        "membership_tpr",
        "membership TPR at 1 %",
        "share of the forgotten nodes that an attacker with shadow models recognises at 1 % false positives; .01 is"
        " guessing.",
        "membership",
        "tpr",
        ("node, 1% false alarms",),
    ),
    Evidence(
        "membership_epsilon",
        "epsilon at least",
        "lower bound at 95 % confidence that this attacker proves; 0 proves nothing, neither a leak nor that there is"
        " none.",
        "membership",
        "epsilon",
        ("node",),
    ),
    Evidence(
        "relearning",
        "relearning ratio",
        "area under the loss while the unlearned networks are trained on the forgotten nodes again, relative to"
        " retrained networks: 1 is as retrained, below 1 a trace was kept.",
        "relearning",
        "relearning ratio",
        ("area",),
    ),
    Evidence(
        "leakage_auc",
        "partition leakage",
        "area under the ROC curve of an attacker who infers from the kept partition that a node was there; .5 is"
        " guessing. Methods without a partition have none.",
        "partition-leakage",
        "auc",
        ("per target",),
        older=("independent seeds, calibrated", "independent seeds"),
    ),
    Evidence(
        "leakage_tpr",
        "leakage TPR at 1 %",
        "share of the nodes that were there that the same attacker recognises at 1 % false positives.",
        "partition-leakage",
        "tpr",
        ("per target, 1% false alarms",),
        older=("independent seeds, calibrated, 1% false alarms", "independent seeds, 1% false alarms"),
    ),
)


@dataclass(frozen=True, eq=False)
class Cell:
    """One cell: its text, the number behind it, and the records that it is made of.

    Args:
        records: Columns `machine`, `key`, `status`, `dataset`, `method_name`, `repetition`.
    """

    text: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    state: str = ""
    records: pd.DataFrame = field(default_factory=pd.DataFrame, repr=False)


def audits_of(audits: pd.DataFrame) -> pd.Series[str]:
    """Name the audit of each row, without its settings."""
    return audits["audit_config"].map(_name)


@cache
def _name(config: str) -> str:
    """Return the name in the canonical JSON of a component; a results folder has few different ones."""
    return str(json.loads(config)["name"])


def latest_audits(audits: pd.DataFrame, name: str) -> pd.DataFrame:
    """Keep the records of an audit that count: of the latest version, then of the settings with the most records."""
    return latest_settings(audits[audits_of(audits) == name])


def latest_settings(part: pd.DataFrame) -> pd.DataFrame:
    """Keep what counts of the records of one audit: see `latest_audits`."""
    counts = first_of_each(part[["key", "audit_config"]], ["key"])["audit_config"].value_counts()
    if len(counts) < 2:
        return part
    best = min(counts.index, key=lambda config: (-int(json.loads(config)["version"]), -int(counts[config]), config))
    kept: pd.DataFrame = part[part["audit_config"] == best]
    return kept


def audited(columns: Sequence[Evidence], part: pd.DataFrame) -> list[Cell]:
    """Return the cells of a method, of columns of one audit, from its records of the audit; means over repetitions."""
    if part.empty:
        return [Cell() for _ in columns]
    results = first_of_each(part, ["machine", "key", "status"])
    # A cell may have records of several machines: one of them counts.
    counted = results.assign(failed=results["status"].isin(FAILURES)).sort_values(["failed", "machine"], kind="stable")
    counted = first_of_each(counted, UNIT)
    of_records = part.merge(counted[["machine", "key", "status"]])
    return [_audited(column, counted, of_records, _records(counted)) for column in columns]


def _audited(column: Evidence, counted: pd.DataFrame, of_records: pd.DataFrame, records: pd.DataFrame) -> Cell:
    if not column.measure:
        return Cell(joined(counted["verdict"]), n=len(counted), records=records)
    measured = of_records[of_records["measure"] == column.measure]
    places = [one for one in (*column.where, *column.older) if (measured["where"] == one).any()]
    rows = measured[measured["where"] == places[0]] if places else measured.iloc[:0]
    sound = rows[rows[column.value].notna() & (rows["state"] != CANNOT_TELL)]
    if sound.empty:
        # Where other numbers stand, the verdict is theirs.
        verdict = "" if of_records["value"].notna().any() else joined(counted["verdict"])
        text = CANNOT_TELL if len(rows) else verdict
        return Cell(text, n=0, state=text, records=records)
    states = [NO_GATE] if (sound["state"] == NO_GATE).any() else []
    states += [OLDER] if places[0] in column.older else []
    # Without an overlap of splits this is Student's interval of the mean.
    mean = corrected_paired_t([float(value) for value in sound[column.value]], 0.0)
    low, high = mean.low, mean.high
    if len(sound) == 1 and column.value == "value":
        low, high = (None if pd.isna(end) else float(end) for end in sound.iloc[0][["low", "high"]])
    text = with_interval({"value": mean.mean, "low": low, "high": high})
    text += f" ({', '.join(states)})" if states else ""
    return Cell(text, mean.mean, low, high, len(sound), ", ".join(states), records)


def scored(runs: Aggregate | None, config: str, view: str) -> Cell:
    """Return the cell of a method's score in a view, with the interval that allows for overlapping splits."""
    if runs is None or config not in set(runs.data["method_config"]):
        return Cell()
    row = runs.data.set_index("method_config").loc[config]
    value, spread = (row[f"{runs.metric}_{view}_{kind}"] for kind in ("mean", "sd"))
    records = _of_method(runs, config)
    if pd.isna(value):
        return Cell(records=records)
    values = list(scores(runs, row["method"], view).values())
    text = writer(runs.metric)(value, None if pd.isna(spread) else spread)
    try:
        tested = corrected_paired_t(values, overlap(runs)[0])
    except DataError:  # the split is unknown
        return Cell(text, float(value), n=len(values), records=records)
    return Cell(text, float(value), tested.low, tested.high, len(values), records=records)


def timed(runs: Aggregate | None, config: str) -> Cell:
    """Return the cell of a method's time relative to Retrain."""
    if runs is None or config not in set(runs.data["method_config"]):
        return Cell()
    row = runs.data[runs.data["method_config"] == config].iloc[0]
    value = None if pd.isna(row["times_retrain"]) else float(row["times_retrain"])
    return Cell(RATIO.text(row), value, n=int(row["times_retrain_n"]), records=_of_method(runs, config))


def _of_method(runs: Aggregate, config: str) -> pd.DataFrame:
    chosen = runs.chosen[runs.chosen["method_config"] == config]
    return _records(first_of_each(chosen, ["machine", "key"]))


def _records(part: pd.DataFrame) -> pd.DataFrame:
    names = part["method_config"].map(_name)
    columns = ["machine", "key", "status", "dataset", "method_name", "repetition"]
    return part[[name for name in columns if name != "method_name"]].assign(method_name=names)[columns]
