"""From the records of a group to one row of raw numbers per method."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from unlearnbench.records.record import FAILURES
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import MICRO_F1, headline, of_plugins
from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import (
    UNIT,
    RecordGroup,
    known,
    one_record_a_cell,
    reference_row,
)
from unlearnbench.report.frame.timed import (
    Times,
    charge_notes,
    is_quiet,
    pairs_of,
    quiet_notes,
    quiet_records,
    timed_records,
    times_of,
)
from unlearnbench.statistics.averages import geometric_mean, mean, sample_sd

METRICS = ("f1_micro", "f1_micro_before", "f1_macro", "f1_macro_before", "val_f1_micro", "val_f1_macro")
# After the request, before it, and on the validation nodes.
MOMENTS = (("", ""), ("", "_before"), ("val_", ""))
TIMES = ("unlearn_seconds", "partition_seconds", "train_seconds", "aggregate_seconds", "fit_seconds")
PREDICT = "full_predict_seconds"
COUNTS = ("shards_hit", "node_epochs", "steps")
MEMORY = ("unlearn_peak_gpu_mib", "fit_peak_gpu_mib", "unlearn_peak_rss_mib", "fit_peak_rss_mib")
REASONS = {"gpu_reason": "unlearn_gpu_reason", "rss_reason": "unlearn_rss_reason"}
STATUSES = ("diverged", "refused", "failed", "missing")


@dataclass(frozen=True, eq=False)
class Aggregate:
    """The numbers of one group.

    Args:
        group: Where they come from.
        data: One row per method in the order of `group.rows`. `n`: repetitions with status ok;
            `expected`: repetitions that any method of the group has. `<metric>_<view>_mean`,
            `_sd`: as stored, sample standard deviation. `<time>_mean`, `_sd` in seconds, over
            `time_n` records of `machine`, of which `quiet_n` met a quiet machine: all of them,
            where three or more did. `times_retrain`: geometric mean over `times_retrain_n`
            repetitions of the unlearning time divided by Retrain's. Memory in MiB: mean over
            the same records as times; counts: over all of the machine's.
            `diverged`, `refused`, `failed`, `missing`: repetitions.
        chosen: The records the metrics come from, one row per cell and view.
        timed: The records that times come from, one row each.
        machine: The machine whose times are used; empty if there is none.
        notes: What was left out, and why.
        time_notes: What was left out of times and memory alone, and why.
        metric: The metric that rows are compared by.
        more_metrics: Those that tables of scores show as well.
    """

    group: RecordGroup
    data: pd.DataFrame
    chosen: pd.DataFrame = field(repr=False)
    timed: pd.DataFrame = field(repr=False)
    machine: str
    notes: tuple[str, ...]
    time_notes: tuple[str, ...]
    metric: str = MICRO_F1
    more_metrics: tuple[str, ...] = ()

    @property
    def shown_metrics(self) -> tuple[str, ...]:
        """The metrics that tables of scores show: the one that ranks first."""
        return self.metric, *self.more_metrics

    @cached_property
    def ok(self) -> pd.DataFrame:
        """Those of `chosen` that ended well."""
        return self.chosen[self.chosen["status"] == "ok"]

    @cached_property
    def scores(self) -> dict[tuple[str, str], dict[tuple[int, int], float]]:
        """The metric after the request where there is one: (row, view) to (seed, repetition) to it."""
        if self.metric not in self.chosen:
            return {}
        found: defaultdict[tuple[str, str], dict[tuple[int, int], float]] = defaultdict(dict)
        for one in plain_rows(self.ok, ["row", "view", *UNIT, self.metric]):
            if not pd.isna(one[self.metric]):
                found[one["row"], one["view"]][one["seed"], one["repetition"]] = one[self.metric]
        return dict(found)


def aggregate(group: RecordGroup, metric: str = MICRO_F1) -> Aggregate:
    """Average over repetitions; nothing that failed, diverged or was refused is in any mean.

    Rows are compared by `metric`.
    """
    return _aggregate(group, metric, ())


def aggregate_headlines(group: RecordGroup) -> Aggregate:
    """Average over repetitions, with rows compared by the metric that papers report of the dataset.

    Micro-F1 and the metrics of plugins are shown too.
    """
    first = headline(group.facets["dataset"])
    others = [MICRO_F1] if first != MICRO_F1 else []
    measured = [name for name in of_plugins(group.frame) if group.frame[name].notna().any()]
    return _aggregate(group, first, (*others, *measured))


def _aggregate(group: RecordGroup, metric: str, more: tuple[str, ...]) -> Aggregate:
    chosen, notes = one_record_a_cell(group)
    machine, timed, time_notes = timed_records(group)
    names = list(dict.fromkeys([*METRICS, *(f"{a}{name}{b}" for name in (metric, *more) for a, b in MOMENTS)]))
    reference, lack = reference_row(group)
    if lack:
        time_notes.append(f"No ratio: {lack}.")
    time_notes += [*quiet_notes(timed), *charge_notes(timed)]
    statuses = _statuses(chosen)
    measured = [name for name in names if name in chosen]
    cells_of = rows_by(chosen, "row", ["method_config", "status", "view", *measured])
    timed_of = rows_by(timed, "row", [*UNIT, "exclusive", *TIMES, PREDICT, *MEMORY, *COUNTS, *REASONS.values()])
    base = times_of(timed_of.get(reference, ()))
    rows = []
    for name in group.rows:
        cells, mine = cells_of[name], timed_of.get(name, [])
        row: dict[str, Any] = {"method": name, "method_config": cells[0]["method_config"]}
        row |= _coverage(statuses[name], group.units) | _metrics(cells, names)
        row |= _costs(quiet_records(mine), mine) | _ratio(times_of(mine), base)
        rows.append(row)
    return Aggregate(group, pd.DataFrame(rows), chosen, timed, machine, tuple(notes), tuple(time_notes), metric, more)


def _statuses(cells: pd.DataFrame) -> dict[str, Counter[str]]:
    """Count for each row how its repetitions ended."""
    ended: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for row, _, _, status in dict.fromkeys(zip(*(cells[name] for name in ("row", *UNIT, "status")), strict=True)):
        ended[row][status] += 1
    return ended


def _coverage(ended: Counter[str], units: int) -> dict[str, Any]:
    kinds = {status: count for status, count in sorted(ended.items()) if status in FAILURES}
    return {
        "n": ended["ok"],
        "expected": units,
        "diverged": ended["diverged"],
        "refused": ended["refused"],
        "failed": sum(kinds.values()),
        "missing": units - ended.total(),
        "failures": ", ".join(f"{kind} {count}" for kind, count in kinds.items()),
    }


def _metrics(cells: Sequence[Row], names: Sequence[str]) -> dict[str, Any]:
    columns: dict[str, Any] = {}
    for view in VIEWS:
        seen = [cell for cell in cells if cell["status"] == "ok" and cell["view"] == view]
        for metric in names:
            values = known(cell.get(metric) for cell in seen)
            columns[f"{metric}_{view}_mean"] = mean(values)
            columns[f"{metric}_{view}_sd"] = sample_sd(values)
            columns[f"{metric}_{view}_n"] = len(values)
    return columns


def _costs(timed: Sequence[Row], counted: Sequence[Row]) -> dict[str, Any]:
    values = {name: known(record[name] for record in timed) for name in (*TIMES, PREDICT, *MEMORY)}
    columns: dict[str, Any] = {
        "time_n": len(values["unlearn_seconds"]),
        "quiet_n": sum(map(is_quiet, timed)),
        "timed": len(timed),
    }
    # Records of earlier releases do not have the time of a prediction.
    for name in (*TIMES, PREDICT) if values[PREDICT] else TIMES:
        columns[f"{name}_mean"], columns[f"{name}_sd"] = mean(values[name]), sample_sd(values[name])
    for name in MEMORY:
        columns[name] = mean(values[name])
    for name in COUNTS:
        columns[name] = mean(known(record[name] for record in counted))
    for name, reason in REASONS.items():
        columns[name] = "; ".join(sorted({record[reason] for record in timed} - {""}))
    return columns


def _ratio(mine: Times, reference: Times) -> dict[str, Any]:
    pairs = pairs_of(mine, reference)
    ratios = [pair.mine / pair.other for pair in pairs]
    quiet = sum(pair.quiet for pair in pairs)
    return {"times_retrain": geometric_mean(ratios), "times_retrain_n": len(ratios), "ratio_quiet_n": quiet}
