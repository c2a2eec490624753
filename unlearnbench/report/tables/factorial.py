"""Every partitioner with every aggregator: F1 of each pair, and which of the two earns the gain."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pandas as pd

from unlearnbench.report.frame.aggregate import Aggregate
from unlearnbench.report.frame.contrasts import overlap
from unlearnbench.report.frame.frame import VIEWS
from unlearnbench.report.frame.plain_rows import Row, plain_rows
from unlearnbench.report.tables import formatting
from unlearnbench.report.tables.comparison import FEWEST, MARKED, Family, compare
from unlearnbench.report.tables.factorial_design import Design, find_grids
from unlearnbench.report.tables.factorial_effects import effects, main_effects_table, simple_effects_table
from unlearnbench.report.tables.notes import details
from unlearnbench.report.tables.table import Table, origin_notes, with_facets


def factorial_tables(name: str, averages: Aggregate) -> list[Table]:
    """Build for each set of rows that forms a grid its matrix of F1, and what each part gains; others are left out."""
    tables = []
    for design, part in find_grids(averages):
        ratio, formula = overlap(part)
        found = {view: effects(part, design, view, ratio) for view in VIEWS}
        simple, main = ({view: both[at] for view, both in found.items()} for at in (0, 1))
        tables += [
            matrix(name, part, design, ratio),
            simple_effects_table(name, part, simple, formula),
            main_effects_table(name, part, design, main, formula),
        ]
    return tables


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
