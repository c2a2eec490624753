"""What the paper says of its method, asked of every cell: its F1, its gap to Retrain, its lead over the others."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.report import (
    ALPHA,
    FEWEST,
    REFERENCE,
    VIEWS,
    Aggregate,
    Paired,
    Published,
    Table,
    TableSource,
    compare_published,
    corrected_paired_t,
    formatting,
    holm,
    mean,
    of_cell,
    origin_notes,
    overlap,
    paired_differences,
    scores,
    with_facets,
)
from unlearnbench_graphrevoker.paper.against import REQUEST, is_papers
from unlearnbench_graphrevoker.paper.designs import METHOD
from unlearnbench_graphrevoker.paper.numbers import PAPER, published

BASELINES = ("sisa", "grapheraser")
"""Methods that the paper puts below its own in every cell."""
HOLDS, REVERSED, OPEN = "holds", "reversed", "not shown"
_SAME = ("protocol_config", "training_config", "device")


@dataclass(frozen=True)
class ClaimedCell:
    """What one cell says in one view.

    Args:
        averages: The records of the cell.
        view: The view.
        n: Repetitions of the method.
        ours: Its mean F1 and the 95 % interval of that.
        printed: The paper's number.
        outside: Whether that lies outside where one further split of ours is expected.
        gap: Method - Retrain within repetitions.
        leads: Baseline to method - baseline within repetitions.
    """

    averages: Aggregate
    view: str
    n: int
    ours: Paired
    printed: Published
    outside: bool | None
    gap: Paired | None
    leads: dict[str, Paired]


def tables(source: TableSource) -> list[Table]:
    """Build the tables of all groups: see `claim_tables`."""
    return claim_tables(source.name, source.groups)


def claim_tables(name: str, groups: Sequence[Aggregate]) -> list[Table]:
    """Build a table for each view, protocol, training and device, with a line for each dataset and model.

    Every method stands there with its defaults. A cell needs the method, both baselines and
    5 repetitions of each, and a number in the paper.

    Args:
        name: `claims`.
        groups: All groups.
    """
    alike: dict[tuple[str, ...], list[Aggregate]] = {}
    for averages in groups:
        facets = averages.group.facets
        of_paper = is_papers(facets["protocol_config"])
        if facets["forget"] == REQUEST and of_paper:
            alike.setdefault(tuple(averages.group.facets[key] for key in _SAME), []).append(averages)
    tables = []
    for cells in alike.values():
        for view in VIEWS:
            claims = [one for averages in cells if (one := claim_of(averages, view)) is not None]
            if claims:
                tables.append(_table(name, view, claims))
    return tables


def claim_of(averages: Aggregate, view: str) -> ClaimedCell | None:
    """Read one cell in one view; None where it lacks something that is compared."""
    printed = of_cell(published("utility"), averages.group.facets["dataset"], averages.group.facets["model"]).get(
        METHOD
    )
    rows = {method: default_row(averages, method) for method in (METHOD, REFERENCE, *BASELINES)}
    if printed is None or printed.f1 is None or not all(rows[method] for method in (METHOD, *BASELINES)):
        return None
    ratio, _ = overlap(averages)
    by_method = {method: scores(averages, row, view) for method, row in rows.items() if row}
    if min(len(by_method[method]) for method in (METHOD, *BASELINES)) < FEWEST:
        return None
    mine = by_method[METHOD]
    reading = compare_published(list(mine.values()), printed.f1, ratio)
    against = {
        method: corrected_paired_t(paired_differences(mine, others), ratio)
        for method, others in by_method.items()
        if method != METHOD
    }
    leads = {method: against[method] for method in BASELINES}
    return ClaimedCell(averages, view, len(mine), reading.mean, printed, reading.outside, against.get(REFERENCE), leads)


def default_row(averages: Aggregate, method: str) -> str:
    """Name the row of a method as it is without any bracket; empty where there is none, or more than one."""
    frame = averages.group.frame
    rows = sorted(set(frame.loc[frame["label"] == method, "row"]))
    return rows[0] if len(rows) == 1 else ""


def verdict(leads: Sequence[Paired], adjusted: Sequence[float | None]) -> str:
    """Return whether the method is shown to be before every baseline, behind one, or neither."""
    shown = [(one.mean or 0.0) if p is not None and p < ALPHA else 0.0 for one, p in zip(leads, adjusted, strict=True)]
    if any(value < 0 for value in shown):
        return REVERSED
    return HOLDS if all(value > 0 for value in shown) else OPEN


def _table(name: str, view: str, claims: list[ClaimedCell]) -> Table:
    tests = [(at, method, one.leads[method]) for at, one in enumerate(claims) for method in BASELINES]
    adjusted = dict(zip([(at, method) for at, method, _ in tests], holm([test.p for *_, test in tests]), strict=True))
    lines, raw = [], []
    for at, one in enumerate(claims):
        ps = [adjusted[at, method] for method in BASELINES]
        conclusion = verdict([one.leads[method] for method in BASELINES], ps)
        lines.append(_shown(one, ps, conclusion))
        raw.append(with_facets(name, one.averages, pd.DataFrame([_raw(one, ps, conclusion)]), against=PAPER))
    facets = claims[0].averages.group.facets
    caption = (
        f"What the paper claims of {METHOD}, view {view}: {len(claims)} cells on {facets['device']},"
        f" forgetting {facets['forget']}."
    )
    return Table(
        name,
        caption,
        pd.DataFrame(lines),
        pd.concat(raw, ignore_index=True),
        tuple(_notes(claims, [line["ordering"] for line in lines])),
    )


def _apart(one: Paired | None) -> str:
    return "" if one is None or one.mean is None else formatting.difference(one.mean, one.low, one.high)


def _from_printed(one: ClaimedCell) -> tuple[float | None, float | None, float | None]:
    """Return ours - published with its interval, which is that of ours: the paper's number is taken as given."""
    printed = one.printed.f1 or 0.0
    mean_, low, high = (
        None if value is None else value - printed for value in (one.ours.mean, one.ours.low, one.ours.high)
    )
    return mean_, low, high


def _shown(one: ClaimedCell, ps: Sequence[float | None], conclusion: str) -> dict[str, str]:
    centre, low, high = _from_printed(one)
    line = {
        "dataset": one.averages.group.facets["dataset"],
        "model": one.averages.group.facets["model"],
        "n": str(one.n),
        "published %": formatting.points(one.printed.f1 or 0.0),
        "ours - published pt": "" if centre is None else formatting.difference(centre, low, high),
        "outside": "x" if one.outside else "",
        "- Retrain pt": _apart(one.gap),
    }
    for method, p in zip(BASELINES, ps, strict=True):
        line[f"- {method} pt"] = _apart(one.leads[method])
        line[f"p {method}"] = "" if p is None else formatting.probability(p)
    return {**line, "ordering": conclusion}


def _raw(one: ClaimedCell, ps: Sequence[float | None], conclusion: str) -> dict[str, Any]:
    centre, low, high = _from_printed(one)
    line: dict[str, Any] = {
        "view": one.view,
        "n": one.n,
        "f1_micro_mean": one.ours.mean,
        "published_f1_micro": one.printed.f1,
        "source": one.printed.source,
        "difference": centre,
        "low": low,
        "high": high,
        "is_outside": one.outside,
    }
    pairs = [(REFERENCE, one.gap, None), *((m, one.leads[m], p) for m, p in zip(BASELINES, ps, strict=True))]
    for method, paired, p in pairs:
        for key in ("n", "mean", "low", "high", "p"):
            line[f"to_{method}_{key}"] = getattr(paired, key) if paired else None
        if method != REFERENCE:
            line[f"to_{method}_p_holm"] = p
    return {**line, "ordering": conclusion}


def _notes(claims: list[ClaimedCell], orderings: list[str]) -> Iterator[str]:
    gaps = [one.gap.mean for one in claims if one.gap is not None and one.gap.mean is not None]
    centre = mean(gaps)
    if centre is not None:
        yield (
            f"Mean gap to Retrain over {len(gaps)} cells: {formatting.points(centre)} points, from"
            f" {formatting.points(min(gaps))} to {formatting.points(max(gaps))}."
        )
    counts = ", ".join(f"{word} in {orderings.count(word)}" for word in (HOLDS, OPEN, REVERSED))
    yield f"Ordering {METHOD} above {' and '.join(BASELINES)}: {counts} of {len(claims)} cells."
    _, formula = overlap(claims[0].averages)
    yield (
        "Every method with its defaults. ours - published: with the 95 % interval of our mean;"
        " outside: x where the published number lies outside where one further split of ours is expected"
        " with 95 %."
    )
    yield f"Differences: within repetitions, points, 95 % interval, not widened for Holm. All intervals: {formula}."
    yield (
        f"p: two-sided, after Holm; family: all comparisons with {' and '.join(BASELINES)} of this table."
        f" {HOLDS}: above both with p < {ALPHA:g}; {REVERSED}: below one of them with p < {ALPHA:g}; else {OPEN}."
    )
    yield from origin_notes(*(one.averages for one in claims), has_views=True)
    yield from dict.fromkeys(note for one in claims for note in one.averages.notes)
