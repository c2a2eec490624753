"""The tables of results: what stands in which column, and what must be said below."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from unlearnbench.errors import NothingMatchedError, unknown_name
from unlearnbench.report import numbers
from unlearnbench.report.aggregate import STATUSES, Aggregate, aggregate
from unlearnbench.report.grouping import Group, group_records

BUSY_MARK = " *"
TORCH_MARK = " †"


@dataclass(frozen=True)
class Column:
    """One column of a table.

    Args:
        title: Its head.
        value: The column of the raw data.
        show: Turns a number, and its spread if there is one, into text.
        spread: The column of the sample standard deviation.
        is_time: Whether the number suffers from a busy machine.
        quiet: Where it stands how many of the numbers it is made of are of a quiet machine.
        made_of: Where it stands of how many it is made.
    """

    title: str
    value: str
    show: Callable[[float, float | None], str]
    spread: str = ""
    is_time: bool = False
    quiet: str = "quiet_n"
    made_of: str = "timed"

    def text(self, row: pd.Series[Any]) -> str:
        """Give the text of one cell; empty where there is no number."""
        value = row[self.value]
        if pd.isna(value):
            return ""
        spread = row[self.spread] if self.spread else None
        text = self.show(float(value), None if spread is None or pd.isna(spread) else float(spread))
        return text + (BUSY_MARK if self.is_time and row[self.quiet] < row[self.made_of] else "")


@dataclass(frozen=True, eq=False)
class Table:
    """One table, ready to be written in any format.

    Args:
        name: Which table: a key of `TABLES`.
        caption: One sentence.
        shown: Text, as people read it.
        data: Raw numbers with the facets of the table in front, as programs read it.
        notes: Sentences that stand below.
    """

    name: str
    caption: str
    shown: pd.DataFrame = field(repr=False)
    data: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...]


F1 = tuple(
    Column(f"F1 {view} %", f"f1_micro_{view}_mean", numbers.percent, f"f1_micro_{view}_sd")
    for view in ("shard", "full")
)
UNLEARN = Column("unlearn s", "unlearn_seconds_mean", numbers.seconds, "unlearn_seconds_sd", is_time=True)
RATIO = Column(
    "x of Retrain", "times_retrain", numbers.ratio, is_time=True, quiet="ratio_quiet_n", made_of="times_retrain_n"
)
HIT = Column("shards hit", "shards_hit", numbers.tenths)
TABLES: dict[str, tuple[str, tuple[Column, ...]]] = {
    "summary": ("Results", (*F1, UNLEARN, RATIO, HIT, Column("peak MiB", "peak_mib", numbers.whole))),
    "utility": (
        "Micro-F1 on the test nodes after the request",
        (*F1, *(Column(f"F1 {v} before %", f"f1_micro_before_{v}_mean", numbers.percent) for v in ("shard", "full"))),
    ),
    "time": (
        "Time to unlearn",
        (
            UNLEARN,
            RATIO,
            HIT,
            Column("node-epochs", "node_epochs", numbers.whole),
            Column("train s", "train_seconds_mean", numbers.seconds, "train_seconds_sd", is_time=True),
            Column("partition s", "partition_seconds_mean", numbers.seconds, "partition_seconds_sd", is_time=True),
        ),
    ),
    "memory": (
        "Peak of memory",
        (Column("unlearn MiB", "peak_mib", numbers.whole), Column("fit MiB", "fit_peak_mib", numbers.whole)),
    ),
}


def build_tables(frame: pd.DataFrame, name: str = "summary", source: str = "results") -> list[Table]:
    """Build one table per protocol, dataset, model and device.

    Args:
        frame: What `load_records` gave, or a part of it.
        name: A key of `TABLES`.
        source: The results folder as the user wrote it, for the command below the table.

    Raises:
        UsageError: An unknown table.
        NothingMatchedError: The frame is empty.
    """
    if name not in TABLES:
        raise unknown_name("table", name, TABLES)
    if frame.empty:
        raise NothingMatchedError("No record matches.", "Run some cells, or ask for less.")
    problems = [f"Could not be read and is left out: {problem}" for problem in frame.attrs.get("problems", [])]
    command = f"Made by: unlearnbench report {source} --table {name}"
    return [_table(name, aggregate(group), [*problems, command]) for group in group_records(frame)]


def _table(name: str, found: Aggregate, last: Sequence[str]) -> Table:
    title, columns = TABLES[name]
    data = _with_peaks(found)
    has_times = any(column.is_time or "peak" in column.value for column in columns)
    caption = f"{title}: {found.group.name}"
    if has_times and found.machine:
        caption += f"; times and memory of machine {found.machine}"
    foreign = _foreign_torch(found)
    shown = pd.DataFrame({"method": [row + (TORCH_MARK if row in foreign else "") for row in data["method"]]})
    counted = "time_n" if name in ("time", "memory") else "n"
    shown["n"] = [_coverage(row, counted) for _, row in data.iterrows()]
    for column in columns:
        shown[column.title] = [column.text(row) for _, row in data.iterrows()]
    status = [_status(row) for _, row in data.iterrows()]
    if any(status):
        shown["status"] = status
    notes = [*_notes(found, data, columns, has_times), *last]
    return Table(name, caption + ".", shown, _raw(name, found, data), tuple(notes))


def _with_peaks(found: Aggregate) -> pd.DataFrame:
    data = found.data.copy()
    kind = "gpu" if data["unlearn_peak_gpu_mib"].notna().any() else "rss"
    data["peak_kind"] = kind
    data["peak_mib"], data["fit_peak_mib"] = data[f"unlearn_peak_{kind}_mib"], data[f"fit_peak_{kind}_mib"]
    data["peak_reason"] = data[f"{kind}_reason"]
    return data


def _coverage(row: pd.Series[Any], counted: str) -> str:
    number, expected = int(row[counted]), int(row["expected"])
    return str(number) if number == expected else f"{number}/{expected}"


def _status(row: pd.Series[Any]) -> str:
    return ", ".join(f"{status} {row[status]}" for status in STATUSES if row[status])


def _foreign_torch(found: Aggregate) -> dict[str, str]:
    """Name the rows that ran with other versions of torch than most records of the table."""
    ok = found.chosen[found.chosen["status"] == "ok"]
    counts = ok["torch"].value_counts()
    if len(counts) < 2:
        return {}
    most = min(counts.index, key=lambda version: (-int(counts[version]), version))
    versions = {row: sorted(set(part["torch"])) for row, part in ok.groupby("row")}
    return {str(row): ", ".join(found) for row, found in versions.items() if found != [most]}


def _raw(name: str, found: Aggregate, data: pd.DataFrame) -> pd.DataFrame:
    facets = found.group.facets
    front = {key: value for key, value in facets.items() if not key.endswith("_config")}
    back = {key: value for key, value in facets.items() if key.endswith("_config")}
    front = {"table": name, **front, "time_machine": found.machine}
    inside = data.drop(columns=["gpu_reason", "rss_reason"])
    return inside.assign(**front, **back)[[*front, *inside.columns, *back]]


def _notes(found: Aggregate, data: pd.DataFrame, columns: Sequence[Column], has_times: bool) -> Iterator[str]:
    group = found.group
    yield (
        f"n: repetitions of {group.units} with status ok, mean ± sample standard deviation (none for n = 1);"
        " a method with fewer is not ranked."
    )
    protocol = json.loads(group.facets["protocol_config"])
    settings = json.loads(group.facets["training_config"]).items()
    training = ", ".join(f"{key} {value}" for key, value in settings if value is not False)
    split = protocol.get("split", [])
    shares = "the dataset's own" if split == "own" else " / ".join(f"{share:g}" for share in split)
    yield (
        f"Protocol {protocol['name']} version {protocol.get('version', '?')}: {group.facets['forget']} forgotten; split"
        f" {shares}; training: {training or 'not recorded'};"
        f" dataset {group.facets['dataset']}, sha256 {group.facets['dataset_sha256'][:12] or 'unknown'}."
    )
    if any(column.value.startswith("f1") for column in columns):
        yield (
            "View shard: a member passes messages over its own shard and the nodes asked for; full: over all retained"
            " training nodes and the nodes asked for."
        )
    machines = ", ".join(sorted(set(found.chosen["machine"])))
    threads = ", ".join(sorted({str(value) for value in found.chosen["threads"].dropna()}))
    yield f"Device {group.facets['device']}; machines: {machines}; threads: {threads or 'not recorded'}."
    yield f"Versions: {_components(group)}; {_packages(found)}."
    for row, versions in _foreign_torch(found).items():
        yield f"{TORCH_MARK.strip()} {row} ran with torch {versions}."
    yield from _status_notes(data)
    if has_times:
        yield from _time_notes(found, data, columns)
    yield from found.notes


def _status_notes(data: pd.DataFrame) -> Iterator[str]:
    for _, row in data[data["failures"] != ""].iterrows():
        yield f"{row['method']}: failures: {row['failures']}."


def _time_notes(found: Aggregate, data: pd.DataFrame, columns: Sequence[Column]) -> Iterator[str]:
    if any(column is RATIO for column in columns):
        yield "x of Retrain: unlearning time over Retrain's, geometric mean of the ratios within repetitions."
        for _, row in data[(data["times_retrain_n"] > 0) & (data["times_retrain_n"] < data["n"])].iterrows():
            yield f"{row['method']}: its ratio is over {row['times_retrain_n']} repetitions."
    busy = data[(data["timed"] > 0) & (data["quiet_n"] < data["timed"])]
    if len(busy) and any(column.is_time for column in columns):
        counts = ", ".join(
            f"{row['method']} {int(row['timed'] - row['quiet_n'])}/{row['timed']}" for _, row in busy.iterrows()
        )
        yield f"{BUSY_MARK.strip()} records that may have met a busy machine: {counts}."
    if any("peak" in column.value for column in columns):
        yield "Memory: mean of the peaks of " + (
            "memory that torch allocated on the GPU." if data["peak_kind"].iloc[0] == "gpu" else "resident memory."
        )
        for _, row in data[data["peak_mib"].isna()].iterrows():
            yield f"{row['method']}: no peak of memory: {row['peak_reason'] or 'not measured'}."


def _components(group: Group) -> str:
    configs = [group.facets["dataset_config"], group.facets["model_config"], *sorted(set(group.frame["method_config"]))]
    named = {pair for config in configs for pair in _versions(json.loads(config))}
    return ", ".join(f"{name} {version}" for name, version in sorted(named))


def _versions(tree: Any) -> Iterator[tuple[str, str]]:
    """Walk a canonical tree and give each component with its version."""
    if isinstance(tree, dict):
        if isinstance(tree.get("name"), str) and "version" in tree:
            yield tree["name"], str(tree["version"])
        for value in tree.values():
            yield from _versions(value)


def _packages(found: Aggregate) -> str:
    said = []
    for name in ("unlearnbench", "torch"):
        versions = sorted(set(found.chosen[name]) - {""})
        said.append(f"{name} {', '.join(versions) or 'not recorded'}")
    return "; ".join(said)
