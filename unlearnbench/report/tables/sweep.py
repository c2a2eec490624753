"""F1, time and forgetting against how much is forgotten."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.plain_rows import plain_rows, rows_by
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.audits import PLACE
from unlearnbench.report.tables.columns import BUSY_MARK, RATIO, after
from unlearnbench.report.tables.cost import place_of
from unlearnbench.report.tables.evidence import DISTANCE, audited, latest_rows
from unlearnbench.report.tables.notes import Note
from unlearnbench.report.tables.source import TableSource
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, shown_names, with_facets


def sweeps(source: TableSource) -> Iterator[list[Aggregate]]:
    """Yield the groups that differ only in how much is forgotten, least first, where there are several."""
    places: dict[str, list[Aggregate]] = {}
    for one in source.scored_groups:
        places.setdefault(place_of(one.group.frame.iloc[0]), []).append(one)
    for groups in places.values():
        if len(groups) > 1:
            yield sorted(groups, key=lambda one: (forgotten(one), one.group.facets["forget"]))


def forgotten(averages: Aggregate) -> float:
    """Return how many nodes or edges are forgotten: the mean over repetitions."""
    return float(averages.group.frame["deletions"].mean())


def distances(audits: pd.DataFrame | None, averages: Aggregate) -> pd.Series[float]:
    """Return for each row of a group its distance on the forgotten nodes, over all requests, relative to noop."""
    if audits is None:
        return pd.Series(float("nan"), index=averages.data.index)
    same = (audits[list(PLACE)] == averages.group.frame.iloc[0][list(PLACE)]).all(axis=1)
    by_method = rows_by(audits[same], "method_config", audits.columns)
    effects = {c: audited([DISTANCE], latest_rows(rows, DISTANCE.audit))[0].value for c, rows in by_method.items()}
    return averages.data["method_config"].map(effects).astype("float64")


def place_name(groups: Sequence[Aggregate]) -> str:
    """Name what all groups of a sweep share: dataset, model and device."""
    first = groups[0].group.facets
    return f"{first['dataset']}, {first['model']} on {first['device']}"


def sweep_tables(source: TableSource) -> Iterator[Table]:
    """Build, for each dataset, model and device, the table of several requests."""
    for groups in sweeps(source):
        parts, raw = [], []
        for one in groups:
            count = formatting.whole(forgotten(one), None)
            amount = one.group.facets["forget"]
            data = one.data.assign(deletions=forgotten(one))
            data[DISTANCE.name] = distances(source.audits, one)
            columns = [*after(one.metric), RATIO]
            rows, shown = plain_rows(data), pd.DataFrame({"method": shown_names(one)})
            shown["forgotten"] = f"{count} ({amount.partition(' of ')[0]})" if "%" in amount else count
            shown["n"] = [shown_count(int(row["n"]), int(row["expected"])) for row in rows]
            for column in columns:
                shown[column.title] = [column.text(row) for row in rows]
            shown[DISTANCE.name] = [
                "" if pd.isna(value) else formatting.points(value / 100) for value in data[DISTANCE.name]
            ]
            parts.append(shown.assign(order=range(len(shown))))
            raw.append(with_facets(source.name, one, data.drop(columns=["gpu_reason", "rss_reason"])))
        table = pd.concat(parts).sort_values("order", kind="stable", ignore_index=True).drop(columns="order")
        notes = [
            "forgotten: nodes or edges of one request, and their share.",
            Note(
                "relative to Retrain: unlearning time over Retrain's, geometric mean of the ratios within repetitions.",
                "relative to Retrain: time over Retrain's; 0.5 is twice as fast.",
            ),
        ]
        if (table[DISTANCE.name] == "").all():
            table = table.drop(columns=DISTANCE.name)
            notes.append("Distances from Retrain: unlearnbench audit distance with the same --forget-ratio.")
        else:
            notes.append(
                "distance: from Retrain on the forgotten nodes; 1 as far as the untouched model, 0 as retrained."
            )
        if any(BUSY_MARK in text for text in table[RATIO.title]):
            notes.append(f"{BUSY_MARK.strip()} records that may have met a busy machine.")
        notes += origin_notes(*groups, has_views=True)
        caption = f"F1 and time against what is forgotten: {place_name(groups)}."
        yield Table(source.name, caption, table, pd.concat(raw), tuple(notes))
