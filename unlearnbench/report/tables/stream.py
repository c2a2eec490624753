"""Streams of requests: F1, time, shards and memory after each of them."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.plain_rows import Row, rows_by
from unlearnbench.report.frame.record_groups import UNIT, known, reference_row
from unlearnbench.report.frame.stream import PEAKS, Step, postponed
from unlearnbench.report.frame.timed import quiet_records
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, with_facets
from unlearnbench.statistics.averages import geometric_mean, mean, sample_sd

Streams = Sequence[Sequence[Step]]


def every(requests: int) -> int:
    """Return how many requests wait for each other where Retrain serves several at once: 5, in short streams 2."""
    return 5 if requests >= 10 else 2


def stream_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build the table of a group, a row for each method and moment; none if its requests are no streams."""
    lines = list(_lines(averages))
    if not lines:
        return []
    data = pd.DataFrame(lines)
    shown = pd.DataFrame([_shown(line) for line in lines])
    shown = shown[[head for head in shown if (shown[head] != "").any()]]
    caption = f"Streams: {averages.group.name}; times and memory of machine {averages.machine}."
    facets = with_facets(name, averages, data, time_machine=averages.machine)
    return [Table(name, caption, shown, facets, tuple(_notes(averages, lines)))]


def _lines(averages: Aggregate) -> Iterator[dict[str, Any]]:
    chosen = averages.chosen[(averages.chosen["stream"] != "") & (averages.chosen["status"] == "ok")]
    timed = rows_by(averages.timed, "row", [*UNIT, "stream", "exclusive"])
    reference, _ = reference_row(averages.group)
    base = {unit: _cumulative(steps) for unit, steps in _by_unit(timed.get(reference, ())).items()}
    for row in averages.group.rows:
        of_row = chosen[chosen["row"] == row]
        cells = rows_by(of_row, "view", [*UNIT, "stream"])
        scored = {view: list(_by_unit(cells.get(view, ())).values()) for view in VIEWS}
        if not any(scored.values()):
            continue
        clocked = _by_unit(quiet_records(timed.get(row, ())))
        method, units = str(of_row["method_name"].iloc[0]), averages.group.units
        yield from _means(row, method, units, scored, clocked, base)
        if row == reference:
            gap = every(len(next(iter(scored.values()))[0]) - 1)
            late = {view: [postponed(steps, gap) for steps in streams] for view, streams in scored.items()}
            waiting = {unit: postponed(steps, gap) for unit, steps in clocked.items()}
            yield from _means(f"{row} every {gap} requests", method, units, late, waiting, base)


def _by_unit(records: Sequence[Row]) -> dict[tuple[int, int], list[Step]]:
    return {(one["seed"], one["repetition"]): json.loads(one["stream"]) for one in records if one["stream"]}


def _cumulative(steps: Sequence[Step]) -> list[float | None]:
    """Sum the seconds of requests; None from the first unknown one on."""
    sums: list[float | None] = [0.0]
    for step in steps[1:]:
        sums.append(None if sums[-1] is None or step["seconds"] is None else sums[-1] + step["seconds"])
    return sums


def _means(
    row: str,
    method: str,
    units: int,
    scored: dict[str, list[list[Step]]],
    clocked: dict[tuple[int, int], list[Step]],
    base: dict[tuple[int, int], list[float | None]],
) -> Iterator[dict[str, Any]]:
    streams = next(iter(scored.values()))
    times, sums = list(clocked.values()), {unit: _cumulative(steps) for unit, steps in clocked.items()}
    for number in range(len(streams[0])):
        f1 = {view: _of(of_view, number, "f1") for view, of_view in scored.items()}
        seconds = _of(times, number, "seconds")
        pairs = [(sums[unit][number], base[unit][number]) for unit in sums.keys() & base.keys()]
        ratios = [mine / other for mine, other in pairs if mine is not None and other]
        sizes = [step["sizes"] for step in (one[number] for one in streams) if step["sizes"]]
        yield {
            "method": row,
            "method_name": method,
            "request": number,
            "forgotten": mean(_of(streams, number, "forgotten")),
            "n": len(streams),
            "expected": units,
            **{f"f1_micro_{view}_mean": mean(values) for view, values in f1.items()},
            **{f"f1_micro_{view}_sd": sample_sd(values) for view, values in f1.items()},
            "time_n": len(seconds),
            "seconds_mean": mean(seconds),
            "seconds_sd": sample_sd(seconds),
            "cumulative_seconds_mean": mean(known(one[number] for one in sums.values())),
            "times_retrain": geometric_mean(ratios) if all(ratios) else 0.0,
            "shards_hit": mean(_of(streams, number, "hit")),
            "smallest_shard": mean(float(min(one)) for one in sizes),
            "largest_shard": mean(float(max(one)) for one in sizes),
            "empty_shards": mean(float(one.count(0)) for one in sizes),
            **{name: mean(_of(times, number, name)) for name in PEAKS},
        }


def _of(streams: Streams, number: int, name: str) -> list[float]:
    return known(steps[number][name] for steps in streams)


def _shown(line: dict[str, Any]) -> dict[str, str]:
    def text(column: str, write: Any, spread: str = "") -> str:
        value = line[column]
        return "" if value is None else "0" if value == 0 else write(value, line[spread] if spread else None)

    peak = "peak_gpu_mib" if line["peak_gpu_mib"] is not None else "peak_rss_mib"
    return {
        "method": line["method"],
        "forgotten": text("forgotten", formatting.whole),
        "n": shown_count(line["n"], line["expected"]),
        **{f"F1 {view} %": text(f"f1_micro_{view}_mean", formatting.percent, f"f1_micro_{view}_sd") for view in VIEWS},
        "s": text("seconds_mean", formatting.seconds, "seconds_sd"),
        "cumulative s": text("cumulative_seconds_mean", formatting.seconds) if line["request"] else "",
        "relative to Retrain": text("times_retrain", formatting.ratio),
        "shards hit": text("shards_hit", formatting.tenths),
        "smallest shard": text("smallest_shard", formatting.tenths),
        "largest shard": text("largest_shard", formatting.tenths),
        "retired": text("empty_shards", formatting.tenths),
        "peak MiB": text(peak, formatting.whole),
    }


def _notes(averages: Aggregate, lines: Sequence[dict[str, Any]]) -> Iterator[str]:
    yield (
        "forgotten: nodes or edges forgotten by then; 0 is before the first request. Mean ± sample standard deviation"
        " over n repetitions with status ok; micro-F1 on the test nodes."
    )
    yield (
        "s: of this request, from the request to the first answers; cumulative s: of all requests so far; relative to"
        " Retrain: cumulative, over Retrain's, which trains anew for each request, geometric mean within repetitions."
    )
    if any(line["smallest_shard"] is not None for line in lines):
        yield "smallest, largest shard: in training nodes; retired: shards without any, whose members are gone."
    if any(" every " in line["method"] for line in lines):
        yield (
            "every m requests: Retrain when m requests have come, and until then the old model, which still holds what"
            " was asked to be forgotten; computed from Retrain's own records."
        )
    yield from origin_notes(averages, has_views=True)
    yield from details(averages.notes)
    yield from details(averages.time_notes)
