"""Columns and cells of the table `forgetting`: what audits and runs say about one method."""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd

from unlearnbench.errors import DataError
from unlearnbench.records.record import FAILURES
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap, scores
from unlearnbench.report.frame.metrics import writer
from unlearnbench.report.frame.plain_rows import Row
from unlearnbench.report.frame.record_groups import known
from unlearnbench.report.tables.audits import NO_GATE, joined, with_interval
from unlearnbench.report.tables.columns import RATIO
from unlearnbench.report.tables.formatting import hundredths
from unlearnbench.report.tables.mean_scores import CANNOT_TELL, ENERGY, OWN, mean_effect
from unlearnbench.statistics import corrected_paired_t

OLDER = "older attack"
SHARE = (0.0, 1.0)


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
        limits: Least and greatest value of the measure; an interval does not go beyond.
    """

    name: str
    title: str
    meaning: str
    audit: str
    measure: str = ""
    where: tuple[str, ...] = ()
    value: str = "value"
    older: tuple[str, ...] = ()
    limits: tuple[float, float] = (-math.inf, math.inf)


DISTANCE = Evidence(
    "distance",
    "distance on D",
    "distance of the outputs for the forgotten nodes from those of the same pipeline trained without them, relative"
    " to the untouched model: 0 is as retrained, 1 as if nothing had been forgotten.",
    "distance",
    "js",
    (f"forgotten{OWN}",),
    "effect",
)
EVIDENCE = (
    Evidence(
        "exactness",
        "exactness",
        "the verdict of the audit exactness, by bits: is the model what it would be had the data never been there? The"
        " number: how far predictions for the forgotten nodes are from retrained ones; 1 is as far as untouched.",
        "exactness",
    ),
    DISTANCE,
    Evidence(
        "membership_tpr",
        "membership TPR at 1 %",
        "share of the forgotten nodes that an attacker with shadow models, who sees predictions for them and for their"
        " neighbours, recognises at 1 % false positives; .01 is guessing.",
        "membership",
        "tpr",
        ("node and neighbours, 1% false alarms", "node, 1% false alarms"),
        limits=SHARE,
    ),
    Evidence(
        "membership_epsilon",
        "epsilon at least",
        "lower bound at 95 % confidence that this attacker proves; 0 proves nothing, neither a leak nor that there is"
        " none.",
        "membership",
        "epsilon",
        ("node and neighbours", "node"),
        limits=(0.0, math.inf),
    ),
    Evidence(
        "relearning",
        "relearning ratio",
        "area under the loss while the unlearned networks are trained on the forgotten nodes again, relative to"
        " retrained networks: 1 is as retrained, below 1 a trace was kept.",
        "relearning",
        "relearning ratio",
        ("area",),
        limits=(0.0, math.inf),
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
        limits=SHARE,
    ),
    Evidence(
        "leakage_tpr",
        "leakage TPR at 1 %",
        "share of the nodes that were there that the same attacker recognises at 1 % false positives.",
        "partition-leakage",
        "tpr",
        ("per target, 1% false alarms",),
        older=("independent seeds, calibrated, 1% false alarms", "independent seeds, 1% false alarms"),
        limits=SHARE,
    ),
)


@dataclass(frozen=True, eq=False)
class Cell:
    """One cell: its text, the number behind it, and the records of the audit that it is made of.

    `state` says how far the number can be trusted; in the column of a verdict it is the verdict.
    """

    text: str = ""
    value: float | None = None
    low: float | None = None
    high: float | None = None
    n: int = 0
    state: str = ""
    records: Sequence[Row] = field(default=(), repr=False)


def audits_of(audits: pd.DataFrame) -> pd.Series[str]:
    """Name the audit of each row, without its settings."""
    return audits["audit_config"].map(component_name)


@cache
def component_name(config: str) -> str:
    """Return the name in the canonical JSON of a component; a results folder has few different ones."""
    return str(json.loads(config)["name"])


def latest_audits(audits: pd.DataFrame, name: str = "") -> pd.DataFrame:
    """Keep the rows that count, as `latest_rows` does, of each method; of one audit, or of every one."""
    settings = audits["audit_config"].tolist()
    names = list(map(component_name, settings))
    places = list(zip(audits["method_config"], names, strict=True))
    by_place: dict[Any, list[tuple[str, str]]] = {}
    for place, key, one in zip(places, audits["key"], settings, strict=True):
        by_place.setdefault(place, []).append((key, one))
    counts = {place: settings_that_count(records) for place, records in by_place.items()}
    rows = zip(places, names, settings, strict=True)
    counted = [counts[place] == one and name in ("", own) for place, own, one in rows]
    # Without a row, an empty list would choose columns.
    kept: pd.DataFrame = audits[pd.Series(counted, audits.index, dtype=bool)]
    return kept


def latest_rows(audits: Iterable[Row], name: str) -> list[Row]:
    """Keep the rows of an audit that count: of the latest version, then of the settings with the most records.

    Args:
        audits: Rows of one method, each with `key`, `audit_config` and others.
        name: Of the audit.
    """
    part = [row for row in audits if component_name(row["audit_config"]) == name]
    counts = settings_that_count((row["key"], row["audit_config"]) for row in part)
    return [row for row in part if row["audit_config"] == counts]


def settings_that_count(records: Iterable[tuple[str, str]]) -> str:
    """Choose, of the settings of one audit of a method, those that count: see `latest_rows`; empty without any.

    Args:
        records: The key of each record and its settings, as canonical JSON; a record may come several times.
    """
    counts = Counter(dict(records).values())
    return min(counts, key=lambda one: (-int(json.loads(one)["version"]), -counts[one], one), default="")


def audited(columns: Sequence[Evidence], rows: Sequence[Row]) -> list[Cell]:
    """Return the cells of a method, of columns of one audit, from the rows of its records; means over repetitions."""
    if not rows:
        return [Cell() for _ in columns]
    results: dict[Any, Row] = {}
    for row in rows:
        results.setdefault(_record(row), row)
    # A cell may have records of several machines: one of them counts.
    counted: dict[Any, Row] = {}
    for row in sorted(results.values(), key=lambda row: (row["status"] in FAILURES, row["machine"])):
        counted.setdefault((row["seed"], row["repetition"]), row)
    kept = set(map(_record, counted.values()))
    of_records = [row for row in rows if _record(row) in kept]
    return [_audited(column, list(counted.values()), of_records) for column in columns]


def _record(row: Row) -> tuple[str, str, str]:
    return row["machine"], row["key"], row["status"]


def _audited(column: Evidence, records: Sequence[Row], rows: Sequence[Row]) -> Cell:
    verdict = joined(record["verdict"] for record in records)
    if not column.measure:
        energies = [row for row in rows if row["measure"] == ENERGY and row["state"] != CANNOT_TELL]
        effect = mean_effect(energies).value
        text = verdict if effect is None else f"{verdict}, {hundredths(effect)}"
        return Cell(text, effect, n=len(records), state=verdict, records=records)
    measured = [row for row in rows if row["measure"] == column.measure]
    there = {row["where"] for row in measured}
    place = next((one for one in (*column.where, *column.older) if one in there), None)
    at_place = [row for row in measured if row["where"] == place]
    sound = [row for row in at_place if not pd.isna(row[column.value]) and row["state"] != CANNOT_TELL]
    value, low, high = _mean(column, sound)
    if value is None:
        # Where other numbers stand, the verdict is theirs.
        text = CANNOT_TELL if at_place else "" if known(row["value"] for row in rows) else verdict
        return Cell(text, n=0, state=text, records=records)
    states = [NO_GATE] if any(row["state"] == NO_GATE for row in sound) else []
    states += [OLDER] if place in column.older else []
    text = with_interval({"value": value, "low": low, "high": high})
    text += f" ({', '.join(states)})" if states else ""
    return Cell(text, value, low, high, len(sound), ", ".join(states), records)


def _mean(column: Evidence, rows: Sequence[Row]) -> tuple[float | None, float | None, float | None]:
    """Return a mean over requests with its interval; of one request the interval that its audit gives."""
    if column.value == "effect":
        effect = mean_effect(rows)
        return effect.value, effect.low, effect.high
    # Without an overlap of splits this is Student's interval of the mean.
    mean = corrected_paired_t([row[column.value] for row in rows], 0.0)
    if len(rows) != 1:
        ends = mean.low, mean.high
        low, high = (None if end is None else min(max(end, column.limits[0]), column.limits[1]) for end in ends)
        return mean.mean, low, high
    own = [None if pd.isna(end) else float(end) for end in (rows[0]["low"], rows[0]["high"])]
    return mean.mean, own[0], own[1]


def scored(runs: Aggregate | None, config: str, view: str) -> Cell:
    """Return the cell of a method's score in a view, with the interval that allows for overlapping splits."""
    if runs is None or config not in set(runs.data["method_config"]):
        return Cell()
    row = runs.data.set_index("method_config").loc[config]
    value, spread = (row[f"{runs.metric}_{view}_{kind}"] for kind in ("mean", "sd"))
    if pd.isna(value):
        return Cell()
    values = list(scores(runs, row["method"], view).values())
    text = writer(runs.metric)(value, None if pd.isna(spread) else spread)
    try:
        tested = corrected_paired_t(values, overlap(runs)[0])
    except DataError:  # the split is unknown
        return Cell(text, float(value), n=len(values))
    return Cell(text, float(value), tested.low, tested.high, len(values))


def timed(runs: Aggregate | None, config: str) -> Cell:
    """Return the cell of a method's time relative to Retrain."""
    if runs is None or config not in set(runs.data["method_config"]):
        return Cell()
    row = runs.data[runs.data["method_config"] == config].iloc[0]
    value = None if pd.isna(row["times_retrain"]) else float(row["times_retrain"])
    return Cell(RATIO.text(row), value, n=int(row["times_retrain_n"]))
