"""The leaderboard of a group: accuracy, cost and forgetting of each method side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from unlearnbench.errors import DataError
from unlearnbench.report.figures.colours import Looks
from unlearnbench.report.figures.series import method_names
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.aliases import alias_notes
from unlearnbench.report.frame.commands import run_command
from unlearnbench.report.frame.contrasts import overlap, with_claim
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.metrics import short_name, unit
from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import UNIT, first_of_each, reference_row, retrains, units_by
from unlearnbench.report.frame.timed import Pair, pairs_of, times_of
from unlearnbench.report.page.forgetting import Forgetting
from unlearnbench.report.page.records import path_of, record_rows, short
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.columns import BUSY_MARK, SUMMARY
from unlearnbench.report.tables.comparison import noop_notes
from unlearnbench.report.tables.evidence import EVIDENCE, Cell, component_name
from unlearnbench.statistics.averages import geometric_mean

REFERENCE, CONTROL, METHOD = "reference", "control", "method"
TITLES = {
    "distance": "distance",
    "membership_tpr": "recognised",
    "membership_epsilon": "ε at least",
    "relearning": "relearning",
    "leakage_auc": "partition leak",
    "leakage_tpr": "leak TPR",
}
"""Short heads of columns of audits; what a column says in full stands behind it."""
COUNTED = ("n", "expected", "diverged", "refused", "failed")
"""What a row says of its repetitions."""
MINUS = "\N{MINUS SIGN}"
TIME = "unlearning time over Retrain's, geometric mean within repetitions; below it the seconds."
SCORE = "{metric} on the test nodes after the request, mean ± sample standard deviation; view {view}: {what}."
VIEW_SAYS = {
    "full": "messages pass over all retained training nodes",
    "shard": "each member passes messages over its own shard and the nodes asked for",
}


@dataclass(frozen=True)
class Head:
    """A column of numbers.

    Args:
        name: What sorts by it.
        title: Its head.
        meaning: What a cell says, one sentence.
        best_first: 1 if small is good, -1 if large is.
        kind: `score`, `time`, `audit` or `more`, which is shown on request.
        view: The view of a score.
        audit: The audit that fills it.
        source: The column of `SUMMARY`, or the name of a column of `EVIDENCE`.
        value: The column of the raw numbers of `SUMMARY`.
    """

    name: str
    title: str
    meaning: str
    best_first: int
    kind: str
    view: str = ""
    audit: str = ""
    source: str = ""
    value: str = ""


def heads_of(averages: Aggregate, forgetting: Forgetting) -> tuple[Head, ...]:
    """Return the columns of a group; one of an audit that nothing fills is left out."""
    return tuple(_heads(averages, forgetting))


def _heads(averages: Aggregate, forgetting: Forgetting) -> Iterator[Head]:
    for metric in averages.shown_metrics:
        for view in reversed(VIEWS):
            text = f"{short_name(metric)} {view}{unit(metric)}"
            name = f"f1-{view}" if metric == averages.metric else f"{metric}-{view}"
            meaning = SCORE.format(metric=short_name(metric), view=view, what=VIEW_SAYS[view])
            yield Head(name, text, meaning, -1, "score", view, source=text, value=f"{metric}_{view}_mean")
    ratio = {"source": "relative to Retrain", "value": "times_retrain"}
    yield Head("ratio", "time relative to Retrain", TIME, 1, "time", **ratio)
    for at, one in enumerate(EVIDENCE):
        if one.name in TITLES and any(cells[at].text for cells in forgetting.rows.values()):
            sign = -1 if one.name == "relearning" else 1
            yield Head(one.name, TITLES[one.name], one.meaning, sign, "audit", audit=one.audit, source=one.name)
    yield from MORE


MORE = (
    Head("seconds", "unlearn s", "seconds of unlearning", 1, "more", source="unlearn s", value="unlearn_seconds_mean"),
    Head("hit", "shards hit", "shards that lost a node, mean", 1, "more", source="shards hit", value="shards_hit"),
    Head("peak", "peak MiB", "mean of the peaks of memory", 1, "more", source="peak MiB", value="peak_mib"),
    Head("n", "n", "repetitions that ended well, of those that any method has", -1, "more", source="n", value="n"),
)
"""Columns that are shown on request."""


def build_board(averages: Aggregate, looks: Looks, forgetting: Forgetting) -> dict[str, Any]:
    """Return the heads, rows and notes of a group; texts are those of the tables."""
    summary = SUMMARY.build("summary", averages)
    heads = heads_of(averages, forgetting)
    names, sources = method_names(averages), record_rows(averages)
    of_rows = rows_by(averages.group.frame, "row", ["label", "method_config", "claim"])
    first = {row: records[0] for row, records in of_rows.items()}
    controls = with_claim(averages, "none")
    elsewhere = _timed_elsewhere(averages)
    units = units_by(averages.group.frame[["method_config", *UNIT]].itertuples(index=False, name=None))
    wanted = dict.fromkeys(("exactness", *(head.audit for head in heads if head.audit)))
    audited = {str(k): str(v) for k, v in forgetting.audits.iloc[0].items()} if forgetting.rows else {}
    rows = []
    read = [name for name in (*COUNTED, *(head.value for head in heads)) if name in summary.data]
    every_row = zip(averages.group.rows, plain_rows(summary.shown), plain_rows(summary.data, read), strict=True)
    for row, shown, raw in every_row:
        config = str(first[row]["method_config"])
        kind = REFERENCE if retrains(config) else CONTROL if row in controls else METHOD
        cells = dict(zip((one.name for one in EVIDENCE), forgetting.cells(config), strict=True))
        claim = forgetting.claims.get(config) or str(first[row]["claim"])
        rows.append(
            {
                "row": row,
                "label": str(shown["method"]),
                "method": names[row],
                "kind": kind,
                "claim": claim,
                "family": "control" if kind == CONTROL else claim.partition(" (")[0] or "no claim",
                "complete": int(raw["n"]) == int(raw["expected"]),
                "note": _note(raw),
                "bad": _bad(raw),
                "forgets": forgetting.state(config),
                "verdict": (verdict := forgetting.verdicts.get(config, "").partition(" (")[0]),
                "claimed": _claimed(claim, verdict),
                "tried": config in forgetting.rows,
                "colour": looks.of(names[row]).colour,
                "shape": looks.of(names[row]).shape,
                "cells": [_cell(head, shown, raw, cells, elsewhere.get(row)) for head in heads],
                "sources": sources[row],
                "commands": {
                    "": run_command(averages.group.facets, label := str(first[row]["label"]), units[config]),
                    **{
                        audit: run_command(audited, label, forgetting.units[config][audit], audit)
                        for audit in wanted
                        if audit in forgetting.units.get(config, {})
                    },
                },
            }
        )
    _mark_defaults(rows, {row: one["label"] for row, one in first.items()})
    notes = [*_notes(averages, summary.notes), *alias_notes(summary.shown, averages.group.frame)]
    return {"heads": heads, "rows": rows, "notes": notes, "ratio": _overlap(averages)}


def _timed_elsewhere(averages: Aggregate) -> dict[str, tuple[str, list[Pair]]]:
    """Map rows without a time to another machine that ran them and Retrain, and the pairs of times there."""
    reference, _ = reference_row(averages.group)
    frame = averages.group.frame
    lacking = set(averages.data.loc[averages.data["times_retrain"].isna(), "method"])
    if not lacking:
        return {}
    serial = frame[(frame["status"] == "ok") & (frame["backend"] == "serial") & (frame["machine"] != averages.machine)]
    serial = first_of_each(serial, ["row", *UNIT, "machine"])
    found: dict[str, tuple[str, list[Pair]]] = {}
    for machine, there in serial.groupby("machine", sort=True):
        of_rows = rows_by(there, "row", [*UNIT, "unlearn_seconds", "exclusive"])
        base = times_of(of_rows.get(reference, ()))
        for row in lacking & of_rows.keys():
            pairs = pairs_of(times_of(of_rows[row]), base)
            if len(pairs) > len(found.get(row, ("", []))[1]):
                found[row] = (str(machine), pairs)
    return found


def _ratio_elsewhere(machine: str, pairs: list[Pair]) -> dict[str, Any]:
    value = geometric_mean(pair.mine / pair.other for pair in pairs) or 0.0
    busy = "" if all(pair.quiet for pair in pairs) else BUSY_MARK
    seconds = formatting.seconds(sum(pair.mine for pair in pairs) / len(pairs), None)
    detail = f"Both timed on machine {machine}, not on that of the other rows."
    return {
        "text": formatting.ratio(value, None) + busy,
        "small": f"{seconds} s",
        "value": short(value),
        "detail": detail,
    }


def _cell(
    head: Head,
    shown: Row,
    raw: Row,
    cells: dict[str, Cell],
    elsewhere: tuple[str, list[Pair]] | None,
) -> dict[str, Any]:
    if head.kind == "audit":
        cell = cells[head.source]
        text, _, interval = cell.text.partition(" [")
        paths = [
            [path_of(one, component_name(one["method_config"])), one["status"], one["repetition"]]
            for one in cell.records
        ]
        detail = "; ".join(
            filter(
                None, (f"95 % interval {interval.rstrip(']').replace(', ', ' to ')}" if interval else "", _count(cell))
            )
        )
        return {
            "text": text.replace("-", MINUS),
            "small": "",
            "value": short(cell.value),
            "detail": detail,
            "records": paths,
        }
    if head.kind == "time" and elsewhere is not None:
        return _ratio_elsewhere(*elsewhere)
    value, _, spread = str(shown.get(head.source, "")).partition(" ± ")
    if head.kind == "score":
        return {"text": value, "small": f"± {spread}" if spread else "", "value": short(raw.get(head.value))}
    if head.name == "n":
        return {"text": value, "small": "", "value": int(raw["n"])}
    small = f"{str(shown['unlearn s']).partition(' ±')[0]} s" if head.kind == "time" and shown["unlearn s"] else ""
    small = f"± {spread}" if head.kind == "more" and spread else small
    return {"text": value, "small": small, "value": short(raw.get(head.value))}


def _count(cell: Cell) -> str:
    text = f"n = {cell.n}" if cell.n else ""
    return "; ".join(filter(None, (text, cell.state)))


def _claimed(claim: str, verdict: str) -> str:
    """Say what a method claims where its verdict does not say so already."""
    plain, _, why = claim.partition(" (")
    reason = {"ids": "drawn without looking at the data", "content": "learned from the data"}.get(why.rstrip(")"), "")
    if plain == verdict:
        return f"partition {reason}" if reason else why.rstrip(")")
    return f"claims {claim.replace('-', ' ')}" if claim else ""


def _note(raw: Row) -> str:
    """Say how many repetitions a row has where that is not all; those that were never asked for are no failure."""
    return "" if raw["n"] == raw["expected"] else f"{int(raw['n'])} of {int(raw['expected'])} repetitions"


def _bad(raw: Row) -> str:
    return ", ".join(f"{name} {int(raw[name])}" for name in ("diverged", "refused", "failed") if raw[name])


def _mark_defaults(rows: list[dict[str, Any]], labels: Mapping[Any, Any]) -> None:
    """Mark the rows without settings of their own and those that an audit looked at; all, if no method would stay."""
    for row in rows:
        row["default"] = "[" not in labels[row["row"]] or row["tried"]
    if not any(row["default"] for row in rows if row["kind"] == METHOD):
        for row in rows:
            row["default"] = True


def _notes(averages: Aggregate, notes: Sequence[str]) -> list[str]:
    try:
        ratio, formula = overlap(averages)
    except DataError as error:
        return [*notes, f"Nothing is marked: {error.message}"]
    return list(dict.fromkeys([*notes, f"Differences: {formula}.", *noop_notes(averages, ratio)]))


def _overlap(averages: Aggregate) -> float | None:
    """Return n_test/n_train; None where the split is unknown and nothing can be compared."""
    try:
        return overlap(averages)[0]
    except DataError:
        return None
