"""Rows of a table that form a grid: every partitioner with every aggregator."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from unlearnbench.component import canonical_json
from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import parse_bracket
from unlearnbench.report.frame.aggregate import Aggregate, aggregate
from unlearnbench.report.frame.record_groups import distinguish, first_of_each, narrowed

METHOD = "sharded"
BASES = {"partitioner": "random", "aggregator": "mean"}
"""Factor to the level that the others are measured against."""


@dataclass(frozen=True)
class Design:
    """Rows of one setting by (partitioner, aggregator), as tables name them.

    `levels` maps a factor to its levels: the base first if it is there, then by name.
    """

    rows: Mapping[tuple[str, str], str]
    levels: Mapping[str, tuple[str, ...]]


def find_grids(averages: Aggregate) -> Iterator[tuple[Design, Aggregate]]:
    """Find sets of rows `sharded[...]` that share all but partitioner and aggregator, two or more of each.

    Yields:
        Each design, and the group with its rows alone.
    """
    frame = averages.group.frame
    sharded = frame.loc[frame["method_name"] == METHOD, ["method_config", "row", "label"]]
    settings: dict[str, dict[tuple[str, str], str]] = {}
    names: dict[str, dict[str, str]] = {factor: {} for factor in BASES}
    for config, row, label in first_of_each(sharded, ["method_config"]).itertuples(index=False):
        tree = json.loads(config)
        parts = [canonical_json(tree["params"].pop(factor)) for factor in BASES]
        for factor, part in zip(BASES, parts, strict=True):
            names[factor].setdefault(part, _level(label, factor, part))
        settings.setdefault(canonical_json(tree), {})[parts[0], parts[1]] = row
    shown = {factor: distinguish(of_factor) for factor, of_factor in names.items()}
    for cells in settings.values():
        rows = {(shown["partitioner"][p], shown["aggregator"][a]): row for (p, a), row in cells.items()}
        levels = {
            factor: tuple(sorted({cell[at] for cell in rows}, key=lambda level: (level != base, level)))
            for at, (factor, base) in enumerate(BASES.items())
        }
        if min(map(len, levels.values())) > 1:
            yield Design(rows, levels), aggregate(narrowed(averages.group, set(rows.values())))


def _level(label: str, factor: str, part: str) -> str:
    """Name a part as the label of its method does, or else by its plain name."""
    try:
        written = parse_bracket(label).arguments.get(factor)
    except UsageError:  # a plugin may label its rows as it likes
        written = None
    return str(json.loads(part)["name"]) if written is None else str(written)
