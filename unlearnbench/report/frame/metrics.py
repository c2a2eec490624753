"""Which metric a table shows, and how it is named and written."""

from __future__ import annotations

from collections.abc import Callable, Collection

import pandas as pd

from unlearnbench.datasets.catalogue_of_graphs import HEADLINES
from unlearnbench.errors import UsageError, unknown_name
from unlearnbench.report.frame.frame import NUMBERS, TEXT, TRUTHS
from unlearnbench.report.tables import formatting

MICRO_F1 = "f1_micro"
# Short and long names of the package's own, which are shares.
_NAMES = {
    MICRO_F1: ("F1", "Micro-F1"),
    "f1_macro": ("macro-F1", "Macro-F1"),
    "roc_auc": ("AUC", "ROC AUC"),
    "average_precision": ("AP", "Average precision"),
    "accuracy_affected": ("affected accuracy", "Accuracy on affected classes"),
    "accuracy_remaining": ("remaining accuracy", "Accuracy on remaining classes"),
}
_ALIASES = {"micro_f1": MICRO_F1, "macro_f1": "f1_macro"}
_OTHER = {*TEXT, *NUMBERS, *TRUTHS, "repetition", "seed", "threads", "row"}
_MOMENTS = ("_before", "_clean", "_fresh")


def short_name(metric: str) -> str:
    """Return the name of a metric in the head of a column, with the unit: `F1 shard %` is of F1."""
    return _NAMES[metric][0] if metric in _NAMES else metric


def long_name(metric: str) -> str:
    """Return the name of a metric as a caption begins with it."""
    return _NAMES[metric][1] if metric in _NAMES else metric


def unit(metric: str) -> str:
    """Return what stands behind the name in the head of a column; the scale of a plugin's metric is its own."""
    return " %" if metric in _NAMES else ""


def writer(metric: str) -> Callable[[float, float | None], str]:
    """Return what writes a value of a metric."""
    return formatting.percent if metric in _NAMES else formatting.fourths


def headline(dataset: str) -> str:
    """Return the metric that papers report of a dataset."""
    return HEADLINES.get(dataset, MICRO_F1)


def of_plugins(frame: pd.DataFrame) -> list[str]:
    """List the metrics in a frame that are not the package's own."""
    names = [str(name) for name in frame.columns if name not in _OTHER]
    return [name for name in names if not (name.startswith("val_") or name.endswith(_MOMENTS) or name in _NAMES)]


def find_metric(text: str, frame: pd.DataFrame) -> str:
    """Find a metric by its name, with hyphens or not: `macro-f1`, `f1_macro`, `roc-auc`.

    Raises:
        UsageError: No record has it, and it is none of the package's own.
    """
    plain = text.lower().replace("-", "_")
    known = [*_NAMES, *of_plugins(frame)]
    metric = text if text in known else _ALIASES.get(plain, plain)
    if metric not in known:
        raise unknown_name("metric", text, known)
    return metric


def check_shown(table: str, shown_by: Collection[str]) -> None:
    """Refuse to show another metric in a table that has none or its own.

    Raises:
        UsageError: The table is none of those that do.
    """
    if table not in shown_by:
        raise UsageError(
            f"Table {table} shows no metric of choice.", f"Leave `metric` out; it is for: {', '.join(shown_by)}."
        )
