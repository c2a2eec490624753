"""What a partitioner or an aggregator gains: with each level of the other factor, and averaged over them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import Scores, differences_by_unit, reason_notes, scores
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.factorial_design import BASES, Design
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, with_facets
from unlearnbench.statistics import Paired, corrected_paired_t, equal_means_p, holm


@dataclass(frozen=True)
class Effect:
    """What a level of a factor gains over the factor's base, within repetitions.

    Args:
        factor: `partitioner` or `aggregator`.
        level: The level.
        over: Levels of the other factor that the gain is averaged over.
        paired: The test of level - base.
        interaction: p of the test that the gain is the same with every level of `over`; None: it cannot be made.
    """

    factor: str
    level: str
    over: tuple[str, ...]
    paired: Paired
    interaction: float | None = None


def effects(averages: Aggregate, design: Design, view: str, ratio: float) -> tuple[list[Effect], list[Effect]]:
    """Compare each level of a factor with its base.

    Args:
        averages: The group.
        design: Its grid.
        view: `shard` or `full`.
        ratio: n_test/n_train, as `overlap` returns it.

    Returns:
        Simple effects, with one level of the other factor each; and main effects, averaged over those levels of the
        other factor with which both have records, in the repetitions that all of these have.
    """
    simple, main = [], []
    for factor, base in BASES.items():
        (other,) = BASES.keys() - {factor}
        levels = design.levels[factor]
        for level in levels[1:] if base in levels else ():
            gains: dict[str, Scores] = {}
            for along in design.levels[other]:
                cells = ((one, along) if factor == "partitioner" else (along, one) for one in (level, base))
                mine, others = map(design.rows.get, cells)
                if mine and others:
                    found = differences_by_unit(scores(averages, mine, view), scores(averages, others, view))
                    gains |= {along: found} if found else {}
            for along, found in gains.items():
                values = [found[unit] for unit in sorted(found)]
                simple.append(Effect(factor, level, (along,), corrected_paired_t(values, ratio)))
            units = sorted(set.intersection(*map(set, gains.values()))) if gains else []
            table = [[found[unit] for found in gains.values()] for unit in units]
            paired = corrected_paired_t([sum(row) / len(row) for row in table], ratio)
            main.append(Effect(factor, level, tuple(gains), paired, equal_means_p(table, ratio)))
    return simple, main


def simple_effects_table(name: str, averages: Aggregate, found: Mapping[str, Sequence[Effect]], formula: str) -> Table:
    """Build the table of what each level gains with each level of the other factor, by view."""
    lines, raw, reasons = [], [], []
    for view, one, p in _with_holm(found, averages.group.units):
        head = {"view": view, "factor": one.factor, "level": one.level, "over": BASES[one.factor], "with": one.over[0]}
        lines.append((*head.values(), *_texts(one.paired, averages.group.units, p)))
        raw.append({**head, **_tested(one.paired, averages.group.units), "p_holm": p})
        reasons.append((f"{one.level} with {one.over[0]}", view, one.paired))
    heads = ["view", "factor", "level", "over", "with", "n", "gain pt", "p"]
    caption = f"What each partitioner and each aggregator gains with each of the others: {averages.group.name}."
    facets = with_facets(name, averages, pd.DataFrame(raw, columns=None if raw else heads), part="simple effects")
    notes = (
        f"gain: level - over, both with the same other part, within repetitions, points of micro-F1, 95 % interval, not"
        f" widened for Holm; {formula}.",
        "p: two-sided, after Holm; family: all rows of one view.",
        *reason_notes(reasons),
        *origin_notes(averages, has_views=True),
        *details(averages.notes),
    )
    return Table(name, caption, pd.DataFrame(lines, columns=heads), facets, notes)


def main_effects_table(
    name: str, averages: Aggregate, design: Design, found: Mapping[str, Sequence[Effect]], formula: str
) -> Table:
    """Build the table of what each level gains on average, by view, and whether the average hides differences."""
    lines, raw, reasons = [], [], []
    for view, one, p in _with_holm(found, averages.group.units):
        head: dict[str, Any] = {"view": view, "factor": one.factor, "level": one.level, "over": BASES[one.factor]}
        count, gain, shown_p = _texts(one.paired, averages.group.units, p)
        same = "" if one.interaction is None else formatting.probability(one.interaction)
        lines.append((*head.values(), count, str(len(one.over)), gain, shown_p, same))
        tested = {"averaged_over": "; ".join(one.over), "interaction_p": one.interaction, "p_holm": p}
        raw.append({**head, **_tested(one.paired, averages.group.units), **tested})
        reasons.append((one.level, view, one.paired))
    heads = ["view", "factor", "level", "over", "n", "averaged over", "gain pt", "p", "interaction p"]
    caption = f"What each partitioner and each aggregator gains on average: {averages.group.name}."
    facets = with_facets(name, averages, pd.DataFrame(raw, columns=None if raw else heads), part="main effects")
    notes = tuple(_notes(averages, design, formula, reasons))
    return Table(name, caption, pd.DataFrame(lines, columns=heads), facets, notes)


def _with_holm(found: Mapping[str, Sequence[Effect]], units: int) -> Iterator[tuple[str, Effect, float | None]]:
    """Yield each effect of each view with its p after Holm over those of the view that have all repetitions."""
    for view, of_view in found.items():
        family = [one for one in of_view if one.paired.n == units]
        adjusted = dict(zip(map(id, family), holm([one.paired.p for one in family]), strict=True))
        for one in of_view:
            yield view, one, adjusted.get(id(one))


def _texts(paired: Paired, units: int, p: float | None) -> tuple[str, str, str]:
    gain = "" if paired.mean is None else formatting.difference(paired.mean, paired.low, paired.high)
    return shown_count(paired.n, units), gain, "" if p is None else formatting.probability(p)


def _tested(paired: Paired, units: int) -> dict[str, Any]:
    values = {key: value for key, value in asdict(paired).items() if key not in ("n", "ratio", "reason")}
    return {"common": paired.n, "expected": units, **values}


def _notes(
    averages: Aggregate, design: Design, formula: str, reasons: Sequence[tuple[str, str, Paired]]
) -> Iterator[str]:
    yield (
        f"n: repetitions of {averages.group.units} that all cells have which are averaged; a level with fewer has no"
        " p-value."
    )
    yield (
        "gain: level - over, each averaged over those levels of the other factor (how many: averaged over) with which"
        f" both have records, within repetitions, points of micro-F1, 95 % interval, not widened for Holm; {formula}."
    )
    yield "p: two-sided, after Holm; family: all levels of both factors in one view."
    yield (
        "interaction p: of the test that the gain is the same whatever the other part is. Where it is small, the"
        " average hides differences: read the gains one by one, in the table before. Not adjusted."
    )
    for factor, base in BASES.items():
        if base not in design.levels[factor]:
            yield f"No gain of any {factor}: {base}, which others are measured against, has no record here."
    yield from reason_notes(list(reasons))
    yield from origin_notes(averages, has_views=True)
    yield from details(averages.notes)
