"""The large tables of docs/findings.md, made from the records: none of their numbers is copied by hand.

python benchmarks/findings.py            writes the tables into the page
python benchmarks/findings.py --check    says which tables are not those of the records, and fails
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import page_tables
import pandas as pd

from unlearnbench.report.frame.frame import frame_of_runs, read_results
from unlearnbench.report.frame.plain_rows import plain_rows
from unlearnbench.report.tables.audits import frame_of_audits
from unlearnbench.report.tables.index import build_tables

DATASETS = {"cora": "Cora", "citeseer": "CiteSeer"}
LARGER = {"pubmed": "PubMed"}
MODEL, PROTOCOL, REQUESTS = "gcn", "www24", 5
REPETITIONS = 10
LARGE, SMALL = "5 % of nodes", "0.5 % of nodes"
EXACT = ("retrain", "sisa[partitioner=hash]", "tally", "sisa", "graphrevoker", "grapheraser", "guide")

Row = Mapping[str, Any]
Rows = Mapping[tuple[str, str], Row]
"""Rows of a table by dataset and method."""
Kinds = tuple[tuple[str, Callable[[Row], str]], ...]
"""What a table shows of each dataset: a heading, and how it is written."""


class Evidence:
    """What the records of a results folder say of the graphs of the tables."""

    def __init__(self, results: Path) -> None:
        read = read_results(results)
        self.runs = _of_these(frame_of_runs(results, *read))
        self.audits = _of_these(frame_of_audits(results, *read))

    def rows(self, table: str, forget: str) -> Rows:
        """Return the rows of a table of `unlearnbench report` for requests of one size."""
        runs, audits = (frame[frame["forget"] == forget] for frame in (self.runs, self.audits))
        found: dict[tuple[str, str], Row] = {}
        for one in build_tables(audits if table == "distances" else runs, table, audits=audits):
            for row in plain_rows(one.data):
                place = row["dataset"], row["method"].replace(" (repaired)", "")
                assert place not in found, f"two rows for {place}"
                found[place] = row
        return found


def _of_these(frame: pd.DataFrame) -> pd.DataFrame:
    return frame[
        frame["dataset"].isin({**DATASETS, **LARGER}) & (frame["model"] == MODEL) & (frame["protocol"] == PROTOCOL)
    ]


def forgetting(evidence: Evidence) -> list[str]:
    """Return the table of what forgets: exactness, who is recognised, how fast a model learns again."""
    rows = evidence.rows("forgetting", LARGE)
    kinds: Kinds = (("exactness", _verdict), ("recognised, %", _recognised), ("relearning", _relearning))
    return _lines(kinds, rows, (*EXACT, *_others(rows, "membership_tpr")))


def distances(evidence: Evidence) -> list[str]:
    """Return the table of distances from Retrain's predictions, with F1 after the small request."""
    utility = evidence.rows("summary", SMALL)
    rows = {place: {**utility.get(place, {}), **row} for place, row in evidence.rows("distances", LARGE).items()}
    kinds: Kinds = (
        ("F1, %", _utility),
        ("forgotten", _on_forgotten),
        ("neighbours", lambda row: _elsewhere(row, "hop_1")),
        ("test nodes", lambda row: _elsewhere(row, "test")),
    )
    return _lines(kinds, rows, (*EXACT, *_others(rows, "forgotten")))


def small_request(evidence: Evidence) -> list[str]:
    """Return the table of what approximate methods leave of a small request."""
    near = evidence.rows("distances", SMALL)
    rows = {place: {**near.get(place, {}), **row} for place, row in evidence.rows("forgetting", SMALL).items()}
    kinds: Kinds = (("forgotten", _on_forgotten), ("recognised, %", _recognised), ("relearning", _relearning))
    return _lines(kinds, rows, ("retrain", *_others(rows, "forgotten")))


def distances_on_pubmed(evidence: Evidence) -> list[str]:
    """Return the table of distances on a larger graph, of methods without shards."""
    rows = evidence.rows("distances", LARGE)
    kinds: Kinds = (
        ("forgotten", _on_forgotten),
        ("neighbours", lambda row: _elsewhere(row, "hop_1")),
        ("test nodes", lambda row: _elsewhere(row, "test")),
    )
    return _lines(kinds, rows, ("retrain", *_others(rows, "forgotten", LARGER)), LARGER)


TABLES: Mapping[str, Callable[[Evidence], list[str]]] = {
    "forgetting": forgetting,
    "distances": distances,
    "small-request": small_request,
    "distances-on-pubmed": distances_on_pubmed,
}


def _others(rows: Rows, number: str, datasets: Mapping[str, str] = DATASETS) -> list[str]:
    """Return the methods that are not exact, sorted by a number of the first dataset."""
    first = next(iter(datasets))
    found = {method: _number(rows.get((first, method), {}), number) for _, method in rows}
    others = [method for method in found if method not in EXACT and not method.startswith("smoothed")]
    return sorted(others, key=lambda method: (found[method] is None, found[method], method))


def _lines(kinds: Kinds, rows: Rows, methods: Iterable[str], datasets: Mapping[str, str] = DATASETS) -> list[str]:
    """Return the lines of a table: a method a row, of each kind one column for each dataset."""
    first, *others = datasets.values()
    head = [heading for name, _ in kinds for heading in (f"{name}, {first}", *others)]
    cells = {
        method: [shown(rows.get((dataset, method), {})) for _, shown in kinds for dataset in datasets]
        for method in methods
    }
    return page_tables.table(["method", *head], ([method, *row] for method, row in cells.items() if any(row)))


def _number(row: Row, name: str) -> float | None:
    value = row.get(name)
    return None if value is None or value == "" or pd.isna(value) else float(value)


def _text(row: Row, name: str) -> str:
    value = row.get(name)
    return value if isinstance(value, str) else ""


def _of(row: Row, name: str) -> str:
    """Say of how many requests a mean is, where it is not of all."""
    return "" if (count := _number(row, name)) in (None, REQUESTS) else f", n = {count:.0f}"


def _utility(row: Row) -> str:
    value, count = _number(row, "f1_micro_full_mean"), _number(row, "f1_micro_full_n")
    if value is None or count is None:
        return ""
    return f"{100 * value:.1f}" + ("" if count == REPETITIONS else f" [{count:.0f}]")


def _verdict(row: Row) -> str:
    text, distance = _text(row, "exactness").replace(" (", " ").replace(")", ""), _number(row, "exactness_effect")
    if text.startswith("exact-given"):
        text = "exact, partition by " + ("ids" if "ids" in text else "content")
    text = text if distance is None else f"{text} ({distance:.2f})"
    return text + _of(row, "exactness_n") if text else ""


def _recognised(row: Row) -> str:
    value, low, high = (_number(row, f"membership_tpr{end}") for end in ("", "_low", "_high"))
    if value is None:
        return ""
    # A share: an interval of means may reach below none and above all.
    between = "" if low is None or high is None else f" ({100 * max(low, 0):.1f} to {100 * min(high, 1):.1f})"
    return f"{100 * value:.1f}{between}{_of(row, 'membership_tpr_n')}"


def _relearning(row: Row) -> str:
    value, low, high = (_number(row, f"relearning{end}") for end in ("", "_low", "_high"))
    if value is None:
        return ""
    between = "" if low is None or high is None or low == high else f" ({low:.2f} to {high:.2f})"
    return ("1" if value == 1 and not between else f"{value:.2f}{between}") + _of(row, "relearning_n")


def _share(value: float) -> str:
    return f"{round(value, 2) + 0.0:.2f}"  # no -0.00


def _on_forgotten(row: Row) -> str:
    value, low, high = (_number(row, f"forgotten{end}") for end in ("", "_low", "_high"))
    if value is None:
        return "?" if _text(row, "forgotten_state") else ""
    between = "" if low is None or high is None or low == high == 1 else f" ({_share(low)} to {_share(high)})"
    return f"{_share(value)}{between}{_of(row, 'forgotten_n')}"


def _elsewhere(row: Row, place: str) -> str:
    value = _number(row, place)
    if value is None:
        return "?" if _text(row, f"{place}_state") else ""
    of = _number(row, f"{place}_n")
    return _share(value) + ("" if of == _number(row, "requests") else f" [{of:.0f}]")


if __name__ == "__main__":
    page_tables.main(__doc__, page_tables.ROOT / "docs" / "findings.md", TABLES, Evidence)
