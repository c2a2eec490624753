"""What is known of a method in one plain sentence; what was not measured is left out."""

from __future__ import annotations

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.metrics import short_name, unit
from unlearnbench.report.frame.plain_rows import Row, plain_rows
from unlearnbench.report.frame.record_groups import REFERENCE, retrains

VIEW = "full"
READ = ("method", "method_config", "n", "times_retrain")
"""What `of_costs` reads of each row."""
_VERDICTS = {
    "exact": "forgets exactly",
    "exact-given-partition": "forgets exactly, given its partition",
}


def sentence(
    method: str,
    verdict: str = "",
    distance: float | None = None,
    gain: float | None = None,
    metric: str = "",
    ratio: float | None = None,
) -> str:
    """Say in one sentence what is known of a method; empty where nothing is.

    Args:
        method: Its name.
        verdict: That of the audit exactness.
        distance: From retrained models on the forgotten nodes; 0 is as retrained, 1 as if nothing had been forgotten.
        gain: Its score less that of Retrain.
        metric: The metric of the score.
        ratio: Its unlearning time over Retrain's.
    """
    parts = []
    # A verdict may have its reason in brackets, and a count.
    forgets = _VERDICTS.get(verdict.partition(" (")[0], "")
    if forgets:
        parts.append(forgets)
    elif distance is not None:
        share = max(0.0, min(1.0, 1 - distance))
        parts.append(f"{100 * share:.0f} % of the way to Retrain on the forgotten nodes")
    if gain is not None:
        points = f"{100 * gain:+.1f} points" if unit(metric) else f"{gain:+.3g}"
        parts.append(f"{short_name(metric)} {points}")
    if ratio is not None and ratio > 0:
        factor = 1 / ratio if ratio < 1 else ratio
        shown = f"{factor:.1f}" if factor < 100 else f"{factor:,.0f}"
        how = "as fast as" if shown == "1.0" else f"{shown} times {'faster' if ratio < 1 else 'slower'} than"
        parts.append(f"{how} Retrain")
    return f"{method}: {', '.join(parts)}." if parts else ""


def gains(averages: Aggregate) -> dict[str, float]:
    """Return by configuration how much higher a method's mean score is than Retrain's, where both have one."""
    column, data = f"{averages.metric}_{VIEW}_mean", averages.data
    means = {str(c): float(v) for c, v in zip(data["method_config"], data[column], strict=True) if not pd.isna(v)}
    plain = [config for config, name in zip(data["method_config"], data["method"], strict=True) if name == REFERENCE]
    return {config: mean - means[plain[0]] for config, mean in means.items()} if plain and plain[0] in means else {}


def of_costs(averages: Aggregate) -> tuple[str, ...]:
    """Return the sentences of a group of runs, from scores and times alone."""
    gained = gains(averages)
    return tuple(_of_row(row, gained, averages.metric) for row in plain_rows(averages.data, READ) if _counts(row))


def _of_row(row: Row, gained: dict[str, float], metric: str) -> str:
    ratio = row["times_retrain"]
    return sentence(
        str(row["method"]),
        gain=gained.get(str(row["method_config"])),
        metric=metric,
        ratio=None if pd.isna(ratio) else float(ratio),
    )


def _counts(row: Row) -> bool:
    return bool(row["n"] > 0) and not retrains(str(row["method_config"]))
