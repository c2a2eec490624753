"""The records behind each number, short enough for thousands of them."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

import pandas as pd

from unlearnbench.records.files import safe_name
from unlearnbench.records.record import FAILURES
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.record_groups import UNIT
from unlearnbench.report.frame.timed import quiet_records, timed_records


def record_columns() -> list[str]:
    """Name what `record_rows` gives of each record."""
    return ["path", "status", "seed", "repetition", *VIEWS, "seconds", "quiet", "score", "time", "started"]


def record_rows(found: Aggregate) -> dict[str, list[list[Any]]]:
    """Map each row of a group to its records, failed ones too, in the order of `record_columns`.

    `path` leads from the results folder to the file; `score` and `time`: whether the means of F1 and of
    times are made of it.

    Args:
        found: The group.
    """
    chosen = found.chosen[found.chosen["status"] == "ok"]
    _, timed, _ = timed_records(found.group)
    timed = pd.concat([quiet_records(part) for _, part in timed.groupby("row")]) if len(timed) else timed
    scored, clocked = (set(zip(part["machine"], part["key"], strict=True)) for part in (chosen, timed))
    listed: dict[str, list[list[Any]]] = {}
    for (row, *_), views in found.group.frame.groupby(["row", *UNIT, "machine", "key", "status"], sort=True):
        first = views.iloc[0]
        by_view = dict(zip(views["view"], views["f1_micro"], strict=True))
        failed = first["status"] in FAILURES
        place = (first["machine"], first["key"])
        listed.setdefault(str(row), []).append(
            [
                _path(first),
                f"{first['status']}: {first['error_type']}" if first["error_type"] else str(first["status"]),
                int(first["seed"]),
                int(first["repetition"]),
                *(None if failed else _number(by_view.get(view)) for view in VIEWS),
                _number(first["unlearn_seconds"]),
                None if pd.isna(first["exclusive"]) else int(first["exclusive"]),
                int(not failed and place in scored),
                int(not failed and place in clocked),
                str(first["started"])[:16],
            ]
        )
    return listed


def _path(row: pd.Series[Any]) -> str:
    """Give where a record lies below the results folder, as the store writes it and as a link needs it."""
    folders = (safe_name(str(row[name])) for name in ("machine", "dataset", "method_name"))
    file = f"{row['key']}{'.error' if row['status'] in FAILURES else ''}.json"
    return quote("/".join(("records", *folders, file)))


def _number(value: Any) -> float | None:
    return None if value is None or pd.isna(value) else float(f"{float(value):.6g}")
