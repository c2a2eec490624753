"""What stands on the page, gathered from the frames of records and audits."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pandas as pd

from unlearnbench.report.figures.colours import Looks, find_looks
from unlearnbench.report.figures.series import PHASES, Heat, heats, lines, panel_facets, points, stacks, tags
from unlearnbench.report.frame.aggregate import Aggregate, aggregate_headlines
from unlearnbench.report.frame.aliases import alias_notes
from unlearnbench.report.frame.frame import VIEWS, canonical
from unlearnbench.report.frame.record_groups import distinguish, group_records
from unlearnbench.report.page.evidence import build_evidence
from unlearnbench.report.page.rows import RECORD_COLUMNS, build_board, page_heads, record_rows, short
from unlearnbench.report.tables.audits import GATE, GATED, PLACE, audit_tables
from unlearnbench.report.tables.cost import Curve, curve_table, find_curves, shown_even
from unlearnbench.report.tables.index import command_note
from unlearnbench.report.tables.table import Table

PLACED = ("dataset", "model", "protocol")


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
    looks = find_looks()
    aggregates = [aggregate_headlines(group) for group in group_records(frame)]
    heads = page_heads(aggregates)
    protocols = _protocols(aggregates)
    board, groups, matrices = [], [], []
    for number, one in enumerate(aggregates):
        rows, notes = build_board(number, one, looks, heads)
        place = {name: one.group.facets[name] for name in ("dataset", "model")} | {"protocol": protocols[number]}
        sources = record_rows(one)
        board += [{**place, **row, "sources": sources[row["row"]]} for row in rows]
        groups.append({**place, "name": one.group.name, "notes": notes, **_drawn(one, looks)})
        matrices += [{**place, **_matrix(heat)} for heat in heats(one)]
    curves = [one for one in find_curves(frame) if lines(one)[0]]
    names = {facet: sorted({group[facet] for group in groups}) for facet in PLACED}
    return {
        "source": source.name,
        "heads": heads,
        "rows": board,
        "filters": names,
        "first": _first(board),
        "groups": groups,
        "matrices": matrices,
        "curves": [{"dataset": one.dataset, "model": one.model, "table": curve_table(one)} for one in curves],
        "audits": [] if audits is None else _audits(audits, source.name),
        "forgetting": (evidence := build_evidence(aggregates, audits, source.name)),
        "counts": {"records": frame[["machine", "key", "status"]].drop_duplicates().shape[0], "groups": len(groups)}
        | {"audits": 0 if audits is None else audits[["machine", "key"]].drop_duplicates().shape[0]},
        "provenance": _provenance(frame, source),
        "problems": list(frame.attrs.get("problems", [])) + ([] if audits is None else audits.attrs["problems"]),
        "drawn": {
            "heads": [{"name": h.name, "title": h.title, "view": h.view, "first": h.best_first} for h in heads],
            "values": [row["values"] for row in board],
            "counted": [head.counted for head in heads],
            "columns": RECORD_COLUMNS,
            "sources": [row["sources"] for row in board],
            "base": source.base,
            "groups": [
                {key: group[key] for key in ("name", *PLACED, "points", "lacking", "stacks")} for group in groups
            ],
            "of": [row["group"] for row in board],
            "curves": [_curve(one, looks) for one in curves],
            "evidence": [place["rows"] for place in evidence],
        },
    }


def _protocols(groups: Sequence[Aggregate]) -> list[str]:
    """Name what sets groups of one dataset and model apart: protocol and request, and more where that is not enough."""
    configs = [canonical(panel_facets(one)) for one in groups]
    plain = [f"{one.group.facets['protocol']}, {one.group.facets['forget']}" for one in groups]
    names = distinguish(dict(zip(configs, plain, strict=True)))
    return [names[config] for config in configs]


def _first(board: Sequence[Mapping[str, Any]]) -> dict[str, str]:
    """Choose what the page shows first: the group with the most records."""
    sizes: Counter[Any] = Counter()
    for row in board:
        sizes[tuple(row[facet] for facet in PLACED)] += len(row["sources"])
    return dict(zip(PLACED, min(sizes, key=lambda place: (-sizes[place], place)), strict=True))


def _drawn(averages: Aggregate, looks: Looks) -> dict[str, Any]:
    """Return what figures of a group show; colours and shapes stand with each row."""
    by_view, lacking = {}, {}
    for view in VIEWS:
        drawn, lacking[view] = points(averages, view)
        by_view[view] = [
            _look(looks, one.row, one.method)
            | {"x": [_short(one.seconds), _short(one.seconds_sd)], "y": [_short(one.score), _short(one.score_sd)]}
            for one in drawn
        ]
    layers = {
        moment: [
            _look(looks, one.row, one.method)
            | {"whole": _short(one.total), "parts": {name: _short(value) for name, value in one.parts.items()}}
            for one in stacks(averages, moment)
        ]
        for moment in PHASES
    }
    return {"points": by_view, "lacking": lacking, "stacks": layers}


def _curve(curve: Curve, looks: Looks) -> dict[str, Any]:
    names = dict(zip(curve.part["row"], curve.part["method_name"], strict=True))
    drawn, lacking = lines(curve)
    tagged = tags((row, names[row]) for row in drawn)
    shown = []
    for row, part in drawn.items():
        line = [[int(one["deletions"]), _short(one["seconds"]), _short(one["sd"])] for _, one in part.iterrows()]
        even = curve.even.get(row)
        text = shown_even(even) if row in curve.even else ""
        shown.append({**_look(looks, row, names[row], tagged), "line": line, "even": _short(even or 0.0), "said": text})
    return {"name": curve.name, "dataset": curve.dataset, "model": curve.model, "lines": shown, "lacking": lacking}


def _matrix(heat: Heat) -> dict[str, Any]:
    """Return a matrix with a step of the heat for each cell."""
    views: dict[str, list[dict[str, Any]]] = {view: [] for view in VIEWS}
    for at, (_, line) in enumerate(heat.table.shown.iterrows()):
        view, partitioner = line["view"], line["partitioner"]
        cells = [
            {"text": line[one], "step": heat.step(view, partitioner, one), "marked": (at, one) in heat.table.marked}
            for one in heat.aggregators
        ]
        views[view].append({"partitioner": partitioner, "cells": cells})
    low, high = heat.limits
    return {"table": heat.table, "aggregators": heat.aggregators, "views": views, "low": low, "high": high}


def _audits(audits: pd.DataFrame, source: str) -> list[dict[str, Any]]:
    """Return for each place its verdicts, what the gate let through, and the scores."""
    places, command = [], command_note(source, "audits")
    for _, part in audits.groupby(list(PLACE), sort=False):
        verdicts, *scores = [
            replace(table, notes=(*table.notes, *alias_notes(table.shown, part), command))
            for table in audit_tables(part)
        ]
        names = part["audit"].str.partition(" ")[0]
        gate = part[(names == GATE) & (part["measure"] != "")]
        places.append(
            {
                **{facet: str(part.iloc[0][facet]) for facet in (*PLACED, "forget")},
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


def _notes(rows: pd.DataFrame) -> str:
    return "; ".join(dict.fromkeys(note.rstrip(".") for note in rows["note"] if note))


def _provenance(frame: pd.DataFrame, source: PageSource) -> dict[str, Any]:
    cells = frame.drop_duplicates(["machine", "key", "status"])
    packages = cells["packages"].value_counts()
    started = sorted(value for value in cells["started"] if value)
    return {
        "machines": {name: (source.machines or {}).get(name, {}) for name in sorted(set(cells["machine"]))},
        "started": (started[0], started[-1]) if started else ("", ""),
        "commits": sorted((str(name or "unknown"), int(count)) for name, count in cells["git"].value_counts().items()),
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
