"""`unlearnbench store`."""

from __future__ import annotations

import sys
from pathlib import Path

import click

from unlearnbench import messages
from unlearnbench.cli import options
from unlearnbench.errors import NothingMatchedError

# Equals `STALE_SECONDS` of `unlearnbench.records.store`, which is imported only when the command runs.
HOUR = 3600.0


@click.group("store", cls=options.Group, short_help="Look after a results folder.")
def command() -> None:
    """Look after a results folder."""


@command.command("clean")
@click.argument("results", type=options.PATH, default=options.FOLDER_OF_RUNS)
@click.option(
    "--older-than",
    type=click.FloatRange(min=0),
    default=HOUR,
    show_default=True,
    metavar="SECONDS",
    help="Leave what was written since: a run may be writing it.",
)
@click.option(
    "--unfinished", is_flag=True, help="Remove members of unfinished cells as well: their next run starts anew."
)
@options.debug
def clean(results: Path, older_than: float, unfinished: bool) -> None:
    """Remove temporary files that killed runs left behind, and list them.

    Members that were kept of a large cell are removed too if it has its record since. Records,
    arrays and everything else are left alone. Every run does the same when it begins.
    """
    from unlearnbench.records.store import remove_temporaries, temporaries
    from unlearnbench.records.unfinished import is_finished, remove_all_unfinished, unfinished_folders

    if not results.is_dir():
        raise NothingMatchedError(f"{results}: there is no such folder.", "Name a results folder.")
    for path in remove_temporaries(results, older_than) + remove_all_unfinished(results, older_than, unfinished):
        print(path)
    left = len(temporaries(results))
    if left:
        hint = f"{left} are left: younger than {older_than:g} s, so that a run may be writing them, or not yours."
        messages.note(f"{hint} If no run writes them: --older-than 0.")
    going = [folder for folder in unfinished_folders(results) if not is_finished(folder, results)]
    if going:
        hint = "the command that was interrupted goes on from there; --unfinished removes them."
        kept = f"note: members of {len(going)} unfinished cells are kept in {results / 'unfinished'}: {hint}"
        print(kept, file=sys.stderr)
