"""`unlearnbench leaderboard`."""

from __future__ import annotations

import json
from pathlib import Path

import click

from unlearnbench.cli import options


@click.group("leaderboard", short_help="Write or check the leaderboard's CSV files.")
def command() -> None:
    """Write the leaderboard's CSV files from records, or check that they agree."""


@command.command("build")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Where to.  [default: RESULTS/leaderboard]")
@options.debug
def build(results: Path, out: Path | None, debug: bool) -> None:
    """Write the CSV files: the same bytes from the same records."""
    from unlearnbench.report import leaderboard

    for path in leaderboard.build(results, out or results / "leaderboard"):
        click.echo(path)


@command.command("verify")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Where they are.  [default: RESULTS/leaderboard]"
)
@options.as_json
@options.debug
def verify(results: Path, out: Path | None, as_json: bool, debug: bool) -> None:
    """Fail if a CSV file differs from what its records give."""
    from unlearnbench.errors import UnlearnbenchError
    from unlearnbench.report import leaderboard

    try:
        leaderboard.verify(results, out or results / "leaderboard")
    except UnlearnbenchError as error:
        if as_json:
            click.echo(json.dumps({"agrees": False, "problem": error.message}, indent=1))
        raise
    said = "The leaderboard agrees with its records."
    click.echo(json.dumps({"agrees": True, "problem": None}, indent=1) if as_json else said)
