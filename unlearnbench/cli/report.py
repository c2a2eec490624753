"""`unlearnbench report`."""

from __future__ import annotations

import contextlib
import shlex
import sys
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.core import ParameterSource

from unlearnbench import messages
from unlearnbench.cli import options
from unlearnbench.cli.answers import Answer, Answers
from unlearnbench.cli.lists import definitions
from unlearnbench.cli.program import program
from unlearnbench.cli.warned import warnings_as_lines
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.messages import columns, is_coloured
from unlearnbench.registry.brackets import split_names
from unlearnbench.registry.builtin import TABLES

MANY = 300
"""From so many files on it is said that reading them takes time."""

if TYPE_CHECKING:
    import pandas as pd

    from unlearnbench.report.frame.selection import Selection


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
    asked = Question(table, style, against, metric, experiment or "", named, of_models, chosen, all_notes)
    if paper:
        _refuse_options_of_tables(context, "--paper writes one table of its own.")
        _write_paper(results, asked, split_names([paper_columns]), "page" if wide else "column")
    elif html or figures:
        _refuse_options_of_tables(context)
        _write_page_and_figures(results, html, figures, asked.wanted)
    else:
        _write_table(results, asked, figure)


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


@dataclass(frozen=True)
class Question:
    """What is asked of the records of a folder."""

    table: str
    style: str
    against: str
    metric: str
    experiment: str
    datasets: tuple[str, ...]
    models: tuple[str, ...]
    methods: tuple[str, ...]
    all_notes: bool

    @property
    def wanted(self) -> Selection:
        """Which of the records are asked about."""
        from unlearnbench.report.frame.selection import Selection

        return Selection(self.experiment, self.datasets, self.models, self.methods)

    def canonical(self) -> list[Any]:
        """Return everything that the answer depends on beside the records, as plain JSON values."""
        looks = [columns(), is_coloured(sys.stdout), program()] if self.style == "text" else []
        return [asdict(self), looks]


def _write_table(results: Path, asked: Question, figure: Path | None) -> None:
    """Print a table: what was printed before if nothing has changed since, else from the records."""
    if figure:
        _print_answer(_answer(results, asked, figure), asked.style)
        return
    answers = Answers(results, asked.canonical())
    answer = answers.find()
    if answer is None:
        _say_that_it_takes_time(answers.records)
        answer = _answer(results, asked, None)
        answers.keep(answer)
    _print_answer(answer, asked.style)


def _write_paper(results: Path, asked: Question, names: list[str], width: str) -> None:
    """Print tables in LaTeX, methods by datasets."""
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.report import load_records
    from unlearnbench.report.tables.paper import paper_tables

    frame = _read(load_records, results, asked.wanted)
    chosen = shlex.join(["--columns", ",".join(names)]) + (" --wide" if width == "page" else "")
    command = f"Made by: unlearnbench report {shlex.quote(str(results))}{asked.wanted.options()} --paper {chosen}"
    print(paper_tables(frame, load_catalogue(), names, width, bool(asked.methods), command))


def _print_answer(answer: Answer, style: str) -> None:
    for problem in answer.problems:
        messages.warning(problem)
    if style == "csv":  # for programs: in one encoding, whatever that of the terminal is
        click.echo(answer.text.encode(), nl=False)
    else:
        print(answer.text)


def _say_that_it_takes_time(records: int) -> None:
    if records >= MANY:
        print(f"reading {records:,} files of records; the next time is faster ...", file=sys.stderr)


def _answer(results: Path, asked: Question, figure: Path | None) -> Answer:
    """Build a table from the records, and draw it into a file if there is one."""
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.report import load_records
    from unlearnbench.report.figures.poison import check_figure, draw_poison
    from unlearnbench.report.figures.stream import draw_stream
    from unlearnbench.report.frame.frame import frame_of
    from unlearnbench.report.tables.audits import load_audits
    from unlearnbench.report.tables.index import build_tables, find_table

    catalogue, table, problems = load_catalogue(), asked.table, list[str]()
    reads = find_table(catalogue, table, asked.against).reads
    figures = {"poison": draw_poison, "stream": draw_stream}
    if figure:
        if table not in figures:
            raise UsageError(f"There is no figure of table {table!r}.", f"Figures are drawn of: {', '.join(figures)}.")
        check_figure(figure)
    # Experiments have no audits of their own.
    audits = _audits(results, replace(asked.wanted, experiment="")) if reads == "both" else None
    try:
        frame = _read(load_audits if reads == "audits" else load_records, results, asked.wanted, problems.append)
    except NothingMatchedError:
        if audits is None:
            raise
        frame = frame_of([])
    source = shlex.quote(str(results)) + asked.wanted.options()
    tables = build_tables(frame, table, source, asked.against, audits, catalogue, asked.metric)
    text = options.printed(tables, asked.style, asked.all_notes)
    if figure:
        figures[table](tables, figure)
    return Answer(text, tuple(problems))


def _write_page_and_figures(results: Path, html: Path | None, figures: Path | None, wanted: Selection) -> None:
    """Write the page and the figures, and print their paths."""
    from unlearnbench.report.figures.figures import check_figures, write_figures
    from unlearnbench.report.frame.frame import frame_of_runs, read_results
    from unlearnbench.report.page import check_page, write_page
    from unlearnbench.report.tables.audits import audits_among

    if html:
        check_page(html)
    if figures:
        check_figures(figures)
    read = read_results(results)
    frame = _read(lambda path: frame_of_runs(path, *read), results, wanted)
    every_audit = audits_among(results, *read)
    if html:
        source = shlex.quote(str(results)) + wanted.options()
        audits = None
        with contextlib.suppress(NothingMatchedError):
            # Experiments have no audits of their own.
            audits = every_audit if every_audit is None else _selected(every_audit, replace(wanted, experiment=""))
        with warnings_as_lines():
            page = write_page(results, frame, audits, html, source)
        print(page)
    if figures:
        for path in write_figures(frame, figures, every_audit):
            print(str(path))


def _read(
    load: Callable[[Path], pd.DataFrame],
    results: Path,
    wanted: Selection,
    on_problem: Callable[[str], None] = messages.warning,
) -> pd.DataFrame:
    """Read the selected records; `on_problem` is called with each problem."""
    frame = _quietly(load, results)
    for problem in frame.attrs.get("problems", ()):
        on_problem(problem)
    return _selected(frame, wanted)


def _selected(frame: pd.DataFrame, wanted: Selection) -> pd.DataFrame:
    """Return the selected records; the catalogue is loaded only if names have to be looked up."""
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.report.frame.selection import select

    return select(frame, wanted, load_catalogue()) if wanted.options() else frame


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


def _audits(results: Path, wanted: Selection | None = None) -> pd.DataFrame | None:
    """Read the records of audits in this folder, the selected ones, if there are any."""
    from unlearnbench.report.tables.audits import load_audits

    try:
        audits = _quietly(load_audits, results)
        return audits if wanted is None else _selected(audits, wanted)
    except NothingMatchedError:
        return None


def _quietly(load: Callable[[Path], pd.DataFrame], results: Path) -> pd.DataFrame:
    """Read records without warnings: the same problems are printed, one line each."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return load(results)
