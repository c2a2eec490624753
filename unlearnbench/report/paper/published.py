"""The paper's numbers, and where the paper contradicts itself or its data."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import parse_bracket
from unlearnbench.report.tables import formatting

PAPER = "paper"
WITH_NUMBERS = ("utility", "time", "datasets", "partition-ablation", "aggregation-ablation", "characteristics")
"""Tables that the paper has numbers for."""
_FOLDER = Path(__file__).parent
_OF_F1 = ("utility", "partition-ablation", "aggregation-ablation")


@dataclass(frozen=True)
class Published:
    """One row of a table of the paper, for one model.

    Args:
        source: Table and row.
        f1: Micro-F1, a share; None where the table has none.
        sd: Its spread as printed, a share.
        seconds: The unlearning time; None where the table has none.
    """

    source: str
    f1: float | None = None
    sd: float | None = None
    seconds: float | None = None


def published(name: str) -> pd.DataFrame:
    """Read a table of the paper as it is printed: F1 in percent, `table` and `row` say where.

    Raises:
        UsageError: The paper has no such numbers.
    """
    if name not in WITH_NUMBERS:
        raise UsageError(f"The paper has no numbers for table {name!r}.", f"It has for: {', '.join(WITH_NUMBERS)}.")
    return pd.read_csv(_FOLDER / f"{name}.csv", keep_default_na=False)


def of_cell(name: str, dataset: str, model: str) -> dict[str, Published]:
    """Give what the paper prints for a dataset and a model: method as the paper varies it to its numbers."""
    frame = published(name)
    part = frame[(frame["dataset"] == dataset) & (frame["model"] == model)]
    return {
        str(row["method"]): Published(
            f"{row['table']}: {row['row']}",
            float(row["f1_micro"]) / 100 if "f1_micro" in row else None,
            float(row["sd"]) / 100 if "sd" in row else None,
            float(row["unlearn_seconds"]) if "unlearn_seconds" in row else None,
        )
        for _, row in part.iterrows()
    }


def zeroed(method: str) -> frozenset[str]:
    """Name the weights that a method of the paper's tables sets to 0: empty for a whole method."""
    return frozenset(key for key, value in parse_bracket(method).arguments.items() if str(value) == "0")


def contradictions(dataset: str, model: str) -> Iterator[str]:
    """Say where the paper prints several numbers for one thing, or one number for several."""
    frames = {name: published(name) for name in _OF_F1}
    seen: dict[str, list[str]] = {}
    for frame in frames.values():
        part = frame[(frame["dataset"] == dataset) & (frame["model"] == model) & (frame["method"] == "graphrevoker")]
        for _, row in part.iterrows():
            seen.setdefault(f"{row['f1_micro']:.2f} ± {row['sd']:.2f}", []).append(str(row["table"]))
    if len(seen) > 1:
        said = "; ".join(f"{text} in {' and '.join(tables)}" for text, tables in seen.items())
        yield f"The paper contradicts itself: GraphRevoker with {model} on {dataset} has F1 {said}."
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


def shown(one: Published) -> str:
    """Write a published F1 with its spread."""
    return "" if one.f1 is None else formatting.percent(one.f1, one.sd)
