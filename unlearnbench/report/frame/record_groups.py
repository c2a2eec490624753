"""Which records may be averaged, which stand apart, and which one counts where a cell has several."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.records.record import FAILURES
from unlearnbench.report.frame.plain_rows import Row, plain_rows
from unlearnbench.running.options import TUNED

REFERENCE = "retrain"
GROUP = ["protocol_config", "dataset", "dataset_sha256", "dataset_config", "model_config", "training_config", "device"]
GROUP += ["other_config"]
UNIT = ["seed", "repetition"]
_RECORD = ("machine", "key", "status")


@dataclass(frozen=True, eq=False)
class RecordGroup:
    """All records that may stand in one table: they differ in method, repetition and machine only.

    Args:
        name: Dataset, model, device and request; with what sets it apart where another group
            would have the same name.
        facets: What all records share, as text: `protocol`, `forget`, `dataset`,
            `dataset_sha256`, `model`, `device`, and `*_config`, the canonical JSON of `protocol`,
            `dataset`, `model`, `training` and whatever `other` a cell holds.
        frame: One row per record and view; column `row` names the row of a table.
        rows: The rows of a table in their order: the reference, then methods by name.
    """

    name: str
    facets: Mapping[str, str]
    frame: pd.DataFrame = field(repr=False)
    rows: tuple[str, ...]

    @cached_property
    def units(self) -> int:
        """Count the repetitions that any method has a record of, failed ones too."""
        return len(set(zip(self.frame["seed"], self.frame["repetition"], strict=True)))


def group_records(frame: pd.DataFrame) -> list[RecordGroup]:
    """Split a frame into groups, in the order of dataset, model, protocol, training and device.

    Records of different dataset checksums, protocols, versions or parameters of the model, or
    training settings never share a group. Within one, methods of one name but different
    versions or parameters are different rows, named with what differs.
    """
    parts = []
    for _, part in frame.groupby(GROUP, sort=True):
        first = part.iloc[0]
        facets = {name: str(first[name]) for name in ("protocol", "forget", "model", *GROUP)}
        parts.append((facets, part))
    parts.sort(key=lambda item: (item[0]["dataset"], item[0]["model"], *(item[0][name] for name in GROUP)))
    names = distinguish({canonical_json(_config(facets)): _plain_name(facets) for facets, _ in parts})
    return [_group(names[canonical_json(_config(facets))], facets, part) for facets, part in parts]


def _plain_name(facets: Mapping[str, str]) -> str:
    protocol = json.loads(facets["protocol_config"])
    name = f"{facets['dataset']}, {facets['model']} on {facets['device']}, forgetting {facets['forget']}"
    apart = [protocol.get("setting"), TUNED if protocol.get("name") == TUNED else None]
    return ", ".join([name, *(each for each in apart if each)])


def _config(facets: Mapping[str, str]) -> dict[str, Any]:
    configs: dict[str, Any] = {"sha256": facets["dataset_sha256"]}
    for name in ("protocol_config", "dataset_config", "model_config", "training_config", "other_config"):
        configs[name.removesuffix("_config")] = json.loads(facets[name])
    return {**configs, "device": facets["device"]}


def _group(name: str, facets: Mapping[str, str], part: pd.DataFrame) -> RecordGroup:
    methods = part[["method_config", "method", "method_name"]].drop_duplicates("method_config")
    rows = distinguish(dict(zip(methods["method_config"], methods["method"], strict=True)))
    order = sorted(rows, key=lambda config: (_distance(config), rows[config]))
    return RecordGroup(
        name,
        facets,
        part.assign(row=part["method_config"].map(rows).astype("object")),
        tuple(rows[config] for config in order),
    )


def retrains(method_config: str) -> bool:
    """Whether a method is Retrain, perhaps within another component that changes its predictions alone."""
    return _distance(method_config) < 2


def _distance(method_config: str) -> int:
    """Return 0 for Retrain, 1 for a method that has it as a part, 2 for any other."""
    method = json.loads(method_config)
    parts = [value for value in method.get("params", {}).values() if isinstance(value, dict)]
    return 0 if method["name"] == REFERENCE else 1 if any(part.get("name") == REFERENCE for part in parts) else 2


def narrowed(group: RecordGroup, rows: Collection[str]) -> RecordGroup:
    """Keep some rows of a group; its repetitions are then those that any of them has."""
    part = group.frame[group.frame["row"].isin(list(rows))]
    return RecordGroup(group.name, group.facets, part, tuple(row for row in group.rows if row in rows))


def distinguish(names: Mapping[str, str]) -> dict[str, str]:
    """Make names different where configurations are: append the settings that differ.

    Args:
        names: Canonical JSON of a configuration to its name.
    """
    shared: dict[str, list[str]] = {}
    for config, name in names.items():
        shared.setdefault(name, []).append(config)
    distinct = {}
    for name, configs in shared.items():
        if len(configs) == 1:
            distinct[configs[0]] = name
            continue
        flat = {config: _flatten(json.loads(config)) for config in configs}
        keys = sorted({key for one in flat.values() for key in one})
        differing = [key for key in keys if len({one.get(key) for one in flat.values()}) > 1]
        for config in configs:
            shown = [f"{key}={_cut(key, flat[config][key])}" for key in differing if key in flat[config]]
            distinct[config] = f"{name} {{{', '.join(shown) or 'default'}}}"
    taken = list(distinct.values())
    # What the shown settings cannot tell apart (an empty setting, a cut digest) a digest of all can.
    return {
        config: name if taken.count(name) == 1 else f"{name} #{_digest(config)}" for config, name in distinct.items()
    }


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:8]


def _flatten(value: Any, head: str = "") -> dict[str, str]:
    if isinstance(value, dict):
        return {
            k: v
            for name, inner in value.items()
            for k, v in _flatten(inner, f"{head}.{name}" if head else name).items()
        }
    return {head: value if isinstance(value, str) else json.dumps(value, sort_keys=True)}


def _cut(key: str, value: str) -> str:
    return value[:12] if key.endswith("sha256") else value


def first_of_each(frame: pd.DataFrame, columns: Sequence[str]) -> pd.DataFrame:
    """Keep the first row of each combination of values in these columns.

    `drop_duplicates(columns)` does the same but looks at every column, which takes long in a wide and short frame.
    """
    seen, is_first = set[Any](), []
    for values in zip(*(frame[name] for name in columns), strict=True):
        is_first.append(values not in seen)
        seen.add(values)
    kept: pd.DataFrame = frame.loc[is_first]
    return kept


def units_by(rows: Iterable[tuple[str, Any, Any]]) -> dict[str, list[tuple[int, int]]]:
    """Return the different pairs of seed and repetition of each name, in order, from (name, seed, repetition)."""
    found: dict[str, set[tuple[int, int]]] = {}
    for name, seed, repetition in rows:
        found.setdefault(name, set()).add((int(seed), int(repetition)))
    return {name: sorted(units) for name, units in found.items()}


def reference_row(group: RecordGroup) -> tuple[str, str]:
    """Name the row of the reference; where it is not clear which that is, the name is empty and a reason follows."""
    named = sorted(set(group.frame.loc[group.frame["method_name"] == REFERENCE, "row"]))
    plain = [name for name in named if name == REFERENCE] or named
    if not plain:
        return "", f"the reference ({REFERENCE}) has no record here"
    if len(plain) > 1:
        return "", f"the reference has several rows ({'; '.join(plain)})"
    return plain[0], ""


def one_record_a_cell(group: RecordGroup) -> tuple[pd.DataFrame, list[str]]:
    """Choose the record that counts for each cell, whatever machine it is from.

    An outcome goes before a failure; then the machine with the most outcomes in the group goes
    first, then the machine whose id sorts first.

    Returns:
        One row per cell and view, and notes on what was passed over.
    """
    frame = group.frame
    preferred = busiest_machine(frame.loc[frame["status"] == "ok", "machine"])
    rows = plain_rows(frame, ["row", *UNIT, *_RECORD])
    best: dict[Any, Row] = {}
    machines: dict[Any, set[str]] = {}
    superseded = set()
    for row in sorted(rows, key=lambda row: _rank(row, preferred)):
        cell, machine = _cell(row), row["machine"]
        best.setdefault(cell, row)
        if row["status"] not in FAILURES:
            machines.setdefault(cell, set()).add(machine)
        elif cell in machines:
            superseded.add((cell, machine))
    # All views of a cell come from one record.
    counts = [all(row[name] == best[_cell(row)][name] for name in _RECORD) for row in rows]
    chosen = frame.loc[counts].reset_index(drop=True)
    notes = []
    if several := sum(len(names) > 1 for names in machines.values()):
        notes.append(f"{several} cells have records of several machines; those of {preferred} count first.")
    if superseded:
        notes.append(f"{len(superseded)} failures are left out: the same cell has an outcome.")
    return chosen, notes


def _cell(row: Row) -> tuple[str, int, int]:
    return row["row"], row["seed"], row["repetition"]


def _rank(row: Row, preferred: str) -> tuple[bool, bool, str, str]:
    return row["status"] in FAILURES, row["machine"] != preferred, row["machine"], row["key"]


def busiest_machine(machines: Iterable[str]) -> str:
    """Name the machine that comes most often, the first id of equals; empty if there is none."""
    counts = Counter(machines)
    return min(counts, key=lambda name: (-counts[name], name), default="")


def known(values: Iterable[Any]) -> list[float]:
    """List the numbers that are there."""
    # A number that is not itself is nan; pd.NA is not to be compared.
    return [float(value) for value in values if value is not None and value is not pd.NA and value == value]
