"""What stands on the page, gathered from the frames of records and audits."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.report.figures.colours import Looks, find_looks
from unlearnbench.report.figures.series import PHASES, Heat, heats, lines, panel_facets, stacks, tags
from unlearnbench.report.frame.aggregate import Aggregate, aggregate_headlines
from unlearnbench.report.frame.aliases import alias_notes
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.plain_rows import plain_rows
from unlearnbench.report.frame.record_groups import distinguish, first_of_each, group_records
from unlearnbench.report.page.board import build_board
from unlearnbench.report.page.forgetting import WORDS, ForgettingIndex
from unlearnbench.report.page.records import RECORD_COLUMNS, short
from unlearnbench.report.tables.audits import GATE, GATED, PLACE, audit_tables
from unlearnbench.report.tables.cost import Curve, curve_table, find_curves, shown_even
from unlearnbench.report.tables.evidence import latest_audits
from unlearnbench.report.tables.index import command_note
from unlearnbench.report.tables.table import Table
from unlearnbench.statistics.ranks import NEMENYI

PLACED = ("dataset", "model", "request")
HEAD_READ = ("name", "title", "meaning", "best_first", "kind", "view", "audit")
ROW_READ = (
    *("row", "label", "method", "kind", "claim", "family", "complete", "note", "bad", "forgets", "verdict", "default"),
    *("colour", "shape", "sources", "commands"),
)
VERDICTS = {
    "": "not audited",
    "none": "nothing forgotten",
    "partial": "less than half way",
    "exact-given-partition": "exact given its partition",
}
"""Verdicts in other words than the audits' own."""
CELL_READ = ("value", "text", "small", "detail", "records")
"""What scripts read of a head, a row and a cell."""


@dataclass(frozen=True, eq=False)
class PageSource:
    """The results folder as the user wrote it, and what is known of its machines.

    `base` leads from the page to the results folder, with `/` at its end; None: records are named, not linked.
    """

    name: str = "results"
    base: str | None = None
    machines: Mapping[str, Mapping[str, Any]] | None = None


def build_content(frame: pd.DataFrame, audits: pd.DataFrame | None, source: PageSource) -> dict[str, Any]:
    """Gather the names that the template knows; `drawn` is what its scripts read."""
    looks, index = find_looks(), ForgettingIndex(audits)
    aggregates = [aggregate_headlines(group) for group in group_records(frame)]
    requests = _requests(aggregates)
    places, matrices = [], []
    for number, one in enumerate(aggregates):
        forgetting = index.of_group(one.group.facets)
        facets = {name: one.group.facets[name] for name in ("dataset", "model")} | {"request": requests[number]}
        audited = forgetting.forget if forgetting.rows else ""
        board = build_board(one, looks, forgetting)
        places.append({**facets, "name": one.group.name, "audited": audited, **board, "stacks": _stacks(one)})
        matrices += [{**facets, **_matrix(heat)} for heat in heats(one)]
    curves = [one for one in find_curves(frame) if lines(one)[0]]
    return {
        "source": source.name,
        "places": places,
        "filters": {facet: sorted({place[facet] for place in places}) for facet in PLACED},
        "first": _first(places),
        "matrices": matrices,
        "curves": [{"dataset": one.dataset, "model": one.model, "table": curve_table(one)} for one in curves],
        "audits": [] if audits is None else _audits(audits, source.name),
        "words": WORDS,
        "verdicts": VERDICTS,
        "counts": {
            "records": first_of_each(frame, ["machine", "key", "status"]).shape[0],
            "audits": 0 if audits is None else first_of_each(audits, ["machine", "key"]).shape[0],
            "methods": frame["method_name"].nunique(),
            "graphs": frame["dataset"].nunique(),
        },
        "provenance": _provenance(frame, source),
        "problems": list(frame.attrs.get("problems", []))
        + ([] if audits is None else audits.attrs.get("problems", [])),
        "drawn": {
            "columns": RECORD_COLUMNS,
            "base": source.base,
            "nemenyi": NEMENYI,
            "words": WORDS,
            "places": [_drawn_place(place) for place in places],
            "curves": [_curve(one, looks) for one in curves],
        },
    }


def _drawn_place(place: Mapping[str, Any]) -> dict[str, Any]:
    """Return what scripts read of a place."""
    heads = [{name: getattr(head, name) for name in HEAD_READ} for head in place["heads"]]
    rows = [
        {name: row[name] for name in ROW_READ}
        | {"cells": [[cell.get(name) for name in CELL_READ] for cell in row["cells"]]}
        for row in place["rows"]
    ]
    kept = ("name", *PLACED, "audited", "ratio", "stacks")
    return {name: place[name] for name in kept} | {"heads": heads, "rows": rows}


def _requests(groups: Sequence[Aggregate]) -> list[str]:
    """Name what sets groups of one dataset and model apart: protocol and request, and more where that is not enough."""
    configs = [canonical_json(panel_facets(one)) for one in groups]
    plain = [f"{one.group.facets['protocol']}, {one.group.facets['forget']}" for one in groups]
    names = distinguish(dict(zip(configs, plain, strict=True)))
    return [names[config] for config in configs]


def _first(places: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Choose what the page shows first: the place with the most records."""
    sizes = [(-sum(len(row["sources"]) for row in one["rows"]), *(one[facet] for facet in PLACED)) for one in places]
    return dict(zip(PLACED, min(sizes)[1:], strict=True))


def _stacks(averages: Aggregate) -> dict[str, list[list[Any]]]:
    """Return the bars of time per phase; colours stand with each row."""
    return {
        moment: [
            [one.row, _short(one.total), {name: _short(value) for name, value in one.parts.items() if value}]
            for one in stacks(averages, moment)
        ]
        for moment in PHASES
    }


def _curve(curve: Curve, looks: Looks) -> dict[str, Any]:
    names = dict(zip(curve.part["row"], curve.part["method_name"], strict=True))
    drawn, lacking = lines(curve)
    tagged = tags((row, names[row]) for row in drawn)
    shown = []
    for row, part in drawn.items():
        line = [[int(one["deletions"]), _short(one["seconds"]), _short(one["sd"])] for one in plain_rows(part)]
        even = curve.even.get(row)
        text = shown_even(even) if row in curve.even else ""
        shown.append(
            {**_look(looks, row, names[row], tagged), "line": line, "even": _short(even or 0.0), "break_even": text}
        )
    return {"name": curve.name, "dataset": curve.dataset, "model": curve.model, "lines": shown, "lacking": lacking}


def _matrix(heat: Heat) -> dict[str, Any]:
    """Return a matrix with a step of the heat for each cell."""
    lines: dict[str, list[dict[str, Any]]] = {view: [] for view in reversed(VIEWS)}
    for at, line in enumerate(plain_rows(heat.table.shown)):
        view, partitioner = line["view"], line["partitioner"]
        cells = [
            {"text": line[one], "step": heat.step(view, partitioner, one), "marked": (at, one) in heat.table.marked}
            for one in heat.aggregators
        ]
        lines[view].append({"partitioner": partitioner, "cells": cells})
    views = {}
    for view, of_view in lines.items():
        low, high = heat.limits(view)
        views[view] = {"lines": of_view, "low": f"{100 * low:.1f}", "high": f"{100 * high:.1f}"}
    return {"table": heat.table, "aggregators": heat.aggregators, "views": views}


def _audits(audits: pd.DataFrame, source: str) -> list[dict[str, Any]]:
    """Return for each place its verdicts, what the gate let through, and the scores."""
    places, command = [], command_note(source, "audits")
    for _, every in audits.groupby(list(PLACE), sort=False):
        part = _latest(every)
        verdicts, *scores = [
            replace(table, notes=(*table.notes, *alias_notes(table.shown, part), command))
            for table in audit_tables(part)
        ]
        names = part["audit"].str.partition(" ")[0]
        gate = part[(names == GATE) & (part["measure"] != "")]
        places.append(
            {
                **{facet: str(part.iloc[0][facet]) for facet in ("dataset", "model", "protocol", "forget")},
                "verdicts": verdicts,
                "scores": scores,
                "gate": [
                    {"measure": str(measure), "state": ", ".join(sorted(set(rows["state"]))), "note": _notes(rows)}
                    for measure, rows in gate.groupby("measure", sort=False)
                ],
                "lacks_gate": bool(names.isin(GATED).any()) and gate.empty,
            }
        )
    return places


def _latest(audits: pd.DataFrame) -> pd.DataFrame:
    """Keep of each audit of a method the records that count; names tell settings apart where several are left."""
    kept = latest_audits(audits)
    plain = kept["audit"].str.partition(" {")[0]
    shown = distinguish(dict(zip(kept["audit_config"], plain, strict=True)))
    return kept.assign(audit=kept["audit_config"].map(shown))


def _notes(rows: pd.DataFrame) -> str:
    return "; ".join(dict.fromkeys(note.rstrip(".") for note in rows["note"] if note))


def _provenance(frame: pd.DataFrame, source: PageSource) -> dict[str, Any]:
    cells = first_of_each(frame, ["machine", "key", "status"])
    packages = cells["packages"].value_counts()
    started = sorted(value for value in cells["started"] if value)
    return {
        "machines": {name: (source.machines or {}).get(name, {}) for name in sorted(set(cells["machine"]))},
        "started": (started[0], started[-1]) if started else ("", ""),
        "commits": sorted(
            (str(name or "not recorded"), int(count)) for name, count in cells["git"].value_counts().items()
        ),
        "packages": [(json.loads(str(text) or "{}"), int(count)) for text, count in packages.items()],
        "plugins": sorted({f"{k} {v}" for text in set(cells["plugins"]) for k, v in json.loads(text or "{}").items()}),
        "statuses": sorted((str(name), int(count)) for name, count in cells["status"].value_counts().items()),
        "datasets": sorted(set(zip(cells["dataset"], cells["dataset_sha256"], strict=True))),
    }


def table_rows(table: Table) -> list[list[tuple[str, bool]]]:
    """Return the cells of a table, each with whether it stands out."""
    columns = list(table.shown.columns)
    return [
        [(str(cell), (at, name) in table.marked) for name, cell in zip(columns, line, strict=True)]
        for at, line in enumerate(table.shown.itertuples(index=False, name=None))
    ]


def _look(looks: Looks, row: str, method: str, tagged: Mapping[str, str] | None = None) -> dict[str, Any]:
    one, tag = looks.of(method), (tagged or {}).get(row, "")
    return {"name": row, "colour": one.colour, "shape": one.shape} | ({"tag": tag} if tag else {})


def _short(value: float | None) -> float | None:
    return short(value, 5)
