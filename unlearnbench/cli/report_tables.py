"""What `unlearnbench report` prints: a table, from the records or as it was printed before."""

from __future__ import annotations

import shlex
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlearnbench import messages
from unlearnbench.cli import options
from unlearnbench.cli.answers import Answer, Answers
from unlearnbench.cli.program import program
from unlearnbench.cli.selected_records import SelectedRecords
from unlearnbench.errors import NothingMatchedError, UsageError
from unlearnbench.messages import columns, is_coloured

if TYPE_CHECKING:
    from unlearnbench.report.frame.selection import Selection

MANY = 300
"""From so many files on it is said that reading them takes time."""


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
    protocol: str
    forget: tuple[tuple[str, Any], ...]

    @property
    def wanted(self) -> Selection:
        """Which of the records are asked about."""
        from unlearnbench.report.frame.selection import Selection

        return Selection(self.experiment, self.datasets, self.models, self.methods, self.protocol, self.forget)

    def canonical(self) -> list[Any]:
        """Return everything that the answer depends on beside the records, as plain JSON values."""
        looks = [columns(), is_coloured(sys.stdout), program()] if self.style == "text" else []
        return [asdict(self), looks]


def write_table(results: Path, asked: Question, figure: Path | None) -> None:
    """Print a table: what was printed before if nothing has changed since, else from the records."""
    if figure:
        _print_answer(_answer(results, asked, 0, figure), asked.style)
        return
    answers = Answers(results, asked.canonical())
    answer = answers.find()
    if answer is None:
        answer = _answer(results, asked, answers.records)
        answers.keep(answer)
    _print_answer(answer, asked.style)


def write_paper(results: Path, asked: Question, names: list[str], width: str) -> None:
    """Print tables in LaTeX, methods by datasets."""
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.report.tables.paper import paper_tables

    frame = SelectedRecords(results, asked.wanted).runs()
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
        print(f"reading {records:,} files of records; the same command is faster next time ...", file=sys.stderr)


def _answer(results: Path, asked: Question, count: int, figure: Path | None = None) -> Answer:
    """Build a table from so many files of records, and draw it into a file if there is one."""
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.report.figures.poison import check_figure, draw_poison
    from unlearnbench.report.figures.stream import draw_stream
    from unlearnbench.report.frame.frame import frame_of
    from unlearnbench.report.tables.index import build_tables, find_table

    catalogue, table, problems = load_catalogue(), asked.table, list[str]()
    reads = find_table(catalogue, table, asked.against).reads
    figures = {"poison": draw_poison, "stream": draw_stream}
    if figure:
        if table not in figures:
            raise UsageError(f"There is no figure of table {table!r}.", f"Figures are drawn of: {', '.join(figures)}.")
        check_figure(figure)
    _say_that_it_takes_time(count)
    records = SelectedRecords(results, asked.wanted, problems.append)
    audits = records.audits_beside_runs() if reads == "both" else None
    try:
        frame = records.audits() if reads == "audits" else records.runs()
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
