"""Which tables there are, and how they are built from a data frame."""

from __future__ import annotations

from dataclasses import replace

import pandas as pd

from unlearnbench.errors import NothingMatchedError, UsageError, unknown_name
from unlearnbench.experiments import experiments_with
from unlearnbench.registry.catalogue import Catalogue, Entry
from unlearnbench.registry.loading import FIRST_PARTY, load_catalogue
from unlearnbench.report.frame.aliases import alias_notes
from unlearnbench.report.frame.metrics import check_shown, find_metric
from unlearnbench.report.tables.core import MADE_BY, SCORED
from unlearnbench.report.tables.notes import Command
from unlearnbench.report.tables.source import TableSource
from unlearnbench.report.tables.table import Table


def build_tables(
    frame: pd.DataFrame,
    name: str = "summary",
    source: str = "results",
    against: str = "",
    audits: pd.DataFrame | None = None,
    catalogue: Catalogue | None = None,
    metric: str = "",
) -> list[Table]:
    """Build the tables of each protocol, dataset, model and device that has something to show.

    Args:
        frame: What `load_records` returned, or a part of it; of a table that reads audits alone, what
            `load_audits` returned.
        name: Which table: see `unlearnbench ls table`.
        source: The results folder and what was selected of it, as the user wrote it, for the command below
            the table.
        against: Set our numbers against those that were published under this name.
        audits: What `load_audits` returned, for tables that read both.
        catalogue: Where tables are looked up; default: all plugins.
        metric: Which metric tables of scores show, `macro-f1` for instance; default: what papers report of the
            dataset, micro-F1 for most, and the metrics of plugins.

    Raises:
        UsageError: An unknown table or metric, or a table that there are no such published numbers for, or that
            shows no other metric.
        NothingMatchedError: The frame is empty, or holds nothing that the table shows.
    """
    catalogue = catalogue or load_catalogue()
    entry = find_table(catalogue, name, against)
    if frame.empty and (audits is None or audits.empty):
        raise NothingMatchedError("No record matches.", "Run some cells, or ask for less.")
    problems = [f"Could not be read and is left out: {problem}" for problem in frame.attrs.get("problems", [])]
    if metric:
        check_shown(entry.key if entry.distribution == FIRST_PARTY else name, SCORED)
        metric = find_metric(metric, frame)
    command = command_note(source, name, against, metric)
    builder = catalogue.imported(entry)
    tables = list(builder(TableSource(name, frame, audits, entry.against, metric)))
    if not tables:
        raise _nothing(catalogue, name, against)
    return [
        replace(table, notes=(*table.notes, *alias_notes(table.shown, frame, audits), *problems, command))
        for table in tables
    ]


def command_note(source: str, name: str, against: str = "", metric: str = "") -> Command:
    """Return the last line below a table: the command that makes it."""
    options = f"{f' --against {against}' if against else ''}{f' --metric {metric}' if metric else ''}"
    return Command(f"Made by: unlearnbench report {source} --table {name}{options}")


def find_table(catalogue: Catalogue, name: str, against: str = "") -> Entry:
    """Find the entry of a table.

    Raises:
        UsageError: There is no such table, or there are no such numbers for it.
    """
    entries = [entry for alike in catalogue.entries["table"].values() for entry in alike]
    distribution, colon, plain = name.rpartition(":")
    variants = {entry.against for entry in entries if entry.name == plain}
    if not variants:
        raise catalogue.unknown("table", name, {entry.name for entry in entries}, "List them: unlearnbench ls table.")
    if len(variants) == 1 and variants == {against} != {""}:
        raise UsageError(f"Table {name} always stands against the {against}.", "Leave --against out.")
    if against:
        whose = {entry.against for entry in entries} - {""}
        if against not in whose:
            raise unknown_name("published numbers", against, whose, "List them: unlearnbench ls table.")
        if against not in variants:
            replaced = [e.name for e in entries if e.against == against and catalogue.asked_for(e) != e.name]
            raise UsageError(f"The {against} has no numbers for table {name!r}.", f"It has for: {', '.join(replaced)}.")
    if not against and "" not in variants and len(variants) > 1:
        raise UsageError(
            f"Table {name} always stands against published numbers.",
            f"Say which: {' or '.join(f'--against {one}' for one in sorted(variants))}.",
        )
    whose_numbers = against or ("" if "" in variants else min(variants))
    key = f"{plain} --against {whose_numbers}" if whose_numbers else plain
    return catalogue.find("table", f"{distribution}{colon}{key}")


def _nothing(catalogue: Catalogue, name: str, against: str) -> NothingMatchedError:
    runs = " or ".join(f"`unlearnbench run --experiment {one}`" for one in experiments_with(name, catalogue))
    runs = runs or MADE_BY.get(name, "")
    what = f"stands in the {against}" if against else "is what it compares"
    hint = f"Make such records, for example: {runs}." if runs else ""
    return NothingMatchedError(f"Table {name}: nothing in these records {what}.", hint)
