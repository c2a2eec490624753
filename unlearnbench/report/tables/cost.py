"""The ledger of costs: what each stage takes, and unlearning time against the number of deletions."""

from __future__ import annotations

import itertools
import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.report.frame.names import AMOUNTS
from unlearnbench.report.frame.plain_rows import Row, plain_rows, rows_by
from unlearnbench.report.frame.record_groups import (
    REFERENCE,
    UNIT,
    busiest_machine,
    distinguish,
    first_of_each,
    known,
)
from unlearnbench.report.frame.timed import is_quiet, pairs_of, quiet_records, times_of
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.table import Table
from unlearnbench.statistics.averages import geometric_mean, mean, sample_sd

STAGES = {
    "partition s": "partition_seconds",
    "aggregate s": "aggregate_seconds",
    "train one by one s": "serial_seconds",
    "longest shard s": "longest_seconds",
    "one deletion s": "expected_seconds",
}
PLACED = [
    *("dataset", "dataset_config", "dataset_sha256", "model_config", "protocol_config", "training_config"),
    *("device", "other_config"),
]
"""What `place_of` reads of a record."""
_KIB = 1024


@dataclass(frozen=True, eq=False)
class Curve:
    """Unlearning time against the number of deletions, for one dataset, model and device and times of one machine.

    Args:
        part: Its records, one row each; column `row` names the row of a table.
        data: What `curve` made of them.
        even: Row to `break_even`; without the reference, and empty where that has no record.
    """

    name: str
    dataset: str
    model: str
    machine: str
    part: pd.DataFrame = field(repr=False)
    data: pd.DataFrame = field(repr=False)
    even: Mapping[str, float | None]

    @property
    def counts(self) -> list[int]:
        """List the numbers of deletions that any method has."""
        return sorted(set(self.data["deletions"]))


def cost_tables(frame: pd.DataFrame) -> list[Table]:
    """Build, for each dataset, model and device, the stages of a method's life and its time against deletions.

    There is a table of stages only where members were trained one by one.
    """
    tables = []
    for machine, serial in _places(frame):
        apart = serial["serial_seconds"].notna()
        if apart.any():
            tables.append(_stages(serial[apart], machine))
        tables += [curve_table(one) for one in _curve_of(machine, serial)]
    return tables


def find_curves(frame: pd.DataFrame) -> list[Curve]:
    """Return the time against deletions of each dataset, model and device."""
    return [one for machine, serial in _places(frame) for one in _curve_of(machine, serial)]


def _places(frame: pd.DataFrame) -> Iterator[tuple[str, pd.DataFrame]]:
    """Yield a machine and its serial records that differ in method, repetition and number of deletions only."""
    # A stream's time is that of many requests.
    frame = first_of_each(frame[frame["stream"] == ""], ["machine", "key"]).dropna(subset="deletions")
    places = [place_of(row) for row in plain_rows(frame, PLACED)]
    frame = frame.assign(place=places, deletions=frame["deletions"].astype(int))
    for _, part in frame.groupby("place", sort=True):
        serial = part[(part["status"] == "ok") & (part["backend"] == "serial")]
        machine = busiest_machine(serial["machine"])
        serial = serial[serial["machine"] == machine]
        if serial.empty:
            continue
        methods = first_of_each(serial, ["method_config"])
        rows = distinguish(dict(zip(methods["method_config"], methods["method"], strict=True)))
        yield machine, serial.assign(row=serial["method_config"].map(rows))


def _curve_of(machine: str, serial: pd.DataFrame) -> Iterator[Curve]:
    """Yield the curve of records trained in lockstep, if there are any."""
    part = serial[[not json.loads(text).get("one_by_one") for text in serial["training_config"]]]
    if part.empty:
        return
    data, names = curve(part), dict(zip(part["row"], part["method_name"], strict=True))
    seconds: dict[str, dict[int, float]] = {row: {} for row in data["method"]}
    for one in plain_rows(data, ["method", "deletions", "seconds"]):
        if not pd.isna(one["seconds"]):
            seconds[one["method"]][one["deletions"]] = one["seconds"]
    reference = dict(item for row, times in seconds.items() if names[row] == REFERENCE for item in times.items())
    even = {
        row: break_even(times, reference) for row, times in seconds.items() if reference and names[row] != REFERENCE
    }
    first = part.iloc[0]
    yield Curve(_name(part), first["dataset"], first["model"], machine, part, data, even)


def break_even(seconds: dict[int, float], reference: dict[int, float]) -> float | None:
    """Find from how many deletions on a method takes as long as Retrain, by linear interpolation of the ratio.

    Args:
        seconds: Deletions to the method's mean seconds.
        reference: Deletions to Retrain's.

    Returns:
        The number of deletions; 0: it takes as long from the first measured one on; None: it is
        faster at every number measured.
    """
    ratios = [(count, seconds[count] / reference[count]) for count in sorted(seconds.keys() & reference.keys())]
    if ratios and ratios[0][1] >= 1:
        return 0.0
    for (left, low), (right, high) in itertools.pairwise(ratios):
        if low < 1 <= high:
            return left + (right - left) * (1 - low) / (high - low)
    return None


def curve(part: pd.DataFrame) -> pd.DataFrame:
    """Average unlearning times: one row per method and number of deletions.

    Args:
        part: Records of one place and machine, one row each; column `row` names the row of a table.

    Returns:
        Columns `method` (the row), `deletions`, `n`, `quiet`, `seconds` and `sd`, and `ratio`, the geometric mean of
        the ratios to Retrain within repetitions.
    """
    columns = [*UNIT, "deletions", "unlearn_seconds", "exclusive", "shards_hit"]
    references = rows_by(part[part["method_name"] == REFERENCE], "deletions", columns)
    rows: list[dict[str, Any]] = []
    for method, every in sorted(rows_by(part, "row", columns).items()):
        by_count = _by_number(_of_every_number(every))
        for deletions, records in sorted(by_count.items()):
            timed = quiet_records(records)
            values = known(record["unlearn_seconds"] for record in timed)
            pairs = pairs_of(times_of(records), times_of(references.get(str(deletions), ())))
            rows.append(
                {
                    "method": method,
                    "deletions": deletions,
                    "n": len(values),
                    "quiet": sum(map(is_quiet, timed)),
                    "seconds": mean(values),
                    "sd": sample_sd(values),
                    "ratio": geometric_mean([pair.mine / pair.other for pair in pairs]),
                    "shards_hit": mean(known(record["shards_hit"] for record in records)),
                }
            )
    return pd.DataFrame(rows)


def _by_number(records: Iterable[Row]) -> dict[int, list[Row]]:
    by_number: defaultdict[int, list[Row]] = defaultdict(list)
    for record in records:
        by_number[record["deletions"]].append(record)
    return by_number


def _of_every_number(records: Sequence[Row]) -> Sequence[Row]:
    """Keep of one method's records the repetitions that have every number of deletions, if there are any.

    Numbers are compared with each other: a number that alone has more repetitions, or others, would stand out.
    """
    common = set.intersection(*({_unit(one) for one in alike} for alike in _by_number(records).values()))
    return [record for record in records if _unit(record) in common] if common else records


def _unit(record: Row) -> tuple[int, int]:
    return record["seed"], record["repetition"]


def curve_table(curve: Curve) -> Table:
    """Write a curve as a table."""
    part, data, machine = curve.part, curve.data, curve.machine
    shown = []
    for method, rows in data.groupby("method", sort=False):
        row = {"method": str(method)}
        for one in plain_rows(rows):
            text = formatting.seconds(one["seconds"], None if pd.isna(one["sd"]) else one["sd"])
            if method in curve.even and not pd.isna(one["ratio"]):
                text += f" ({formatting.ratio(one['ratio'], None)} x)"
            row[str(one["deletions"])] = text + (" *" if one["quiet"] < one["n"] else "")
        row["break-even"] = shown_even(curve.even[str(method)]) if method in curve.even else ""
        shown.append(row)
    table = pd.DataFrame(shown, columns=["method", *map(str, curve.counts), "break-even"]).fillna("")
    kind = json.loads(part.iloc[0]["protocol_config"])["forget"].get("kind")
    what = {"edge": "edges", "feature": "nodes whose features were"}.get(kind, "nodes")
    notes = [
        f"Columns: {what} deleted in one request; seconds of unlearn(), mean ± sample standard deviation, and in"
        " brackets the geometric mean of the ratios to Retrain within repetitions.",
        "Break-even: deletions from which on Retrain is as fast (ratio 1, interpolated linearly between the numbers"
        " measured).",
        f"n: {', '.join(sorted({str(n) for n in data['n']}))} repetitions; times of machine {machine}, run serially,"
        f" threads: {_threads(part)}.",
    ]
    if (data["quiet"] < data["n"]).any():
        notes.append("* records that may have met a busy machine.")
    return Table("cost", f"Time against deletions: {curve.name}.", table, _raw(data, part, machine), tuple(notes))


def _stages(part: pd.DataFrame, machine: str) -> Table:
    rows, raw = [], []
    for method, cells in part.groupby("row", sort=True):
        values = {title: mean(known(cells[column])) for title, column in STAGES.items()}
        size = mean(known(cells["parameter_bytes"]))
        shown = {title: "" if value is None else formatting.seconds(value, None) for title, value in values.items()}
        kib = "" if size is None else formatting.whole(size / _KIB, None)
        rows.append({"method": str(method), "n": str(len(cells)), **shown, "parameters KiB": kib})
        raw.append({"method": method, "n": len(cells), **{STAGES[k]: v for k, v in values.items()}, "bytes": size})
    notes = (
        "Members trained one after the other. longest shard: what training takes with a machine a member. one deletion:"
        " expected seconds of retraining for one node drawn uniformly, sum of n_i/N t_i, aggregator not included;"
        " empty where members were trained in several steps.",
        "parameters: what is deployed, all members and the aggregator.",
        f"Times of machine {machine}; threads: {_threads(part)}.",
    )
    return Table("cost", f"Stages: {_name(part)}.", pd.DataFrame(rows), _raw(pd.DataFrame(raw), part, machine), notes)


def _threads(part: pd.DataFrame) -> str:
    return ", ".join(sorted({str(value) for value in part["threads"].dropna()}))


def shown_even(value: float | None) -> str:
    """Return from how many deletions on Retrain is as fast, as tables write it."""
    if value is None:
        return "never"
    return "never faster" if value == 0 else f"{value:.0f}"


def place_of(row: Row | pd.Series[Any]) -> str:
    """Return what records share that differ in method, repetition and how much is forgotten only."""
    return _place(*(row[name] for name in PLACED))


@cache
def _place(*values: str) -> str:
    row = dict(zip(PLACED, values, strict=True))
    protocol, forget = _without_amount(row["protocol_config"])
    training = {name: value for name, value in json.loads(row["training_config"]).items() if name != "one_by_one"}
    parts = [row["dataset"], row["dataset_config"], row["dataset_sha256"], row["model_config"]]
    return canonical_json([*parts, protocol, forget, training, row["device"], row["other_config"]])


def _without_amount(protocol_config: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return a protocol without its request, and of the request what is forgotten, not how much."""
    protocol = json.loads(protocol_config)
    forget = protocol.pop("forget", {})
    kept = {name: value for name, value in forget.items() if name not in AMOUNTS}
    return protocol, kept | {"injected": "injected" in forget}


def _name(part: pd.DataFrame) -> str:
    first = part.iloc[0]
    _, forget = _without_amount(first["protocol_config"])
    kind = f"{'injected ' if forget['injected'] else ''}{forget.get('kind', 'node')}s"
    return f"{first['dataset']}, {first['model']} on {first['device']}" + ("" if kind == "nodes" else f", {kind}")


def _raw(data: pd.DataFrame, part: pd.DataFrame, machine: str) -> pd.DataFrame:
    first = part.iloc[0]
    front = {"table": "cost", **first[["dataset", "model", "device"]], "time_machine": machine}
    return data.assign(**front)[[*front, *data.columns]]
