"""Unlearning power: how much of what wrong nodes destroyed comes back when they are forgotten."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, shown_names, shown_statuses, with_facets
from unlearnbench.statistics.averages import mean, sample_sd

MOMENTS = {"clean": "f1_micro_clean", "poisoned": "f1_micro_before", "unlearned": "f1_micro", "fresh": "f1_micro_fresh"}
"""What a table calls a moment, to the column of the frame."""
LEAST_HARM = 0.005
"""Of micro-F1: with less lost there is nothing to recover."""


@dataclass(frozen=True)
class Power:
    """What poison did to a method in one view, over the n repetitions with all moments; None where not defined.

    `recovery` is (unlearned - poisoned)/(clean - poisoned) of the means, `recovery_fresh` the same with `fresh` in
    place of `unlearned`.
    """

    n: int
    means: Mapping[str, float | None]
    spreads: Mapping[str, float | None]
    recovery: float | None
    recovery_fresh: float | None


def power(by_moment: Mapping[str, list[float]]) -> Power:
    """Average moments over repetitions and form both recoveries; each of `MOMENTS` has one micro-F1 a repetition."""
    means = {moment: mean(values) for moment, values in by_moment.items()}
    spreads = {moment: sample_sd(values) for moment, values in by_moment.items()}
    recoveries = (recovery(means["clean"], means["poisoned"], means[moment]) for moment in ("unlearned", "fresh"))
    return Power(len(by_moment["clean"]), means, spreads, *recoveries)


def recovery(clean: float | None, poisoned: float | None, healed: float | None) -> float | None:
    """Return the share of the damage that was undone; None where the poison did less than half a point of harm."""
    if clean is None or poisoned is None or healed is None:
        return None
    harm = clean - poisoned
    # Half a point exactly counts as harm, however it was rounded.
    return None if round(harm, 12) < LEAST_HARM else (healed - poisoned) / harm


def poison_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build the table of a group; none if nothing was injected in its records."""
    if not set(MOMENTS.values()) <= set(averages.chosen) or averages.chosen[MOMENTS["clean"]].isna().all():
        return []
    names, status = shown_names(averages), shown_statuses(averages.data)
    lines, raw = [], []
    for view in VIEWS:
        for at, (row, config) in enumerate(zip(averages.data["method"], averages.data["method_config"], strict=True)):
            one, units = power(_moments(averages, row, view)), averages.group.units
            lines.append({"method": names[at], "view": view, **_shown(one, units), "status": status[at]})
            raw.append({"method": row, "view": view, **_raw(one, units), "method_config": config})
    heads = [head for head in lines[0] if head != "status" or any(status)]
    facets = with_facets(name, averages, pd.DataFrame(raw))
    caption = f"Unlearning power: {averages.group.name}."
    return [Table(name, caption, pd.DataFrame(lines, columns=heads), facets, tuple(_notes(averages)))]


def wrong_things(averages: Aggregate) -> tuple[str, str]:
    """Name what is wrong in the data of a group, and what of it is requested to be forgotten."""
    protocol = json.loads(averages.group.facets["protocol_config"])
    poison = protocol["poison"]
    injected = "injected features" if protocol["forget"]["kind"] == "feature" else "injected nodes"
    wrong = {"label": "mislabelled nodes", "edge": "spurious edges"}.get(poison.get("manipulation"), injected)
    known = poison.get("known", 1)
    return wrong, "them" if known == 1 else f"the {100 * known:g} % of them that are known"


def _moments(averages: Aggregate, row: str, view: str) -> dict[str, list[float]]:
    """List micro-F1 at each moment over the repetitions that have them all."""
    cells = averages.chosen[(averages.chosen["row"] == row) & (averages.chosen["view"] == view)]
    complete = cells[cells["status"] == "ok"].dropna(subset=list(MOMENTS.values()))
    return {moment: [float(value) for value in complete[column]] for moment, column in MOMENTS.items()}


def _shown(one: Power, units: int) -> dict[str, str]:
    texts = {"n": shown_count(one.n, units)}
    for moment, value in one.means.items():
        texts[f"{moment} %"] = "" if value is None else formatting.percent(value, one.spreads[moment])
    for head, share in (("recovery", one.recovery), ("recovery, fresh", one.recovery_fresh)):
        texts[head] = "" if not one.n else "NA" if share is None else formatting.hundredths(share)
    return texts


def _raw(one: Power, units: int) -> dict[str, Any]:
    line: dict[str, Any] = {"n": one.n, "expected": units}
    for moment in MOMENTS:
        line |= {f"{moment}_mean": one.means[moment], f"{moment}_sd": one.spreads[moment]}
    return {**line, "recovery": one.recovery, "recovery_fresh": one.recovery_fresh}


def _notes(averages: Aggregate) -> Iterator[str]:
    yield (
        f"n: repetitions of {averages.group.units} with status ok, mean ± sample standard deviation (none for n = 1);"
        " micro-F1 on the test nodes."
    )
    wrong, known = wrong_things(averages)
    yield (
        f"clean: trained without the {wrong}; poisoned: trained with them; unlearned: after forgetting {known},"
        " with the partition they took part in; fresh: trained anew without them by other chance, on a partition of its"
        " own."
    )
    yield (
        "recovery: (unlearned - poisoned)/(clean - poisoned) of the means, 1 where all of the damage is undone; NA"
        f" where the poison cost less than {100 * LEAST_HARM:g} points. recovery, fresh: with fresh in place of"
        " unlearned; the gap between both is what the kept partition costs."
    )
    yield from origin_notes(averages, has_views=True)
    yield from details(averages.notes)
