"""The paper's F1 beside ours: would one split of ours be expected to give it?"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import reason_notes, scores
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.paper.designs import ABLATIONS, METHOD, find_designs, lacks
from unlearnbench.report.paper.published import Published, contradictions, of_cell, shown, zeroed
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, shown_names, shown_statuses, with_facets
from unlearnbench.statistics import Paired, Prediction, corrected_paired_t, prediction_interval

OUTSIDE = "x"
REQUEST = "0.5 % of nodes"


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
        mean: Their mean and its 95 % interval, by the plain t distribution.
        one: Where one further split is expected.
        outside: Whether the published number lies outside that; None where there is no interval.
    """

    mean: Paired
    one: Prediction
    outside: bool | None


def read(values: list[float], printed: float) -> Comparison:
    """Set our values, one a repetition, against a published number in the same unit."""
    one = prediction_interval(values)
    known = one.low is not None and one.high is not None and len(values) > 1
    outside = not one.low <= printed <= one.high if known and one.low is not None and one.high is not None else None
    return Comparison(corrected_paired_t(values, 0.0), one, outside)


def matched(name: str, found: Aggregate) -> tuple[list[Matched], list[str]]:
    """Find the paper's row for each row of a group.

    Tables of whole methods: every row of the method's name, whatever its preset, unless a loss is
    switched off; ablations: the row with the same weights at 0.

    Returns:
        The pairs in the order of the group's rows, and notes on rows that were passed over.
    """
    printed = of_cell(name, found.group.facets["dataset"], found.group.facets["model"])
    if "poison" in json.loads(found.group.facets["protocol_config"]):
        printed = {}  # the paper's figure of the poison has no numbers
    if name in ABLATIONS:
        by_design = {zeroed(method): one for method, one in printed.items()}
        rows: dict[str, Published] = {}
        for designs in find_designs(found.group, ABLATIONS[name]) if printed else ():
            rows |= {row: by_design[zero] for zero, row in designs.rows.items() if zero in by_design}
        return [Matched(row, one) for row, one in rows.items()], []
    methods = found.group.frame.drop_duplicates("row").set_index("row")
    pairs, passed = [], []
    for row in found.group.rows:
        method, config = str(methods.loc[row, "method_name"]), str(methods.loc[row, "method_config"])
        if method not in printed:
            continue
        if method == METHOD and lacks(config):
            passed.append(row)
        else:
            pairs.append(Matched(row, printed[method]))
    notes = (
        [f"Not compared, a loss is switched off: {', '.join(passed)}; see the tables of ablations."] if passed else []
    )
    return pairs, notes


def against_tables(name: str, found: Aggregate) -> list[Table]:
    """Build the table of a group with F1 of the paper; none if the paper has no such number.

    Args:
        name: `utility` or an ablation.
        found: The group.
    """
    pairs, passed = matched(name, found)
    if not pairs:
        return []
    data = found.data.set_index("method", drop=False)
    names = dict(zip(found.data["method"], shown_names(found), strict=True))
    status = dict(zip(found.data["method"], shown_statuses(found.data), strict=True))
    lines, raw, means = [], [], []
    for view in VIEWS:
        for pair in pairs:
            of_row = data.loc[pair.row]
            values = list(scores(found, pair.row, view).values())
            reading = read(values, pair.printed.f1 or 0.0)
            means.append((pair.row, view, reading.mean))
            head = {"method": names[pair.row], "view": view, "n": shown_count(len(values), found.group.units)}
            lines.append({**head, **_shown(pair, reading), "status": status[pair.row]})
            raw.append({**_raw(pair, view, reading, found.group.units), "method_config": of_row["method_config"]})
    heads = [head for head in lines[0] if head != "status" or any(line["status"] for line in lines)]
    caption = f"Micro-F1 against the paper, {name}: {found.group.name}."
    facets = with_facets(name, found, pd.DataFrame(raw), against="paper")
    return [
        Table(
            name, caption, pd.DataFrame(lines, columns=heads), facets, (*_notes(found), *reason_notes(means), *passed)
        )
    ]


def _shown(pair: Matched, reading: Comparison) -> dict[str, str]:
    mean, one, printed = reading.mean, reading.one, pair.printed
    apart = None if mean.mean is None or printed.f1 is None else mean.mean - printed.f1
    known = one.low is not None and one.high is not None and one.n > 1
    return {
        "in the paper": printed.source,
        "published %": shown(printed),
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


def request_note(found: Aggregate) -> Iterator[str]:
    """Warn where another share of nodes was forgotten than in the paper."""
    forget = found.group.facets["forget"]
    if forget != REQUEST:
        yield f"The paper forgets {REQUEST}, these records {forget}: not the same experiment."


def _notes(found: Aggregate) -> Iterator[str]:
    yield f"n: repetitions of {found.group.units} with status ok."
    yield (
        "published: mean ± spread as printed; the paper does not say in which view, nor of what the spread is: most"
        " likely of repetitions on one split."
    )
    yield (
        "ours: mean with its 95 % interval, plain t over repetitions. one split: where one further split is expected"
        " with 95 %, mean ± t sd sqrt(1 + 1/R). outside: x where the published number lies outside that."
    )
    yield from request_note(found)
    yield from contradictions(found.group.facets["dataset"], found.group.facets["model"])
    yield from origin_notes(found, has_views=True)
    yield from found.notes
