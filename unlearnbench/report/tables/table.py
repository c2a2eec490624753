"""One table, and what must be said below every one of them."""

from __future__ import annotations

import hashlib
import json
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.report.frame.aggregate import STATUSES, Aggregate
from unlearnbench.report.frame.plain_rows import plain_rows
from unlearnbench.report.tables.notes import Note
from unlearnbench.report.tables.sameness import sameness_notes

TORCH_MARK = " †"


@dataclass(frozen=True, eq=False)
class Table:
    """One table, ready to be written in any format.

    Args:
        name: Which table: a key of `TABLES`.
        caption: One sentence.
        shown: Text, as people read it.
        data: Raw numbers with the facets of the table in front, as programs read it.
        notes: Sentences that stand below.
        marked: Cells of `shown` that stand out: (position of the row, name of the column).
        sentences: What is known of the methods, a sentence each.
    """

    name: str
    caption: str
    shown: pd.DataFrame = field(repr=False)
    data: pd.DataFrame = field(repr=False)
    notes: tuple[str, ...]
    marked: frozenset[tuple[int, str]] = frozenset()
    sentences: tuple[str, ...] = ()


def shown_names(averages: Aggregate) -> list[str]:
    """Name the rows as people read them: marked where another torch made them."""
    foreign = _foreign_torch(averages)
    return [row + (TORCH_MARK if row in foreign else "") for row in averages.data["method"]]


def shown_count(number: int, expected: int) -> str:
    """Write how many repetitions there are, and of how many where some lack."""
    return str(number) if number == expected else f"{number}/{expected}"


def shown_statuses(data: pd.DataFrame) -> list[str]:
    """Report for each row what did not end well."""
    rows = plain_rows(data, STATUSES)
    return [", ".join(f"{status} {row[status]}" for status in STATUSES if row[status]) for row in rows]


def with_facets(name: str, averages: Aggregate, data: pd.DataFrame, **more: str) -> pd.DataFrame:
    """Put what all records of the table share around its raw numbers."""
    facets = averages.group.facets
    front = {key: value for key, value in facets.items() if not key.endswith("_config")}
    back = {key: value for key, value in facets.items() if key.endswith("_config")}
    front = {"table": name, **front, **more}
    return data.assign(**front, **back)[[*front, *data.columns, *back]]


def origin_notes(*cells: Aggregate, has_views: bool) -> Iterator[str]:
    """Report by what protocol, where and with what the records were made, and what failed.

    Args:
        cells: The groups of a table: one, or several of one protocol, training and device.
        has_views: Whether the table tells views apart.
    """
    facets = cells[0].group.facets
    protocol = json.loads(facets["protocol_config"])
    settings = json.loads(facets["training_config"]).items()
    training = ", ".join(f"{key} {value}" for key, value in settings if value is not False)
    split = protocol.get("split", [])
    shares = "the dataset's own" if split == "own" else " / ".join(f"{share:g}" for share in split)
    data = {one.group.facets["dataset"]: one.group.facets["dataset_sha256"][:12] or "unknown" for one in cells}
    amounts = ", ".join(dict.fromkeys(one.group.facets["forget"] for one in cells))
    yield Note(
        f"Protocol {facets['protocol']} version {protocol.get('version', '?')}: {amounts} forgotten; split"
        f" {shares}; training: {training or 'not recorded'};"
        f" dataset {', '.join(f'{name}, sha256 {sha256}' for name, sha256 in data.items())}."
    )
    if has_views:
        yield Note(
            "View shard: a member passes messages over its own shard and the nodes asked for; full: over all retained"
            " training nodes and the nodes asked for."
            + (" Both also over all other nodes." if "setting" in protocol else "")
        )
    machines = ", ".join(sorted(_values(cells, "machine")))
    threads = ", ".join(sorted(str(value) for value in _values(cells, "threads") if not pd.isna(value)))
    yield Note(f"Device {facets['device']}; machines: {machines}; threads: {threads or 'not recorded'}.")
    yield Note(f"Versions: {_components(cells)}; {_packages(cells)}.")
    yield Note(f"Settings of all rows: sha256 {_settings_digest(cells)[:12]}.")
    for one in cells:
        for row, versions in _foreign_torch(one).items():
            text = f"{TORCH_MARK.strip()} {row} ran with torch {versions}."
            yield Note(text, f"{TORCH_MARK.strip()} ran with another torch.")
        for row, failures in zip(one.data["method"], one.data["failures"], strict=True):
            if failures:
                yield f"{row}: failures: {failures}."
        where = f"{one.group.name}: " if len(cells) > 1 else ""
        yield from (f"{where}{note}" for note in sameness_notes(one))


def _values(cells: Sequence[Aggregate], column: str) -> set[Any]:
    """Return the different values of a column in the records of a table."""
    return {value for one in cells for value in one.chosen[column].tolist()}


def _foreign_torch(averages: Aggregate) -> dict[str, str]:
    """Name the rows that ran with other versions of torch than most records of the table."""
    counts = Counter(averages.ok["torch"])
    if len(counts) < 2:
        return {}
    most = min(counts, key=lambda version: (-counts[version], version))
    versions: defaultdict[str, set[str]] = defaultdict(set)
    for row, version in zip(averages.ok["row"], averages.ok["torch"], strict=True):
        versions[row].add(version)
    return {row: ", ".join(sorted(of_row)) for row, of_row in sorted(versions.items()) if of_row != {most}}


def _settings_digest(cells: Sequence[Aggregate]) -> str:
    """Hash what the records of a table were asked to do: two tables with one digest compare the same cells."""
    asked = []
    for averages in cells:
        facets = averages.group.facets
        shared = {name: value for name, value in facets.items() if name.endswith("_config")}
        shared |= {name: facets[name] for name in ("dataset_sha256", "device")}
        asked.append(canonical_json([shared, sorted(set(averages.group.frame["method_config"]))]))
    return hashlib.sha256(canonical_json(sorted(asked)).encode()).hexdigest()


def _components(cells: Sequence[Aggregate]) -> str:
    configs = {
        config
        for averages in cells
        for config in (
            averages.group.facets["dataset_config"],
            averages.group.facets["model_config"],
            *averages.group.frame["method_config"],
        )
    }
    named = {pair for config in configs for pair in _versions(json.loads(config))}
    return ", ".join(f"{name} {version}" for name, version in sorted(named))


def _versions(tree: Any) -> Iterator[tuple[str, str]]:
    """Walk a canonical tree and give each component with its version."""
    if isinstance(tree, dict):
        if isinstance(tree.get("name"), str) and "version" in tree:
            yield tree["name"], str(tree["version"])
        for value in tree.values():
            yield from _versions(value)


def _packages(cells: Sequence[Aggregate]) -> str:
    texts = []
    for name in ("unlearnbench", "torch"):
        versions = sorted(_values(cells, name) - {""})
        texts.append(f"{name} {', '.join(versions) or 'not recorded'}")
    return "; ".join(texts)
