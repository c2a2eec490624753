"""How far predictions are from Retrain's, a method a row, a place of the graph a column: over all requests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import fmean
from typing import Any

import pandas as pd

from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import retrains
from unlearnbench.report.tables.audits import FACETS, NO_GATE, PLACE, place_name, provenance
from unlearnbench.report.tables.evidence import DISTANCE, Cell, audited, component_name, latest_rows
from unlearnbench.report.tables.formatting import hundredths
from unlearnbench.report.tables.mean_scores import OWN, counted
from unlearnbench.report.tables.notes import Note
from unlearnbench.report.tables.table import Table

NAME = "distances"
MEANING = (
    "Energy statistic of the Jensen-Shannon divergence between predictions after the request and those of the same"
    " pipeline trained without the data, relative to the untouched model: 0 is as close as another retraining, 1 as far"
    " as if nothing had been forgotten, negative closer than most retrainings."
)
EMPTY = (
    "Empty: no record. cannot tell: the untouched model is not told from Retrain there, so no distance says anything."
)
GATELESS = "`unlearnbench audit controls` was not run here: the distances stand on their own control alone."
INTERVAL = (
    "n: requests; a distance is the mean over them, divided by that of the untouched model. In brackets: 95 %"
    " intervals, which do not allow for splits that overlap; those of other places are in the CSV. In parentheses: how"
    " many requests give a number, if not all."
)


def distance_tables(frame: pd.DataFrame) -> Iterator[Table]:
    """Build, for each protocol, dataset, model and device, the table of what the audit `distance` measured."""
    measured = frame[frame["audit_config"].map(component_name) == DISTANCE.audit]
    for _, part in measured.groupby(list(PLACE), sort=False):
        yield _table(part)


def _table(part: pd.DataFrame) -> Table:
    places = _places(plain_rows(part, ["measure", "where"]))
    columns = [replace(DISTANCE, name=place, title=place, where=(f"{place}{OWN}",)) for place in places]
    by_method = rows_by(part, "method_config", part.columns)
    cells = {config: audited(columns, latest_rows(rows, DISTANCE.audit)) for config, rows in by_method.items()}
    order = sorted(cells, key=lambda config: _order(config, cells[config]))
    shown, data, first = [], [], part.iloc[0]
    for config in order:
        name = str(by_method[config][0]["method"])
        requests = len(cells[config][0].records)
        texts = [_text(cell, requests, place == places[0]) for place, cell in zip(places, cells[config], strict=True)]
        shown.append({"method": name, "n": str(requests)} | dict(zip(places, texts, strict=True)))
        line = {"table": NAME, **first[list(FACETS)], "method": name, "requests": requests}
        for place, cell in zip(places, cells[config], strict=True):
            line |= _raw(place, cell, by_method[config])
        data.append({**line, "method_config": config, **first[[one for one in PLACE if one not in FACETS]]})
    title = f"Distance from Retrain's predictions: {place_name(part)}."
    notes = tuple(_notes(part, places, [cell for row in cells.values() for cell in row]))
    return Table(NAME, title, pd.DataFrame(shown), pd.DataFrame(data), notes)


def _places(rows: Sequence[Row]) -> list[str]:
    """Return the places of the primary distance, from the forgotten nodes outwards."""
    own = (row["where"] for row in rows if row["measure"] == DISTANCE.measure and row["where"].endswith(OWN))
    return [where.removesuffix(OWN) for where in dict.fromkeys(own)]


def _order(config: str, cells: Sequence[Cell]) -> tuple[bool, bool, float, str]:
    """Retrain first, then from near to far on the forgotten nodes, then those without a number."""
    value = cells[0].value
    return not retrains(config), value is None, value or 0.0, config


def _text(cell: Cell, requests: int, with_interval: bool) -> str:
    if cell.value is None:
        return cell.text
    text = hundredths(cell.value)
    if with_interval and cell.low is not None and cell.high is not None:
        text += f" [{hundredths(cell.low)}, {hundredths(cell.high)}]"
    return text if cell.n == requests else f"{text} ({cell.n})"


def _raw(place: str, cell: Cell, rows: Sequence[Row]) -> dict[str, Any]:
    name = place.replace(" ", "_")
    keys = {record["key"] for record in cell.records}
    there = [row for row in rows if row["key"] in keys and _is_at(row, place) and not pd.isna(row["value"])]
    # Where a request gives a number, the distance in nats is of the same requests as the relative one.
    nats = [row["value"] for row in counted(there)]
    return {
        name: cell.value,
        **{f"{name}_{part}": getattr(cell, part) for part in ("low", "high", "n", "state")},
        f"{name}_nats": fmean(nats) if nats else None,
    }


def _is_at(row: Row, place: str) -> bool:
    return bool(row["measure"] == DISTANCE.measure and row["where"] == f"{place}{OWN}")


def _notes(part: pd.DataFrame, places: Sequence[str], cells: Sequence[Cell]) -> Iterator[str]:
    yield Note(MEANING, "0: as close as another retraining; 1: as far as the untouched model.")
    yield Note(EMPTY, "cannot tell: the untouched model is not told from Retrain there.")
    if any(NO_GATE in cell.state for cell in cells):
        yield Note(GATELESS)
    yield Note(INTERVAL, "In brackets: 95 % intervals over n requests. In parentheses: of how many, if not all.")
    yield f"1 is, in nats: {', '.join(_untouched(part, place) for place in places)}."
    yield Note(f"Audits: {provenance(part)}")


def _untouched(part: pd.DataFrame, place: str) -> str:
    rows = plain_rows(part, ["measure", "where", "state", "seed", "repetition", "noop"])
    there = [row for row in rows if _is_at(row, place) and not pd.isna(row["noop"])]
    requests = {(row["seed"], row["repetition"]): row["noop"] for row in counted(there)}
    return f"{place} {fmean(requests.values()):.2g}" if requests else f"{place} unknown"
