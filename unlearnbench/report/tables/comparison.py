"""Which method is best, and which are not shown to be worse?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap, paired_differences, reason_notes, scores, with_claim
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import long_name, short_name, unit, writer
from unlearnbench.report.frame.record_groups import reference_row, retrains
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.sameness import metric_notes
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, shown_names, shown_statuses, with_facets
from unlearnbench.statistics import ALPHA, Paired, corrected_paired_t, holm
from unlearnbench.statistics.averages import mean

FEWEST = 5
"""Common repetitions below which nothing is marked."""
MARKED = (
    "Marked (= in text, else bold): in each view the best, and every method not significantly below it"
    f" (corrected paired t-test, p >= {ALPHA:g} after Holm; Retrain and what forgets nothing are not ranked)."
)


@dataclass(frozen=True)
class Family:
    """The comparisons with the best method of one view.

    Args:
        view: The view.
        ranked: Methods with every repetition, without the reference and methods that claim nothing.
        best: The one with the highest mean score; empty if none is ranked.
        to_best: Row to what the paired test of row - best found, for every other method.
        adjusted: Ranked rows but the best to their p-value after Holm.
        marked: The best and those not significantly below it; empty where nothing may be marked.
    """

    view: str
    ranked: tuple[str, ...]
    best: str
    to_best: dict[str, Paired]
    adjusted: dict[str, float | None]
    marked: frozenset[str]


class ComparisonTable:
    """The metric in both views, with the distance to the best method and its p-value."""

    def build(self, name: str, averages: Aggregate) -> Table:
        """Build the table of one group."""
        ratio, formula = overlap(averages)
        families = [compare(averages, view, ratio) for view in VIEWS]
        data = averages.data
        shown = pd.DataFrame({"method": shown_names(averages)})
        shown["n"] = [shown_count(int(row["n"]), int(row["expected"])) for _, row in data.iterrows()]
        marked = set()
        for family in families:
            head = f"{short_name(averages.metric)} {family.view}{unit(averages.metric)}"
            columns = [_shown(family, row, averages.metric) for _, row in data.iterrows()]
            for title, texts in zip(
                (head, f"{family.view}: to best", f"{family.view}: p"), zip(*columns, strict=True), strict=True
            ):
                shown[title] = list(texts)
            marked |= {(i, head) for i, row in enumerate(data["method"]) if row in family.marked}
        status = shown_statuses(data)
        if any(status):
            shown["status"] = status
        raw = pd.DataFrame([_raw(family, row, averages.metric) for _, row in data.iterrows() for family in families])
        notes = tuple(_notes(averages, families, formula))
        caption = f"{long_name(averages.metric)} compared with the best method: {averages.group.name}."
        return Table(name, caption, shown, with_facets(name, averages, raw), notes, frozenset(marked))


def compare(averages: Aggregate, view: str, ratio: float) -> Family:
    """Compare the methods of a group with the best of them, in one view."""
    by_row = {row: scores(averages, row, view) for row in averages.group.rows}
    references = _references(averages)
    others = [row for row in averages.group.rows if row not in references]
    controls = with_claim(averages, "none")
    ranked = tuple(row for row in others if row not in controls and len(by_row[row]) == averages.group.units)
    if not ranked:
        return Family(view, (), "", {}, {}, frozenset())
    best = max(ranked, key=lambda row: mean(by_row[row].values()) or 0.0)
    to_best = {
        row: corrected_paired_t(paired_differences(by_row[row], by_row[best]), ratio) for row in others if row != best
    }
    compared = [row for row in ranked if row != best]
    adjusted = dict(zip(compared, holm([to_best[row].p for row in compared]), strict=True))
    close = {row for row, p in adjusted.items() if p is not None and p >= ALPHA}
    may_mark = bool(compared) and averages.group.units >= FEWEST
    return Family(view, ranked, best, to_best, adjusted, frozenset({best, *close}) if may_mark else frozenset())


def _references(averages: Aggregate) -> list[str]:
    """List the rows of Retrain, also of Retrain within another component."""
    data = averages.data
    return list(data.loc[data["method_config"].map(retrains), "method"])


def noop_notes(averages: Aggregate, ratio: float) -> Iterator[str]:
    """Report of each method that forgets nothing how far it is from Retrain, and what a table of F1 measures."""
    reference, _ = reference_row(averages.group)
    for row in sorted(with_claim(averages, "none")):
        apart = []
        for view in VIEWS if reference else ():
            paired = corrected_paired_t(
                paired_differences(scores(averages, row, view), scores(averages, reference, view)), ratio
            )
            if paired.mean is not None:
                apart.append(f"{formatting.difference(paired.mean, paired.low, paired.high)} points in view {view}")
        distance = (
            f"; after a request of {averages.group.facets['forget']} it differs from Retrain by " if apart else ""
        )
        yield (
            f"{row} forgets nothing{distance}{', '.join(apart)}. This table measures what sharding costs; whether data"
            " is gone the audits measure (--table audits)."
        )


def _shown(family: Family, row: pd.Series[Any], metric: str) -> tuple[str, str, str]:
    """Write the score, the difference to the best and the p-value of one row."""
    name, head = row["method"], f"{metric}_{family.view}"
    value, spread = row[f"{head}_mean"], row[f"{head}_sd"]
    score = "" if pd.isna(value) else writer(metric)(value, None if pd.isna(spread) else spread)
    if name == family.best:
        return score, "best", ""
    paired, p = family.to_best.get(name), family.adjusted.get(name)
    apart = "" if paired is None or paired.mean is None else formatting.difference(paired.mean, paired.low, paired.high)
    return score, apart, "" if p is None else formatting.probability(p)


def _raw(family: Family, row: pd.Series[Any], metric: str) -> dict[str, Any]:
    name, head = row["method"], f"{metric}_{family.view}"
    paired = family.to_best.get(name)
    test = {} if paired is None else asdict(paired)
    return {
        "method": name,
        "view": family.view,
        "n": row[f"{head}_n"],
        "expected": row["expected"],
        f"{metric}_mean": row[f"{head}_mean"],
        f"{metric}_sd": row[f"{head}_sd"],
        "is_ranked": name in family.ranked,
        "best": family.best,
        "common": test.get("n"),
        "test_over_train": test.get("ratio"),
        "difference": test.get("mean"),
        **{key: test.get(key) for key in ("standard_error", "degrees_of_freedom", "low", "high", "t", "p")},
        "p_holm": family.adjusted.get(name),
        "is_marked": name in family.marked,
        "method_config": row["method_config"],
    }


def _notes(averages: Aggregate, families: list[Family], formula: str) -> Iterator[str]:
    units = averages.group.units
    yield (
        f"n: repetitions of {units} with status ok, mean ± sample standard deviation (none for n = 1);"
        " a method with fewer is not ranked."
    )
    yield f"To best: method - best within repetitions, points, 95 % interval, not widened for Holm; {formula}."
    yield (
        "p: two-sided, after Holm; family: the best against every other ranked method, in one table and one view."
        " Neither the reference nor a method that claims nothing is ranked."
    )
    references = _references(averages)
    if len(references) > 1:
        yield f"Retrain in several forms, none of them ranked: {', '.join(references)}."
    if units < FEWEST:
        yield f"Nothing is marked: fewer than {FEWEST} common repetitions."
    elif any(family.marked for family in families):
        yield f"Marked (= in text, else bold): the best, and every method not significantly below it (p >= {ALPHA:g})."
    for family in families:
        lacking = [row for row in family.to_best if row not in family.ranked]
        if not family.ranked:
            yield f"View {family.view}: no method can be ranked, nothing is compared."
        elif len(family.ranked) == 1:
            yield f"View {family.view}: only {family.best} can be ranked, nothing is marked."
        if lacking:
            yield f"View {family.view}: not ranked: {', '.join(lacking)}; the difference is over common repetitions."
    yield from reason_notes((row, family.view, one) for family in families for row, one in family.to_best.items())
    yield from origin_notes(averages, has_views=True)
    yield from metric_notes(averages)
    yield from details(averages.notes)
