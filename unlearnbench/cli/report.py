"""`unlearnbench report`."""

from __future__ import annotations

import warnings
from pathlib import Path

import click

from unlearnbench.cli import options


@click.command("report", short_help="Rebuild tables from records.")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option(
    "--table",
    type=click.Choice(["summary", "utility", "time", "memory", "comparison", "equivalence", "cost", "audits"]),
    default="summary",
    show_default=True,
    help="Which table.",
)
@click.option(
    "--format",
    "style",
    type=click.Choice(["text", "md", "latex", "csv"]),
    default="text",
    show_default=True,
    help="How to write it.",
)
@options.debug
def command(results: Path, table: str, style: str, debug: bool) -> None:
    """Rebuild tables from the records in a results folder."""
    from unlearnbench.errors import NothingMatchedError
    from unlearnbench.report import load_records
    from unlearnbench.report.audits import build_audit_tables, load_audits
    from unlearnbench.report.cost import build_cost_tables
    from unlearnbench.report.render import render
    from unlearnbench.report.tables import build_tables

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the same problems are told below, one line each
        frame = load_audits(results) if table == "audits" else load_records(results)
    for problem in frame.attrs.get("problems", ()):
        click.echo(f"warning: {problem}", err=True)
    builders = {"audits": build_audit_tables, "cost": build_cost_tables}
    build = builders.get(table)
    tables = build_tables(frame, table, str(results)) if build is None else build(frame, str(results))
    if not tables:
        raise NothingMatchedError(
            f"{results}: no record can stand in the table {table}.", "See docs/tables.md for what it is made of."
        )
    click.echo(render(tables, style), nl=style != "csv")
