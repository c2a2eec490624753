"""`unlearnbench reproduce`."""

from __future__ import annotations

import shlex
from dataclasses import replace
from pathlib import Path

import click

from unlearnbench.cli import options
from unlearnbench.errors import NothingMatchedError, UsageError


@click.command("reproduce", cls=options.Command, short_help="Show a paper's table as it is printed, with ours beside.")
@click.argument("plugin")
@click.argument("results", type=options.PATH, default=options.FOLDER_OF_RUNS)
@click.option("--table", "number", metavar="N", help="Its number in the paper.  [default: list the tables]")
@options.style
@click.option("--datasets", "-d", multiple=True, metavar="NAMES", help="Only these datasets.")
@click.option("--models", multiple=True, metavar="NAMES", help="Only these models.")
@click.option("--notes", "all_notes", is_flag=True, help="Print every note below the table, in full.")
@options.debug
def command(
    plugin: str,
    results: Path,
    number: str | None,
    style: str,
    datasets: tuple[str, ...],
    models: tuple[str, ...],
    all_notes: bool,
) -> None:
    """Show a paper's table in its layout, and below each printed line ours, from the records in a folder.

    PLUGIN is the one that brings the paper's tables, such as graphrevoker (`unlearnbench plugins`). Without --table
    they are listed, each with the run that makes its records.

    \b
    Examples:
      unlearnbench reproduce graphrevoker
      unlearnbench reproduce graphrevoker results --table 2 --datasets cora
    """  # noqa: D301
    from unlearnbench.experiments import experiments_with
    from unlearnbench.registry.brackets import split_names
    from unlearnbench.registry.catalogue import Entry
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.report import build_tables
    from unlearnbench.report.frame.frame import frame_of_runs, read_results
    from unlearnbench.report.frame.selection import Selection, select
    from unlearnbench.report.tables.audits import audits_among
    from unlearnbench.report.tables.notes import Command
    from unlearnbench.report.tables.reproduced import laid_out, printed_tables

    catalogue = load_catalogue()
    tables = printed_tables(catalogue, plugin)

    def experiment_of(entry: Entry) -> str:
        return next(experiments_with(entry.name, catalogue, plugin), "")

    if number is None:
        for name, entry in tables.items():
            experiment = experiment_of(entry)
            made = f"; records: unlearnbench run --experiment {experiment}" if experiment else ""
            print(f"{name}  {entry.summary.removesuffix('.')}{made}")
        return
    name = number if number in tables else f"Table {number}"
    if name not in tables:
        raise UsageError(f"The paper of {plugin} has no table {number!r} here.", f"There are: {', '.join(tables)}.")
    entry = tables[name]
    read = read_results(results)
    frame = frame_of_runs(results, *read)
    wanted = Selection(experiment_of(entry), tuple(split_names(datasets)), tuple(split_names(models)))
    frame = select(frame, wanted, catalogue) if wanted.options() else frame
    plain = frame[~frame["label"].str.contains("preset=")]
    if plain.empty:
        raise NothingMatchedError(f"{results}: no record of what {name} shows.", f"unlearnbench run{wanted.options()}")
    audits = audits_among(results, *read) if entry.reads == "both" else None
    found = build_tables(plain, entry.name, str(results), entry.against, audits, catalogue)
    asked = f"{shlex.quote(str(results))} --table {shlex.quote(number)}{replace(wanted, experiment='').options()}"
    made_by = Command(f"Made by: unlearnbench reproduce {plugin} {asked}")
    print(options.printed(laid_out(entry, found, made_by), style, all_notes))
