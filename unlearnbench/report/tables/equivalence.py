"""Is a method shown to be as good as Retrain, up to a margin, and could it have been shown?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap, paired_differences, reason_notes, scores
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import long_name
from unlearnbench.report.frame.record_groups import reference_row
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.sameness import metric_notes
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, shown_names, shown_statuses, with_facets
from unlearnbench.statistics import Equivalence, equivalence, holm

MARGINS = (0.01, 0.03)
"""Of a share, such as micro-F1: 1 and 3 points."""
_HEADS = {margin: f"p, {100 * margin:g} pt" for margin in MARGINS}


@dataclass(frozen=True)
class Contrast:
    """One method against the reference in one view, by margin.

    Args:
        at: What the two one-sided tests found.
        adjusted: The p-value after Holm; None for a method that lacks a repetition.
    """

    row: str
    view: str
    at: dict[float, Equivalence]
    adjusted: dict[float, float | None]


class EquivalenceTable:
    """One row per view and method: how far it is from the reference, and whether that is little."""

    def build(self, name: str, averages: Aggregate) -> Table:
        """Build the table of one group."""
        ratio, formula = overlap(averages)
        reference, lack = reference_row(averages.group)
        contrasts = [one for view in VIEWS for one in contrast(averages, reference, view, ratio)] if reference else []
        configs, units = (
            dict(zip(averages.data["method"], averages.data["method_config"], strict=True)),
            averages.group.units,
        )
        names = dict(zip(averages.data["method"], shown_names(averages), strict=True))
        status = dict(zip(averages.data["method"], shown_statuses(averages.data), strict=True))
        lines = [{"method": names[one.row], **_shown(one, units), "status": status[one.row]} for one in contrasts]
        heads = ["method", "view", "n", "difference pt", *_HEADS.values(), "smallest margin pt", "detectable pt"]
        shown = pd.DataFrame(lines, columns=[*heads, *(["status"] if any(line["status"] for line in lines) else [])])
        raw = pd.DataFrame([_raw(one, reference, units) | {"method_config": configs[one.row]} for one in contrasts])
        notes = tuple(_notes(averages, contrasts, formula, lack))
        caption = f"{long_name(averages.metric)} against Retrain: {averages.group.name}."
        return Table(name, caption, shown, with_facets(name, averages, raw), notes)


def contrast(averages: Aggregate, reference: str, view: str, ratio: float) -> list[Contrast]:
    """Test every method against the reference in one view; all tests of a view are one family.

    `ratio` is n_test/n_train, as `overlap` returns it.
    """
    base = scores(averages, reference, view)
    tests = {}
    for row in averages.group.rows:
        if row != reference:
            apart = paired_differences(scores(averages, row, view), base)
            tests[row] = {margin: equivalence(apart, ratio, margin) for margin in MARGINS}
    family = [
        (row, margin) for row, at in tests.items() for margin in MARGINS if at[margin].paired.n == averages.group.units
    ]
    adjusted = dict(zip(family, holm([tests[row][margin].p for row, margin in family]), strict=True))
    return [
        Contrast(row, view, at, {margin: adjusted.get((row, margin)) for margin in MARGINS})
        for row, at in tests.items()
    ]


def _shown(one: Contrast, units: int) -> dict[str, str]:
    test = one.at[MARGINS[0]]
    paired = test.paired
    return {
        "view": one.view,
        "n": shown_count(paired.n, units),
        "difference pt": "" if paired.mean is None else formatting.difference(paired.mean, paired.low, paired.high),
        **{_HEADS[margin]: "" if p is None else formatting.probability(p) for margin, p in one.adjusted.items()},
        "smallest margin pt": "" if test.smallest_margin is None else formatting.points(test.smallest_margin),
        "detectable pt": "" if test.detectable is None else formatting.points(test.detectable),
    }


def _raw(one: Contrast, reference: str, units: int) -> dict[str, Any]:
    test = one.at[MARGINS[0]]
    paired = test.paired
    line = {"method": one.row, "view": one.view, "reference": reference, "common": paired.n, "expected": units}
    line |= {"test_over_train": paired.ratio, "difference": paired.mean}
    line |= {name: getattr(paired, name) for name in ("standard_error", "degrees_of_freedom", "low", "high")}
    for margin in MARGINS:
        line[f"p_within_{margin:g}"] = one.at[margin].p
        line[f"p_holm_within_{margin:g}"] = one.adjusted[margin]
    return {**line, "smallest_margin": test.smallest_margin, "detectable": test.detectable}


def _notes(averages: Aggregate, contrasts: list[Contrast], formula: str, lack: str) -> Iterator[str]:
    units = averages.group.units
    yield (
        f"n: repetitions of {units} that both the method and Retrain have with status ok; a method with fewer has no"
        " p-value and is in no family."
    )
    if lack:
        yield f"Nothing is compared: {lack}."
    yield f"difference: method - Retrain within repetitions, points, 95 % interval, not widened for Holm; {formula}."
    yield (
        "p: two one-sided t-tests (TOST) with that variance, after Holm; below 0.05 the true difference is shown to be"
        " less than the margin either way."
    )
    yield "Family: all methods at both margins, in one table and one view."
    yield "smallest margin: the one above which the method alone, without Holm, would pass at 0.05."
    yield (
        "detectable: the smallest true difference that the two-sided test would find with 80 % power, if the standard"
        " error is what was observed."
    )
    yield from reason_notes((one.row, one.view, one.at[MARGINS[0]].paired) for one in contrasts)
    yield from origin_notes(averages, has_views=True)
    yield from metric_notes(averages)
    yield from details(averages.notes)
