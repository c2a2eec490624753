"""`unlearnbench report`."""

from __future__ import annotations

from pathlib import Path

import click
from click.core import ParameterSource

from unlearnbench.cli import options
from unlearnbench.cli.lists import definitions
from unlearnbench.cli.report_page import write_page_and_figures
from unlearnbench.cli.report_tables import Question, write_paper, write_table
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.registry.brackets import split_names
from unlearnbench.registry.builtin import TABLES


@click.command("report", cls=options.Command, short_help="Rebuild tables from records.")
@click.argument("results", type=options.PATH, default=options.FOLDER_OF_RUNS)
@click.option(
    "--table",
    metavar="NAME",
    default="summary",
    show_default=True,
    help=f"Which table: {', '.join(name for name, _ in TABLES)}; --list says what each shows, those of plugins too.",
)
@options.style
@options.as_json
@click.option(
    "--against",
    metavar="NAME",
    default="",
    help="Set our numbers against published ones: `unlearnbench ls table` lists which tables have which.",
)
@click.option(
    "--metric",
    metavar="NAME",
    default="",
    help="Show this metric: macro-f1, roc-auc, average-precision or a plugin's.  [default: what papers report]",
)
@click.option(
    "--figure",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Draw the table poison or stream into this file as well (.png, .pdf or .svg; needs the extra `report`).",
)
@click.option(
    "--html",
    type=options.FOLDER,
    metavar="DIR",
    help="Write everything as one page, DIR/index.html, in place of a table (needs the extra `report`).",
)
@click.option(
    "--figures",
    type=options.FOLDER,
    metavar="DIR",
    help="Draw everything as PNG, PDF and SVG, 3.35 and 7 inches wide, in place of a table (needs the extra `report`).",
)
@click.option("--experiment", metavar="NAME", help="Only the cells that `run --experiment NAME` makes.")
@click.option("--datasets", "-d", multiple=True, metavar="NAMES", help="Only these datasets.")
@click.option("--models", multiple=True, metavar="NAMES", help="Only these models.")
@click.option("--methods", "-m", multiple=True, metavar="NAMES", help="Only these methods, and Retrain.")
@click.option("--protocol", metavar="NAME", default="", help="Only this protocol: www24, poison, tuned.")
@click.option("--forget-kind", type=click.Choice(["node", "edge", "feature"]), help="Only requests of this kind.")
@click.option("--forget-ratio", type=float, help="Only requests of this share of all nodes or edges.")
@click.option("--forget-count", type=int, help="Only requests of so many nodes or edges.")
@click.option("--paper", is_flag=True, help="Write LaTeX for a paper: methods by datasets; with --columns and --wide.")
@click.option(
    "--columns",
    "paper_columns",
    metavar="NAMES",
    default="f1-full,time",
    show_default=True,
    help="Columns of --paper: f1-full, f1-shard, time, seconds, memory.",
)
@click.option("--wide", is_flag=True, help="Make the table of --paper as wide as a page, not a column.")
@click.option("--notes", "all_notes", is_flag=True, help="Print every note below tables, in full.")
@click.option("--list", "list_them", is_flag=True, help="List tables and figures, one line each, and print none.")
@options.debug
@click.pass_context
def command(
    context: click.Context,
    results: Path,
    table: str,
    style: str,
    as_json: bool,
    against: str,
    metric: str,
    figure: Path | None,
    html: Path | None,
    figures: Path | None,
    experiment: str | None,
    datasets: tuple[str, ...],
    models: tuple[str, ...],
    methods: tuple[str, ...],
    protocol: str,
    forget_kind: str | None,
    forget_ratio: float | None,
    forget_count: int | None,
    all_notes: bool,
    list_them: bool,
    paper: bool,
    paper_columns: str,
    wide: bool,
) -> None:
    """Rebuild tables, a page or figures from the records in a folder; default: runs.

    \b
    Examples:
      unlearnbench report
      unlearnbench report results --table utility --experiment graphrevoker-www24 --against paper
      unlearnbench report results --datasets cora --models gcn --methods sisa,graphrevoker --format md
      unlearnbench report results --table forgetting --forget-ratio 0.05
      unlearnbench report --html page
    """  # noqa: D301
    if list_them:
        _list(context)
        return
    _check_there(results)
    if as_json:
        if context.get_parameter_source("style") == ParameterSource.COMMANDLINE:
            raise UsageError("--json and --format exclude each other.", "Leave one of them out.")
        style = "json"
    named, of_models = tuple(split_names(datasets)), tuple(split_names(models))
    chosen = tuple(name for name in split_names(methods) if name != "all")
    size = {"ratio": forget_ratio, "count": forget_count}
    # As for `run`: a size alone is of nodes.
    kind = forget_kind or ("node" if any(value is not None for value in size.values()) else None)
    forget = tuple((name, value) for name, value in {"kind": kind, **size}.items() if value is not None)
    asked = Question(
        table, style, against, metric, experiment or "", named, of_models, chosen, all_notes, protocol, forget
    )
    if paper:
        _refuse_options_of_tables(context, "--paper writes one table of its own.")
        write_paper(results, asked, split_names([paper_columns]), "page" if wide else "column")
    elif html or figures:
        _refuse_options_of_tables(context)
        write_page_and_figures(results, html, figures, asked.wanted)
    else:
        write_table(results, asked, figure)


def _check_there(results: Path) -> None:
    """Name the folder of published records where that of runs is not there and this one is."""
    published = Path("results")
    if results == options.FOLDER_OF_RUNS and not results.exists() and (published / "records").is_dir():
        raise NothingMatchedError(f"{results}: no records.", f"Those in {published}: unlearnbench report {published}")


def _list(context: click.Context) -> None:
    """List the tables and figures there are."""
    from unlearnbench.registry.builtin import FIGURES
    from unlearnbench.registry.loading import load_catalogue

    given = [name for name in context.params if context.get_parameter_source(name) == ParameterSource.COMMANDLINE]
    if set(given) - {"results", "list_them"}:
        raise UsageError("--list prints no table.", "Leave the other options out.")
    catalogue = load_catalogue()
    entries = [(catalogue.asked_for(entry), entry.summary) for entry in catalogue.all("table")]
    print(definitions("Tables, for --table:", entries))
    print()
    print(definitions("Figures, drawn by --figures:", FIGURES))


def _refuse_options_of_tables(
    context: click.Context, why: str = "They say what one table shows; --html and --figures show everything."
) -> None:
    flags = {
        "table": "--table",
        "style": "--format",
        "as_json": "--json",
        "against": "--against",
        "metric": "--metric",
        "figure": "--figure",
    }
    given = [flag for name, flag in flags.items() if context.get_parameter_source(name) == ParameterSource.COMMANDLINE]
    if given:
        raise UsageError(
            f"{', '.join(given)} cannot be given here. {why}",
            "Leave one of them out.",
        )
