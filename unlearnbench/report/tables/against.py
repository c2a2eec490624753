"""Published F1 beside ours: would one split of ours be expected to give it?"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap, reason_notes, scores
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.published import Published, of_cell
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, shown_names, shown_statuses, with_facets
from unlearnbench.statistics import Paired, Prediction, corrected_paired_t, prediction_interval

OUTSIDE = "x"


@dataclass(frozen=True)
class Matched:
    """A row of ours beside a row of the paper's.

    Args:
        row: Ours.
        printed: The paper's.
    """

    row: str
    printed: Published


@dataclass(frozen=True)
class Comparison:
    """What our repetitions say of a published number, in one view.

    Args:
        mean: Their mean and its 95 % interval.
        one: Where one further split is expected.
        outside: Whether the published number lies outside that; None where there is no interval.
    """

    mean: Paired
    one: Prediction
    outside: bool | None


def compare_published(values: list[float], printed: float, test_share_over_train: float = 0.0) -> Comparison:
    """Set our values, one a repetition, against a published number in the same unit.

    Args:
        values: Ours.
        printed: The published number.
        test_share_over_train: As `corrected_paired_t` takes it: widens the interval of the mean where training sets of
            repetitions overlap.
    """
    one = prediction_interval(values)
    known = one.low is not None and one.high is not None and len(values) > 1
    outside = not one.low <= printed <= one.high if known and one.low is not None and one.high is not None else None
    return Comparison(corrected_paired_t(values, test_share_over_train), one, outside)


def matched_by_name(averages: Aggregate, printed: pd.DataFrame) -> list[Matched]:
    """Find the published row of each row of a group: every row of the method's name, whatever its parameters."""
    of_method = of_cell(printed, averages.group.facets["dataset"], averages.group.facets["model"])
    methods = averages.group.frame.drop_duplicates("row").set_index("row")["method_name"]
    return [Matched(row, of_method[methods[row]]) for row in averages.group.rows if methods[row] in of_method]


def f1_against(
    name: str,
    averages: Aggregate,
    pairs: Sequence[Matched],
    against: str = "paper",
    about: str = "published: as printed.",
    remarks: Iterable[str] = (),
    left_out: Iterable[str] = (),
) -> list[Table]:
    """Build the table that sets the F1 of a group against published ones; none if there are none.

    Args:
        name: The name of the table.
        averages: The group.
        pairs: Which rows stand beside which published ones.
        against: The name of the published numbers.
        about: What must be known of them.
        remarks: Further notes on them.
        left_out: Notes on rows that were left out.
    """
    if not pairs:
        return []
    data = averages.data.set_index("method", drop=False)
    names = dict(zip(averages.data["method"], shown_names(averages), strict=True))
    status = dict(zip(averages.data["method"], shown_statuses(averages.data), strict=True))
    lines, raw, means = [], [], []
    ratio, formula = overlap(averages)
    for view in VIEWS:
        for pair in pairs:
            of_row = data.loc[pair.row]
            values = list(scores(averages, pair.row, view).values())
            reading = compare_published(values, pair.printed.f1 or 0.0, ratio)
            means.append((pair.row, view, reading.mean))
            head = {"method": names[pair.row], "view": view, "n": shown_count(len(values), averages.group.units)}
            lines.append({**head, **_shown(pair, reading), "status": status[pair.row]})
            raw.append({**_raw(pair, view, reading, averages.group.units), "method_config": of_row["method_config"]})
    heads = [head for head in lines[0] if head != "status" or any(line["status"] for line in lines)]
    caption = f"Micro-F1 against the paper, {name}: {averages.group.name}."
    facets = with_facets(name, averages, pd.DataFrame(raw), against=against)
    notes = (*_notes(averages, about, formula, remarks), *reason_notes(means), *left_out)
    return [Table(name, caption, pd.DataFrame(lines, columns=heads), facets, notes)]


def _shown(pair: Matched, reading: Comparison) -> dict[str, str]:
    mean, one, printed = reading.mean, reading.one, pair.printed
    apart = None if mean.mean is None or printed.f1 is None else mean.mean - printed.f1
    known = one.low is not None and one.high is not None and one.n > 1
    return {
        "in the paper": printed.source,
        "published %": printed.shown(),
        "ours %": "" if mean.mean is None else formatting.difference(mean.mean, mean.low, mean.high),
        "one split %": f"{formatting.points(one.low or 0.0)} to {formatting.points(one.high or 0.0)}" if known else "",
        "ours - published pt": "" if apart is None else formatting.points(apart),
        "outside": OUTSIDE if reading.outside else "",
    }


def _raw(pair: Matched, view: str, reading: Comparison, units: int) -> dict[str, Any]:
    mean, one, printed = reading.mean, reading.one, pair.printed
    return {
        "method": pair.row,
        "view": view,
        "n": mean.n,
        "expected": units,
        "source": printed.source,
        "published_at": printed.at,
        "published_f1_micro": printed.f1,
        "published_sd": printed.sd,
        "f1_micro_mean": mean.mean,
        "low": mean.low,
        "high": mean.high,
        "one_split_low": one.low,
        "one_split_high": one.high,
        "difference": None if mean.mean is None or printed.f1 is None else mean.mean - printed.f1,
        "is_outside": reading.outside,
    }


def _notes(averages: Aggregate, about: str, formula: str, remarks: Iterable[str]) -> Iterator[str]:
    yield f"n: repetitions of {averages.group.units} with status ok."
    yield about
    yield (
        f"ours: mean with its 95 % interval, {formula}. one split: where one further split is expected"
        " with 95 %, mean ± t sd sqrt(1 + 1/R). outside: x where the published number lies outside that."
    )
    yield from remarks
    yield from origin_notes(averages, has_views=True)
    yield from details(averages.notes)
