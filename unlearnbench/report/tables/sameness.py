"""What must be said of rows that are the same, of predictions of one class, and of metrics that records lack."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator

import pandas as pd

from unlearnbench.metrics.wording import FAILED, ONE_CLASS
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import MICRO_F1, short_name
from unlearnbench.report.frame.plain_rows import plain_rows
from unlearnbench.report.frame.record_groups import UNIT, first_of_each
from unlearnbench.report.tables.notes import Note

_FAILED = re.compile(rf"{FAILED} (\S+) failed and is left out: (\w+)")


def sameness_notes(averages: Aggregate) -> Iterator[str]:
    """Name rows that deployed what they had before the request or what another row did, or that predict one class."""
    ok = averages.chosen[averages.chosen["status"] == "ok"]
    cells = first_of_each(ok[["row", *UNIT, "unchanged", "deployed", "notes"]], ["row", *UNIT])
    counts = Counter(cells["row"])
    for row, number in sorted(Counter(cells.loc[cells["unchanged"].fillna(False), "row"]).items()):
        yield f"{row}: unchanged: forgetting changed no parameter in {number} of {counts[row]} repetitions."
    alike: defaultdict[tuple[int, int, str], list[str]] = defaultdict(list)
    for row, *same in cells.loc[cells["deployed"] != "", ["row", *UNIT, "deployed"]].itertuples(index=False):
        alike[*same].append(row)
    shared: Counter[tuple[str, str]] = Counter()
    for rows in alike.values():
        first, *others = sorted(rows, key=averages.group.rows.index)
        shared.update((other, first) for other in others)
    for (row, first), number in sorted(shared.items()):
        yield f"{row}: same_as {first}: both deployed the same parameters in {number} of {counts[row]} repetitions."
    single = Counter(cells.loc[cells["notes"].str.contains(ONE_CLASS, regex=False), "row"])
    for row, number in sorted(single.items()):
        yield f"{row}: {ONE_CLASS} all test nodes are predicted as one class in {number} of {counts[row]} repetitions."


def _all_agree(ok: pd.DataFrame, averages: Aggregate) -> bool:
    """Whether several methods were scored, and each repetition has one score."""
    names = [name for name in {MICRO_F1, "f1_macro", averages.metric} if name in ok]
    scored = ok[ok[names].notna().all(axis=1)]
    if scored["row"].nunique() < 2 or scored.groupby(UNIT)["row"].nunique().min() < 2:
        return False
    return bool((scored.groupby(UNIT)[names].nunique() == 1).all(axis=None))


def metric_notes(averages: Aggregate) -> Iterator[str]:
    """Report whether scores tell no row apart, which rows lack a metric that the table shows, and which failed."""
    data, ok = averages.data, averages.chosen[averages.chosen["status"] == "ok"]
    for view in VIEWS:
        if _all_agree(ok[ok["view"] == view], averages):
            yield (
                f"View {view}: all methods agree to the last digit in every repetition: this table tells none apart."
                " Predictions of one class do this."
            )
    for metric in averages.shown_metrics:
        if metric == MICRO_F1:
            continue
        numbers = data[[f"{metric}_{view}_n" for view in VIEWS]].min(axis=1)
        lacking = ", ".join(
            f"{row['method']} {row['n'] - number} of {row['n']}"
            for row, number in zip(plain_rows(data), numbers, strict=True)
            if number < row["n"]
        )
        if lacking:
            yield Note(
                f"{short_name(metric)}: records without it: {lacking}. They are older than the metric, it failed, or it"
                " is not defined for their test nodes; `run --overwrite always` computes them again."
            )
    cells = first_of_each(averages.chosen[["row", *UNIT, "notes"]], ["row", *UNIT])
    failures: Counter[tuple[str, str, str]] = Counter()
    for row, notes in zip(cells["row"], cells["notes"], strict=True):
        failures.update({(str(row), *match) for match in _FAILED.findall(notes)})
    for (row, metric, error), number in sorted(failures.items()):
        yield f"{row}: the metric {metric} failed in {number} repetitions: {error}; their records say why, under notes."
