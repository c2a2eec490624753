"""What the records and trials of a results folder say, as the tables of pages ask for it."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pandas as pd

from unlearnbench.report.frame.frame import frame_of_runs, read_results
from unlearnbench.report.frame.plain_rows import plain_rows
from unlearnbench.report.tables.audits import frame_of_audits
from unlearnbench.report.tables.index import build_tables

MODEL, PROTOCOL = "gcn", "www24"
LARGE, SMALL = "5 % of nodes", "0.5 % of nodes"
REQUESTS, REPETITIONS = 5, 10
DATASETS = {"cora": "Cora", "citeseer": "CiteSeer"}
PRESETS = ("", "repaired")
"""None, and that which is used unless another is named."""

Row = Mapping[str, Any]
Rows = Mapping[tuple[str, str], Row]
"""Rows of a table by dataset and method."""


class Evidence:
    """Runs, audits and trials of a results folder."""

    def __init__(self, results: Path) -> None:
        read = read_results(results)
        self.runs, self.audits = frame_of_runs(results, *read), frame_of_audits(results, *read)
        self.trials = pd.read_csv(results / "tuning" / "trials.csv")

    def built(self, table: str, frame: pd.DataFrame) -> list[Row]:
        """Return the rows of a table of `unlearnbench report`, made of some of the runs."""
        return [row for one in build_tables(frame, table) for row in plain_rows(one.data)]

    def rows(self, table: str, forget: str, protocol: str = PROTOCOL) -> Rows:
        """Return the rows of a table with GCN, for requests of one size."""
        runs, audits = (
            frame[(frame["forget"] == forget) & (frame["model"] == MODEL) & (frame["protocol"] == protocol)]
            for frame in (self.runs, self.audits)
        )
        rows: dict[tuple[str, str], Row] = {}
        for one in build_tables(audits if table == "distances" else runs, table, audits=audits):
            for row in plain_rows(one.data):
                place = row["dataset"], method_of(row)
                assert place not in rows, f"two rows for {place}"
                rows[place] = row
        return rows


def method_of(row: Row) -> str:
    """Return the name of a row's method; that of the preset which is used unless another is named has none."""
    return str(row["method"]).replace(" (repaired)", "")
