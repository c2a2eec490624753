"""The records behind each row of the leaderboard."""

from __future__ import annotations

from collections import defaultdict
from operator import itemgetter
from typing import Any
from urllib.parse import quote

import pandas as pd

from unlearnbench.records.files import safe_name
from unlearnbench.records.record import FAILURES
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import UNIT
from unlearnbench.report.frame.timed import quiet_records

RECORD_COLUMNS = ("path", "status", "seed", "repetition", *VIEWS, "seconds", "quiet", "score", "time", "started")
"""What `record_rows` holds of each record."""


def short(value: Any, digits: int = 6) -> float | None:
    """Round to significant digits; None for what is missing."""
    return None if value is None or pd.isna(value) else float(f"{float(value):.{digits}g}")


def record_rows(averages: Aggregate) -> dict[str, list[list[Any]]]:
    """Map each row of a group to its records, failed ones too, in the order of `RECORD_COLUMNS`.

    `path` leads from the results folder to the file; `score` and `time`: whether the means of scores and of
    times are made of it.
    """
    timed = rows_by(averages.timed, "row", ["machine", "key", "exclusive"])
    clocked = {(one["machine"], one["key"]) for records in timed.values() for one in quiet_records(records)}
    ok = averages.chosen["status"] == "ok"
    scored = set(averages.chosen.loc[ok, ["machine", "key"]].itertuples(index=False, name=None))
    listed: defaultdict[str, dict[tuple[Any, ...], list[Any]]] = defaultdict(dict)
    names = ["row", *UNIT, "machine", "key", "status", "error_type", "dataset", "method_name"]
    names += ["view", "unlearn_seconds", "exclusive", "started"]
    metric = averages.metric if averages.metric in averages.group.frame else ""
    rows = plain_rows(averages.group.frame, [*names, metric] if metric else names)
    for one in sorted(rows, key=itemgetter(*names[:6])):
        failed, place = one["status"] in FAILURES, (one["machine"], one["key"])
        records, record = listed[one["row"]], (*place, one["status"])
        if record not in records:
            status = f"{one['status']}: {one['error_type']}" if one["error_type"] else one["status"]
            records[record] = [
                *(path_of(one, one["method_name"]), status, one["seed"], one["repetition"], *(None for _ in VIEWS)),
                short(one["unlearn_seconds"]),
                None if pd.isna(one["exclusive"]) else int(one["exclusive"]),
                *(int(not failed and place in some) for some in (scored, clocked)),
                one["started"][:16],
            ]
        if not failed and metric:
            records[record][RECORD_COLUMNS.index(one["view"])] = short(one[metric])
    return {row: list(records.values()) for row, records in listed.items()}


def path_of(row: Row, method: str) -> str:
    """Return where a record lies below the results folder, as the store writes it and as a link needs it."""
    folders = map(safe_name, (row["machine"], row["dataset"], method))
    file = f"{row['key']}{'.error' if row['status'] in FAILURES else ''}.json"
    return quote("/".join(("records", *folders, file)))
