"""The paper's numbers, and where the paper contradicts itself or its data."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pandas as pd

from unlearnbench.report import NothingMatchedError, parse_bracket, read_published

PAPER = "paper"
_FOLDER = Path(__file__).parent
_OF_F1 = ("utility", "partition-ablation", "aggregation-ablation")


def published(name: str) -> pd.DataFrame:
    """Read a table of the paper as it is printed: see `read_published`."""
    return read_published(_FOLDER / f"{name}.csv")


def zeroed(method: str) -> frozenset[str]:
    """Name the weights that a method of the paper's tables sets to 0: empty for a whole method."""
    return frozenset(key for key, value in parse_bracket(method).arguments.items() if str(value) == "0")


def contradictions(dataset: str, model: str) -> Iterator[str]:
    """Report where the paper prints several numbers for one thing, or one number for several."""
    frames = {name: published(name) for name in _OF_F1}
    seen: dict[str, list[str]] = {}
    for frame in frames.values():
        part = frame[(frame["dataset"] == dataset) & (frame["model"] == model) & (frame["method"] == "graphrevoker")]
        for _, row in part.iterrows():
            seen.setdefault(f"{row['f1_micro']:.2f} ± {row['sd']:.2f}", []).append(str(row["table"]))
    if len(seen) > 1:
        conflict = "; ".join(f"{text} in {' and '.join(tables)}" for text, tables in seen.items())
        yield f"The paper contradicts itself: GraphRevoker with {model} on {dataset} has F1 {conflict}."
    table = frames["utility"]
    for _, row in table[(table["dataset"] == dataset) & (table["model"] == model)].iterrows():
        same = table[table["dataset"] != dataset]
        for column in ("model", "method", "f1_micro", "sd"):
            same = same[same[column] == row[column]]
        for other in same["dataset"]:
            yield (
                f"{row['table']} prints {row['f1_micro']:.2f} ± {row['sd']:.2f} for {row['method']} with {model} on"
                f" {dataset} and on {other} alike: one of them may be a copy."
            )


def nothing_printed(name: str, column: str) -> NothingMatchedError:
    """Make the error of a table that finds nothing of the paper's in the records."""
    there = ", ".join(dict.fromkeys(published(name)[column]))
    return NothingMatchedError(
        f"Table {name}: nothing in these records stands in the {PAPER}.", f"The paper has: {there}."
    )
