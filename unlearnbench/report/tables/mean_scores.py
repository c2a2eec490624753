"""Scores of audits of several requests as means: what the table `audits` shows, whose CSV has every record."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import fmean

import pandas as pd

from unlearnbench.report.frame.plain_rows import Row
from unlearnbench.statistics import Ratio, corrected_paired_t, ratio_of_means

CANNOT_TELL = "cannot tell"
ENERGY = "energy"
"""The measure behind a verdict of `exactness`."""
OWN = ", own"
"""How the place of a distance ends that is measured from the method's own pipeline trained anew."""


def mean_scores(rows: Sequence[Row]) -> list[Row]:
    """Average the scores of each method by measure and place.

    A repetition of several machines counts once. Numbers that are no evidence count only where all are such.

    Args:
        rows: Scores of one audit, as `load_audits` has them.

    Returns:
        Rows of the same form. `n` says how many scores are evidence, and of how many if not of all: the mean is
        theirs. The interval is Student's over them, or a single score's own; a mean has no p and no runs.
    """
    of_each: dict[tuple[str, str, str], dict[tuple[str, int], Row]] = {}
    for row in sorted(rows, key=lambda row: str(row["machine"])):
        place = of_each.setdefault((row["method_config"], row["measure"], row["where"]), {})
        place.setdefault((str(row["seed"]), row["repetition"]), row)
    # In the order of the rows that were given, not of machines.
    order = dict.fromkeys((row["method_config"], row["measure"], row["where"]) for row in rows)
    return [_mean(list(of_each[place].values())) for place in order]


def _mean(rows: Sequence[Row]) -> Row:
    known = [row for row in rows if not pd.isna(row["value"])]
    sound = [row for row in known if row["state"] != CANNOT_TELL]
    count = str(len(sound)) if len(sound) == len(rows) else f"{len(sound)}/{len(rows)}"
    counted = sound or known or rows
    first = {**counted[0], "n": count}
    if len(counted) == 1:
        return first
    # Student's: the splits of repetitions overlap, and this does not allow for it.
    mean = corrected_paired_t([row["value"] for row in counted], 0.0)
    return {
        **first,
        **{name: _mean_of(counted, name) for name in ("floor", "noop")},
        "effect": float("nan") if (effect := mean_effect(counted).value) is None else effect,
        "value": float("nan") if mean.mean is None else mean.mean,
        "low": float("nan") if mean.low is None else mean.low,
        "high": float("nan") if mean.high is None else mean.high,
        "p": float("nan"),
        "runs": pd.NA,
    }


def mean_effect(rows: Sequence[Row]) -> Ratio:
    """Average effects over requests, with an interval.

    Distances are averaged before they are divided by those of the untouched model: a request that hardly changes that
    one would rule a mean of ratios. Other effects are relative to a floor, too, and are averaged as they are.
    """
    known = [row for row in rows if not pd.isna(row["effect"])]
    if known and all(_is_over_noop(row) for row in known):
        return ratio_of_means([row["value"] for row in known], [row["noop"] for row in known])
    mean = corrected_paired_t([row["effect"] for row in known], 0.0)
    return Ratio(mean.n, mean.mean, mean.low, mean.high)


def counted(rows: Sequence[Row]) -> list[Row]:
    """Return the rows that are evidence, or all where none is."""
    return [row for row in rows if row["state"] != CANNOT_TELL] or list(rows)


def _is_over_noop(row: Row) -> bool:
    """Whether the effect of a score is its value over that of the untouched model."""
    over = row["measure"] == ENERGY or str(row["where"]).endswith(OWN)
    return over and not pd.isna(row["value"]) and not pd.isna(row["noop"])


def _mean_of(rows: Sequence[Row], name: str) -> float:
    known = [row[name] for row in rows if not pd.isna(row[name])]
    return fmean(known) if known else float("nan")
