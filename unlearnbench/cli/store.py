"""`unlearnbench store`."""

from __future__ import annotations

from pathlib import Path

import click

from unlearnbench.cli import options

# As `unlearnbench.store` has it, which is imported only when the command runs.
HOUR = 3600.0


@click.group("store", short_help="Look after a results folder.")
def command() -> None:
    """Look after a results folder."""


@command.command("clean")
@click.argument("results", type=click.Path(path_type=Path), default=Path("results"))
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=HOUR,
    show_default=True,
    metavar="SECONDS",
    help="Leave what was written since: a run may be writing it.",
)
@options.debug
def clean(results: Path, older_than: float, debug: bool) -> None:
    """Remove temporary files that killed runs left behind, and list them.

    Records, arrays and everything else are left alone. Every run does the same when it begins.
    """
    from unlearnbench.errors import NothingMatchedError
    from unlearnbench.store import remove_temporaries, temporaries

    if not results.is_dir():
        raise NothingMatchedError(f"{results}: there is no such folder.", "Name a results folder.")
    for path in remove_temporaries(results, older_than):
        click.echo(path)
    left = len(temporaries(results))
    if left:
        hint = f"{left} younger than {older_than:g} s are left: a run may be writing them."
        click.echo(f"note: {hint} If none runs: --older-than 0.", err=True)
