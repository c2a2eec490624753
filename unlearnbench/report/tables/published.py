"""Published numbers: read from a CSV, each with the table and the row it is printed in."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from unlearnbench.report.tables import formatting


@dataclass(frozen=True)
class Published:
    """One row of a published table, for one dataset and model.

    Args:
        source: Table and row.
        f1: Micro-F1, a share; None where the table has none.
        sd: Its spread as printed, a share.
        seconds: The unlearning time; None where the table has none.
        at: Its place among all published rows, from 0.
    """

    source: str
    f1: float | None = None
    sd: float | None = None
    seconds: float | None = None
    at: int = 0

    def shown(self) -> str:
        """Write F1 with its spread."""
        return "" if self.f1 is None else formatting.percent(self.f1, self.sd)


def read_published(path: Path) -> pd.DataFrame:
    """Read a published table as it is printed.

    Args:
        path: A CSV whose columns `table` and `row` name where a number is printed; `dataset`, `model`
            and `method` what it is of, as this package names them; `f1_micro` and `sd` are in percent,
            `unlearn_seconds` in seconds. Other columns are left as they are.
    """
    return pd.read_csv(path, keep_default_na=False)


def of_cell(frame: pd.DataFrame, dataset: str, model: str) -> dict[str, Published]:
    """Return what is printed for a dataset and a model, by method."""
    part = frame[(frame["dataset"] == dataset) & (frame["model"] == model)]
    return {
        str(row["method"]): Published(
            f"{row['table']}: {row['row']}",
            float(row["f1_micro"]) / 100 if "f1_micro" in row else None,
            float(row["sd"]) / 100 if "sd" in row else None,
            float(row["unlearn_seconds"]) if "unlearn_seconds" in row else None,
            at,
        )
        for at, (_, row) in zip(part.index, part.iterrows(), strict=True)
    }
