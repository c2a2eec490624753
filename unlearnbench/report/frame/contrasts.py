"""Two rows of a table compared within repetitions."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping

import pandas as pd

from unlearnbench.errors import DataError
from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.statistics import Paired

Scores = Mapping[tuple[int, int], float]


def scores(averages: Aggregate, row: str, view: str) -> Scores:
    """Map (seed, repetition) to the metric after the request of a row in a view, where there is one."""
    return averages.scores.get((row, view), {})


def paired_differences(mine: Scores, others: Scores) -> list[float]:
    """List mine - others over the repetitions that both have."""
    return list(differences_by_unit(mine, others).values())


def differences_by_unit(mine: Scores, others: Scores) -> Scores:
    """Map each repetition that both have to mine - others."""
    return {unit: mine[unit] - others[unit] for unit in sorted(mine.keys() & others.keys())}


def overlap(averages: Aggregate) -> tuple[float, str]:
    """Return n_test/n_train for the corrected variance, and the formula in words.

    Raises:
        DataError: The records do not say how nodes were split.
    """
    split = json.loads(averages.group.facets["protocol_config"]).get("split")
    if split == "own":
        return 0.0, (
            "variance of the R differences times 1/R, t with R-1 degrees of freedom (plain paired t-test: all"
            " repetitions share the dataset's own split)"
        )
    if isinstance(split, list) and len(split) == 3 and min(split) > 0:
        train, _, test = (float(share) for share in split)
        return test / train, (
            f"variance of the R differences times (1/R + {test:g}/{train:g}), t with R-1 degrees of freedom (corrected"
            " resampled t-test, Nadeau and Bengio 2003: training sets overlap)"
        )
    raise DataError(
        f"{averages.group.name}: the split of the records is {split!r}.",
        "Repetitions are compared where it is `own` or the shares of training, validation and test nodes.",
    )


def with_claim(averages: Aggregate, claim: str) -> set[str]:
    """Name the rows that any record says this claim of."""
    return set(averages.chosen.loc[averages.chosen["claim"] == claim, "row"])


def reason_notes(contrasts: Iterable[tuple[str, str, Paired]]) -> Iterator[str]:
    """Report once for each reason which (method, view) it holds for."""
    listed = pd.DataFrame([(one.reason, f"{row} ({view})") for row, view, one in contrasts], columns=["why", "where"])
    for why, part in listed[listed["why"] != ""].groupby("why", sort=True):
        yield f"{', '.join(part['where'])}: {why}."
