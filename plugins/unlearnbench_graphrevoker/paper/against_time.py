"""The paper's times beside ours: never seconds with seconds, always ratios within one machine."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import pandas as pd

from unlearnbench.report import (
    OUTSIDE,
    REFERENCE,
    UNLEARN,
    Aggregate,
    Matched,
    Table,
    by_group,
    compare_published,
    mean,
    of_cell,
    origin_notes,
    paired_times,
    reference_row,
    shown_count,
    shown_names,
    time_notes,
    with_facets,
)
from unlearnbench_graphrevoker.paper.against import f1_tables, matched, request_note
from unlearnbench_graphrevoker.paper.designs import ABLATIONS, WHOLE, find_designs
from unlearnbench_graphrevoker.paper.numbers import PAPER, published


def time_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build the table of a group with times of the paper; none if the paper has no such number.

    Args:
        name: `time`, where ratios are to Retrain, or `partition-ablation`, where they are to the
            whole method.
        averages: The group.
    """
    pairs, passed = matched(name, averages)
    bases = _bases(name, averages, pairs)
    if not pairs:
        return []
    base_name = WHOLE if name in ABLATIONS else "Retrain"
    timed = averages.timed
    by_row = {row: timed[timed["row"] == row] for row in averages.group.rows}
    names = dict(zip(averages.data["method"], shown_names(averages), strict=True))
    data = {str(row["method"]): row for _, row in averages.data.iterrows()}
    lines, raw = [], []
    for pair in pairs:
        base, printed_base = bases[pair.row]
        pairs_of_times = paired_times(by_row[pair.row], by_row[base]) if base in by_row else []
        logs = [math.log(both.mine / both.other) for both in pairs_of_times]
        printed = pair.printed.seconds
        ratio = printed / printed_base if printed and printed_base else None
        is_base = pair.row == base
        line = {
            "method": pair.row,
            "base": base,
            "n": len(logs),
            "expected": averages.group.units,
            "source": pair.printed.source,
            "published_at": pair.printed.at,
            "published_seconds": printed,
            "unlearn_seconds_mean": data[pair.row]["unlearn_seconds_mean"],
            "unlearn_seconds_sd": data[pair.row]["unlearn_seconds_sd"],
            "published_ratio": ratio,
            **_ratios(logs, None if is_base else ratio),
        }
        raw.append({**line, "method_config": data[pair.row]["method_config"]})
        lines.append({"method": names[pair.row], **_shown(line, UNLEARN.text(data[pair.row]), base_name)})
    caption = f"Time to unlearn against the paper: {averages.group.name}"
    caption += f"; times of machine {averages.machine}." if averages.machine else "."
    facets = with_facets(name, averages, pd.DataFrame(raw), against=PAPER, time_machine=averages.machine)
    notes = (*_notes(averages, base_name), *passed)
    return [Table(name, caption, pd.DataFrame(lines), facets, notes)]


def _bases(name: str, averages: Aggregate, pairs: list[Matched]) -> dict[str, tuple[str, float | None]]:
    """Return for each row the row its time is divided by, and that one's published seconds."""
    if name in ABLATIONS:
        seconds = {pair.row: pair.printed.seconds for pair in pairs}
        wholes = {row: one.whole for one in find_designs(averages.group, ABLATIONS[name]) for row in one.rows.values()}
        return {pair.row: (wholes[pair.row], seconds[wholes[pair.row]]) for pair in pairs}
    printed = of_cell(published(name), averages.group.facets["dataset"], averages.group.facets["model"]).get(REFERENCE)
    base = reference_row(averages.group)[0], printed.seconds if printed else None
    return {pair.row: base for pair in pairs}


def _ratios(logs: list[float], printed: float | None) -> dict[str, Any]:
    """Return the geometric mean of the ratios with its interval, and where one split's ratio is expected."""
    centre = mean(logs)
    reading = compare_published(logs, math.log(printed)) if printed is not None else None
    ends: dict[str, float | None] = {
        "ratio_low": None,
        "ratio_high": None,
        "one_split_low": None,
        "one_split_high": None,
    }
    if reading is not None and len(logs) > 1:
        bounds = (reading.mean.low, reading.mean.high, reading.one.low, reading.one.high)
        ends = {name: None if end is None else math.exp(end) for name, end in zip(ends, bounds, strict=True)}
    return {
        "ratio": None if centre is None else math.exp(centre),
        **ends,
        "is_outside": None if reading is None else reading.outside,
    }


def _shown(line: dict[str, Any], seconds: str, base: str) -> dict[str, str]:
    return {
        "n": shown_count(line["n"], line["expected"]),
        "in the paper": line["source"],
        "published s": _number(line["published_seconds"]),
        "ours s": seconds,
        f"published relative to {base}": _number(line["published_ratio"]),
        f"ours relative to {base}": _number(line["ratio"]) + _ends(line["ratio_low"], line["ratio_high"], " ({})"),
        "one split x": _ends(line["one_split_low"], line["one_split_high"], "{}"),
        "outside": OUTSIDE if line["is_outside"] else "",
    }


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2f}"


def _ends(low: float | None, high: float | None, form: str) -> str:
    return "" if low is None or high is None else form.format(f"{_number(low)} to {_number(high)}")


def _notes(averages: Aggregate, base: str) -> Iterator[str]:
    yield (
        f"n: repetitions of {averages.group.units} with a time of the method and of what it is divided by; seconds:"
        " mean ± sample standard deviation."
    )
    yield (
        "The paper's seconds are those of another machine (an RTX 3090, 10 processes at once): compare ratios, not"
        " seconds. Its times contain no partition, as ours."
    )
    yield (
        f"relative to {base}: published, the quotient of two printed means; ours, the geometric mean of the ratios"
        " within repetitions, with its 95 % interval (plain t on logarithms). one split: where the ratio on one further"
        " split is expected with 95 %. outside: x where the published ratio lies outside that."
    )
    yield from request_note(averages)
    yield from origin_notes(averages, has_views=False)
    yield from time_notes(averages, averages.data, (UNLEARN,))
    yield from averages.notes
    if base == WHOLE:
        yield from (note for note in averages.time_notes if not note.startswith("No ratio"))
    else:
        yield from averages.time_notes


def f1_and_time_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build both tables of a group."""
    return [*f1_tables(name, averages), *time_tables(name, averages)]


time = by_group(time_tables)
f1_and_time = by_group(f1_and_time_tables)
