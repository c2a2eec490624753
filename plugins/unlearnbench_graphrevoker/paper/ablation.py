"""What a method loses without one of its losses, and what loss could have been seen."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import pandas as pd

from unlearnbench.report import (
    PARTITION,
    TRAIN,
    UNLEARN,
    VIEWS,
    Aggregate,
    Paired,
    Table,
    aggregate,
    by_group,
    corrected_paired_t,
    detectable_difference,
    formatting,
    holm,
    narrowed,
    origin_notes,
    overlap,
    paired_differences,
    reason_notes,
    scores,
    shown_count,
    shown_names,
    shown_statuses,
    time_notes,
    with_facets,
)
from unlearnbench_graphrevoker.paper.designs import ABLATIONS, WHOLE, Designs, find_designs

TIMES = (UNLEARN, TRAIN, PARTITION)


@dataclass(frozen=True)
class Loss:
    """A design against the whole method in one view.

    Args:
        paired: What the paired test of design - whole.
        adjusted: The p-value after Holm; None for a design that lacks a repetition.
        detectable: The smallest true difference found with 80 % power; None without a variance.
    """

    paired: Paired
    adjusted: float | None
    detectable: float | None


def ablation_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build one table per whole method that has designs without some loss.

    Args:
        name: A key of `ABLATIONS`.
        averages: A group; others than the rows of the ablation are left out.
    """
    ablated = ABLATIONS[name]
    tables = []
    for designs in find_designs(averages.group, ablated):
        part = aggregate(narrowed(averages.group, set(designs.rows.values())))
        labels = {row: ablated.design(zero) for zero, row in designs.rows.items()}
        tables.append(_table(name, part, designs, labels))
    return tables


def losses(averages: Aggregate, designs: Designs, view: str, ratio: float) -> dict[str, Loss]:
    """Compare every design with the whole method; all designs of one view are one family.

    Args:
        averages: The group, with the rows of the ablation alone.
        designs: Which rows those are.
        view: The view.
        ratio: n_test/n_train, as `overlap` gives it.
    """
    whole = scores(averages, designs.whole, view)
    tests = {
        row: corrected_paired_t(paired_differences(scores(averages, row, view), whole), ratio)
        for row in designs.rows.values()
        if row != designs.whole
    }
    family = [row for row, test in tests.items() if test.n == averages.group.units]
    adjusted = dict(zip(family, holm([tests[row].p for row in family]), strict=True))
    return {row: Loss(test, adjusted.get(row), _detectable(test)) for row, test in tests.items()}


def _detectable(test: Paired) -> float | None:
    if test.standard_error is None or test.degrees_of_freedom is None:
        return None
    return detectable_difference(test.standard_error, test.degrees_of_freedom)


def _table(name: str, averages: Aggregate, designs: Designs, labels: dict[str, str]) -> Table:
    ratio, formula = overlap(averages)
    data = averages.data.set_index("method", drop=False).loc[list(designs.rows.values())].reset_index(drop=True)
    marks = {
        row: shown.removeprefix(row) for row, shown in zip(averages.data["method"], shown_names(averages), strict=True)
    }
    by_view = {view: losses(averages, designs, view, ratio) for view in VIEWS}
    shown = pd.DataFrame({"design": [labels[row] + marks[row] for row in data["method"]]})
    shown["n"] = [shown_count(int(row["n"]), int(row["expected"])) for _, row in data.iterrows()]
    for view in VIEWS:
        cells = [_shown(row, view, by_view[view].get(row["method"])) for _, row in data.iterrows()]
        for head, texts in zip(
            (f"F1 {view} %", f"{view}: change pt", f"{view}: p"), zip(*cells, strict=True), strict=True
        ):
            shown[head] = list(texts)
    for column in TIMES:
        shown[column.title] = [column.text(row) for _, row in data.iterrows()]
    status = shown_statuses(data)
    if any(status):
        shown["status"] = status
    raw = pd.DataFrame(
        [
            _raw(row, view, labels, designs, by_view[view].get(row["method"]))
            for _, row in data.iterrows()
            for view in VIEWS
        ]
    )
    caption = f"Ablation of {designs.whole}, {name.removesuffix('-ablation')}: {averages.group.name}"
    caption += f"; times of machine {averages.machine}." if averages.machine else "."
    facets = with_facets(name, averages, raw, time_machine=averages.machine)
    return Table(name, caption, shown, facets, tuple(_notes(averages, data, by_view, labels, formula)))


def _shown(row: pd.Series[Any], view: str, loss: Loss | None) -> tuple[str, str, str]:
    value, spread = row[f"f1_micro_{view}_mean"], row[f"f1_micro_{view}_sd"]
    score = "" if pd.isna(value) else formatting.percent(value, None if pd.isna(spread) else spread)
    if loss is None or loss.paired.mean is None:
        return score, "", ""
    change = formatting.difference(loss.paired.mean, loss.paired.low, loss.paired.high)
    return score, change, "" if loss.adjusted is None else formatting.probability(loss.adjusted)


def _raw(row: pd.Series[Any], view: str, labels: dict[str, str], designs: Designs, loss: Loss | None) -> dict[str, Any]:
    paired = loss.paired if loss else None
    line = {
        "method": row["method"],
        "design": labels[row["method"]],
        "whole": designs.whole,
        "view": view,
        "n": row[f"f1_micro_{view}_n"],
        "expected": row["expected"],
        "f1_micro_mean": row[f"f1_micro_{view}_mean"],
        "f1_micro_sd": row[f"f1_micro_{view}_sd"],
        "common": paired.n if paired else None,
    }
    names = {"difference": "mean", **{key: key for key in ("standard_error", "degrees_of_freedom", "low", "high", "p")}}
    line |= {column: getattr(paired, field) if paired else None for column, field in names.items()}
    line["p_holm"] = loss.adjusted if loss else None
    line["detectable"] = loss.detectable if loss else None
    for time in ("unlearn", "train", "partition"):
        line |= {f"{time}_seconds_{moment}": row[f"{time}_seconds_{moment}"] for moment in ("mean", "sd")}
    return {**line, "time_n": row["time_n"], "quiet_n": row["quiet_n"], "method_config": row["method_config"]}


def _notes(
    averages: Aggregate, data: pd.DataFrame, by_view: dict[str, dict[str, Loss]], labels: dict[str, str], formula: str
) -> Iterator[str]:
    units = averages.group.units
    yield (
        f"n: repetitions of {units} with status ok, mean ± sample standard deviation (none for n = 1);"
        " a design with fewer has no p-value."
    )
    yield (
        f"change: design - {WHOLE} within repetitions, points, 95 % interval, not widened for Holm; {formula}. p:"
        " two-sided, after Holm; family: all designs in one table and one view."
    )
    for view, tests in by_view.items():
        power = [
            f"{labels[row]} {formatting.points(one.detectable)}"
            for row, one in tests.items()
            if one.detectable is not None
        ]
        if power:
            yield (
                f"Smallest difference detectable with 80 % power, before Holm, points, view {view}: {', '.join(power)}."
            )
    yield from reason_notes(
        (labels[row], view, one.paired) for view, tests in by_view.items() for row, one in tests.items()
    )
    yield from origin_notes(averages, has_views=True)
    yield from time_notes(averages, data, TIMES)
    yield from averages.notes
    yield from (note for note in averages.time_notes if not note.startswith("No ratio"))


ablation = by_group(ablation_tables)
