"""Every partitioner with every aggregator: which of the two earns the gain."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import parse_bracket
from unlearnbench.report.frame.aggregate import Aggregate, aggregate
from unlearnbench.report.frame.contrasts import Scores, differences_by_unit, overlap, reason_notes, scores
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.plain_rows import Row, plain_rows
from unlearnbench.report.frame.record_groups import distinguish, first_of_each, narrowed
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.comparison import FEWEST, MARKED, Family, compare
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.table import Table, origin_notes, shown_count, with_facets
from unlearnbench.statistics import Paired, corrected_paired_t, holm

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


@dataclass(frozen=True)
class Effect:
    """What a level of a factor gains over the factor's base, averaged over levels of the other factor (`over`).

    `paired` is the test of level - base, within repetitions.
    """

    factor: str
    level: str
    over: tuple[str, ...]
    paired: Paired


def factorial_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build for each set of rows that forms a grid its matrix of F1 and the main effects; other rows are left out."""
    tables = []
    for design, part in find_grids(averages):
        ratio, formula = overlap(part)
        tables += [matrix(name, part, design, ratio), _effects(name, part, design, ratio, formula)]
    return tables


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


def main_effects(averages: Aggregate, design: Design, view: str, ratio: float) -> list[Effect]:
    """Compare each level of a factor with its base, averaged over the levels of the other factor.

    The average is over those levels of the other factor with which both have records; repetitions
    count where all of these have one. `ratio` is n_test/n_train, as `overlap` returns it.
    """
    effects = []
    for factor, base in BASES.items():
        (other,) = BASES.keys() - {factor}
        levels = design.levels[factor]
        for level in levels[1:] if base in levels else ():
            pairs: dict[str, Scores] = {}
            for along in design.levels[other]:
                cells = ((one, along) if factor == "partitioner" else (along, one) for one in (level, base))
                mine, others = map(design.rows.get, cells)
                if mine and others:
                    gains = differences_by_unit(scores(averages, mine, view), scores(averages, others, view))
                    pairs |= {along: gains} if gains else {}
            units = sorted(set.intersection(*map(set, pairs.values()))) if pairs else []
            averaged = [sum(gains[unit] for gains in pairs.values()) / len(pairs) for unit in units]
            effects.append(Effect(factor, level, tuple(pairs), corrected_paired_t(averaged, ratio)))
    return effects


def matrix(name: str, averages: Aggregate, design: Design, ratio: float) -> Table:
    """Build the matrix of F1 of one grid; `ratio` is n_test/n_train, as `overlap` returns it."""
    data = {str(row["method"]): row for row in plain_rows(averages.data)}
    families = {view: compare(averages, view, ratio) for view in VIEWS}
    lines: list[dict[str, str]] = []
    raw: list[dict[str, Any]] = []
    marked: set[tuple[int, str]] = set()
    for view in VIEWS:
        for partitioner in design.levels["partitioner"]:
            line = {"view": view, "partitioner": partitioner} | dict.fromkeys(design.levels["aggregator"], "")
            for aggregator in design.levels["aggregator"]:
                if (row := design.rows.get((partitioner, aggregator))) is not None:
                    line[aggregator] = _cell(data[row], view)
                    raw.append(_raw(data[row], view, partitioner, aggregator, families[view]))
                    if row in families[view].marked:
                        marked.add((len(lines), aggregator))
            lines.append(line)
    caption = f"Partitioners (rows) with aggregators (columns), micro-F1 %: {averages.group.name}."
    facets = with_facets(name, averages, pd.DataFrame(raw))
    notes = tuple(_matrix_notes(averages, design, bool(marked)))
    return Table(name, caption, pd.DataFrame(lines), facets, notes, frozenset(marked))


def _cell(row: Row, view: str) -> str:
    value, spread = row[f"f1_micro_{view}_mean"], row[f"f1_micro_{view}_sd"]
    if pd.isna(value):
        return ""
    text = formatting.percent(value, None if pd.isna(spread) else spread)
    return text if row["n"] == row["expected"] else f"{text} (n {row['n']})"


def _raw(row: Row, view: str, partitioner: str, aggregator: str, family: Family) -> dict[str, Any]:
    return {
        "method": row["method"],
        "view": view,
        "partitioner": partitioner,
        "aggregator": aggregator,
        "n": row[f"f1_micro_{view}_n"],
        "expected": row["expected"],
        "f1_micro_mean": row[f"f1_micro_{view}_mean"],
        "f1_micro_sd": row[f"f1_micro_{view}_sd"],
        "best": family.best,
        "p_holm": family.adjusted.get(row["method"]),
        "is_marked": row["method"] in family.marked,
        "method_config": row["method_config"],
    }


def _matrix_notes(averages: Aggregate, design: Design, has_marks: bool) -> Iterator[str]:
    units = averages.group.units
    yield (
        f"n: repetitions of {units} with status ok, mean ± sample standard deviation (none for n = 1); a cell with"
        " fewer says how many and is not ranked."
    )
    if has_marks:
        yield MARKED
    elif units < FEWEST:
        yield f"Nothing is marked: fewer than {FEWEST} common repetitions."
    wanted = [(p, a) for p in design.levels["partitioner"] for a in design.levels["aggregator"]]
    absent = [f"{p} with {a}" for p, a in wanted if (p, a) not in design.rows]
    if absent:
        yield f"No record: {', '.join(absent)}."
    yield from origin_notes(averages, has_views=True)
    yield from details(averages.notes)


def _effects(name: str, averages: Aggregate, design: Design, ratio: float, formula: str) -> Table:
    lines, raw, reasons = [], [], []
    for view in VIEWS:
        effects = main_effects(averages, design, view, ratio)
        family = [one for one in effects if one.paired.n == averages.group.units]
        adjusted = dict(zip(family, holm([one.paired.p for one in family]), strict=True))
        for one in effects:
            paired, p = one.paired, adjusted.get(one)
            head: dict[str, Any] = {"view": view, "factor": one.factor, "level": one.level, "over": BASES[one.factor]}
            texts = (
                shown_count(paired.n, averages.group.units),
                str(len(one.over)),
                "" if paired.mean is None else formatting.difference(paired.mean, paired.low, paired.high),
                "" if p is None else formatting.probability(p),
            )
            lines.append((*head.values(), *texts))
            found_by_test = {key: value for key, value in asdict(paired).items() if key not in ("n", "ratio", "reason")}
            head |= {"common": paired.n, "expected": averages.group.units, "averaged_over": "; ".join(one.over)}
            raw.append({**head, **found_by_test, "p_holm": p})
            reasons.append((one.level, view, paired))
    heads = ["view", "factor", "level", "over", "n", "averaged over", "gain pt", "p"]
    caption = f"What each partitioner and each aggregator gains: {averages.group.name}."
    facets = with_facets(name, averages, pd.DataFrame(raw, columns=None if raw else heads), part="main effects")
    notes = tuple(_effect_notes(averages, design, formula, reasons))
    return Table(name, caption, pd.DataFrame(lines, columns=heads), facets, notes)


def _effect_notes(
    averages: Aggregate, design: Design, formula: str, reasons: list[tuple[str, str, Paired]]
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
    for factor, base in BASES.items():
        if base not in design.levels[factor]:
            yield f"No gain of any {factor}: {base}, which others are measured against, has no record here."
    yield from reason_notes(reasons)
    yield from origin_notes(averages, has_views=True)
    yield from details(averages.notes)
