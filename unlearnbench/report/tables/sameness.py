"""What must be said of rows that are the same, of predictions of one class, and of metrics that records lack."""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from typing import Any

from unlearnbench.metrics.wording import FAILED, ONE_CLASS
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import MICRO_F1, short_name
from unlearnbench.report.frame.plain_rows import plain_rows
from unlearnbench.report.frame.record_groups import UNIT, first_of_each, known
from unlearnbench.report.tables.notes import Note

_FAILED = re.compile(rf"{FAILED} (\S+) failed and is left out: (\w+)")


def sameness_notes(averages: Aggregate) -> Iterator[str]:
    """Name rows that deployed what they had before the request or what another row did, or that predict one class."""
    cells = plain_rows(first_of_each(averages.ok, ["row", *UNIT]), ["row", *UNIT, "unchanged", "deployed", "notes"])
    counts = Counter(cell["row"] for cell in cells)
    for row, number in sorted(Counter(cell["row"] for cell in cells if cell["unchanged"] is True).items()):
        yield f"{row}: unchanged: forgetting changed no parameter in {number} of {counts[row]} repetitions."
    alike: defaultdict[tuple[int, int, str], list[str]] = defaultdict(list)
    for cell in cells:
        if cell["deployed"]:
            alike[cell["seed"], cell["repetition"], cell["deployed"]].append(cell["row"])
    shared: Counter[tuple[str, str]] = Counter()
    for rows in alike.values():
        first, *others = sorted(rows, key=averages.group.rows.index)
        shared.update((other, first) for other in others)
    for (row, first), number in sorted(shared.items()):
        yield f"{row}: same_as {first}: both deployed the same parameters in {number} of {counts[row]} repetitions."
    single = Counter(cell["row"] for cell in cells if ONE_CLASS in cell["notes"])
    for row, number in sorted(single.items()):
        yield f"{row}: {ONE_CLASS} all test nodes are predicted as one class in {number} of {counts[row]} repetitions."


def _all_agree(averages: Aggregate, view: str) -> bool:
    """Whether several methods were scored in a view, and each repetition has one score."""
    names = [name for name in {MICRO_F1, "f1_macro", averages.metric} if name in averages.ok]
    rows, scores = defaultdict[Any, set[str]](set), defaultdict[Any, set[Any]](set)
    for cell in plain_rows(averages.ok, ["row", "view", *UNIT, *names]):
        score = tuple(cell[name] for name in names)
        if cell["view"] == view and len(known(score)) == len(names):
            unit = cell["seed"], cell["repetition"]
            rows[unit].add(cell["row"])
            scores[unit].add(score)
    return bool(rows) and all(len(alike) > 1 for alike in rows.values()) and max(map(len, scores.values())) == 1


def metric_notes(averages: Aggregate) -> Iterator[str]:
    """Report whether scores tell no row apart, which rows lack a metric that the table shows, and which failed."""
    data = averages.data
    for view in VIEWS:
        if _all_agree(averages, view):
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
    failures: Counter[tuple[str, str, str]] = Counter()
    for cell in plain_rows(first_of_each(averages.chosen, ["row", *UNIT]), ["row", "notes"]):
        failures.update({(cell["row"], *match) for match in _FAILED.findall(cell["notes"])})
    for (row, metric, error), number in sorted(failures.items()):
        yield f"{row}: the metric {metric} failed in {number} repetitions: {error}; their records say why, under notes."
