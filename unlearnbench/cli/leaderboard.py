"""`unlearnbench leaderboard`."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from unlearnbench import messages
from unlearnbench.cli import options
from unlearnbench.cli.warned import warnings_as_lines
from unlearnbench.errors import EXIT_FAILED_CELLS, EXIT_OK, UnlearnbenchError

_DATA_ROOT = click.option("--data-root", type=options.PATH, metavar="DIR", help="Where datasets lie.")
_OFFLINE = click.option("--offline", is_flag=True, help="Download nothing.")


@click.group("leaderboard", cls=options.Group, short_help="Write or check the leaderboard, submit records.")
def command() -> None:
    """Write the leaderboard's CSV files from records, check that they agree, submit records of your own."""


@command.command("build")
@click.argument("results", type=options.PATH, default=options.FOLDER_OF_RUNS)
@click.option("--out", type=options.PATH, metavar="DIR", help="Where to.  [default: RESULTS/leaderboard]")
@options.debug
def build(results: Path, out: Path | None) -> None:
    """Write the CSV files: the same bytes from the same records."""
    from unlearnbench.report.publish import leaderboard

    with warnings_as_lines():
        paths = leaderboard.build(results, out or results / "leaderboard")
    for path in paths:
        print(path)


@command.command("verify")
@click.argument("results", type=options.PATH, default=options.FOLDER_OF_RUNS)
@click.option("--out", type=options.PATH, metavar="DIR", help="Where they are.  [default: RESULTS/leaderboard]")
@click.option(
    "--recompute",
    type=click.IntRange(min=1),
    metavar="N",
    help="Run N cells again, drawn at random, and compare them with their records instead.",
)
@click.option("--seed", type=int, metavar="S", help="Which cells; printed if not given.  [default: another each time]")
@click.option(
    "--cell-timeout",
    type=click.FloatRange(min=0, min_open=True),
    metavar="S",
    help="End a cell after S seconds.  [default: 20 times those of its record, and 120; at most a day]",
)
@_DATA_ROOT
@_OFFLINE
@options.as_json
@options.debug
def verify(
    results: Path,
    out: Path | None,
    recompute: int | None,
    seed: int | None,
    cell_timeout: float | None,
    data_root: Path | None,
    offline: bool,
    as_json: bool,
) -> int:
    """Fail if a CSV file differs from what its records give; or run cells again.

    With --recompute no CSV file is looked at: N cells are computed again into a temporary folder,
    and digests, metrics and counts are compared exactly, times not. It fails if one differs, and
    names it and why it may. RESULTS/recomputed says which ones this machine computed again, and
    `leaderboard build` shows it.

    \b
    Examples:
      unlearnbench leaderboard verify results
      unlearnbench leaderboard verify results --recompute 3 --seed 7
    """  # noqa: D301
    if recompute is not None:
        return _recompute(results, recompute, seed, cell_timeout, data_root, offline, as_json)
    from unlearnbench.report.publish import leaderboard

    try:
        with warnings_as_lines():
            leaderboard.verify(results, out or results / "leaderboard")
    except UnlearnbenchError as error:
        if as_json:
            print(json.dumps({"agrees": False, "problem": error.message}, indent=1))
        raise
    message = "The leaderboard agrees with its records."
    print(json.dumps({"agrees": True, "problem": None}, indent=1) if as_json else message)
    return EXIT_OK


def _recompute(
    results: Path,
    number: int,
    seed: int | None,
    cell_timeout: float | None,
    data_root: Path | None,
    offline: bool,
    as_json: bool,
) -> int:
    import random

    from unlearnbench.registry.loading import load_and_report
    from unlearnbench.report.publish.recompute import Recomputed, note_recomputed, recompute

    seed = random.SystemRandom().randrange(2**31) if seed is None else seed
    catalogue = load_and_report()

    def show(one: Recomputed) -> None:
        print("\n".join(one.lines()), file=sys.stderr if as_json else sys.stdout)

    with warnings_as_lines():
        cells = recompute(results, number, seed, catalogue, data_root, offline, show, cell_timeout)
    try:
        path = note_recomputed(results, cells)
        if path is not None:
            print(f"{path} lists what was computed again: unlearnbench leaderboard build shows it.", file=sys.stderr)
    except UnlearnbenchError as error:  # what was compared holds without it
        messages.note(f"{error.message} It is not noted which cells were computed again.")
    same = sum(one.agrees for one in cells)
    refused = sum(bool(one.refusal) for one in cells)
    counts = f"{same} the same, {len(cells) - same - refused} different, {refused} not computed"
    if as_json:
        plain = [{"agrees": one.agrees, "computed": not one.refusal, "lines": list(one.lines())} for one in cells]
        print(json.dumps({"seed": seed, "cells": plain}, indent=1))
    else:
        print(f"{len(cells)} cells, drawn with --seed {seed}: {counts}.")
    return EXIT_OK if same == len(cells) else EXIT_FAILED_CELLS


@command.command("submit")
@click.argument("results", metavar="DIR", type=options.PATH, default=options.FOLDER_OF_RUNS)
@click.option(
    "--out",
    type=options.FOLDER,
    metavar="FOLDER",
    default=Path("submission"),
    show_default=True,
    help="Where to lay the files out: a clone's results folder, or a new one.",
)
@click.option("--allow-dirty", is_flag=True, help="Take records made from changed source too; each says so.")
@_DATA_ROOT
@_OFFLINE
@options.debug
def submit(results: Path, out: Path, allow_dirty: bool, data_root: Path | None, offline: bool) -> int:
    """Check the records in DIR and lay them out for a pull request.

    Each must follow from its graph, its protocol and the predictions beside it.
    Only records and descriptions of machines are laid out, and nothing is written over. What is
    left out is named with the reason, and the command then ends with 1.

    \b
    Examples:
      unlearnbench leaderboard submit runs/mine
      unlearnbench leaderboard submit runs/mine --out unlearnbench/results
    """  # noqa: D301
    from unlearnbench.registry.loading import load_and_report
    from unlearnbench.report.publish.submission import submit as lay_out

    done = lay_out(results, out, load_and_report(), allow_dirty, data_root, offline)
    for path in done.written:
        print(path)
    for path, reason in done.left_out:
        print(f"left out: {path}: {reason}", file=sys.stderr)
    if done.arrays:
        messages.note(f"{done.arrays} archives of predictions (.npz) stay where they are.")
    counts = f"{len(done.written)} files laid out, {len(done.there)} there already, {len(done.left_out)} left out"
    print(f"{counts}.", file=sys.stderr)
    return EXIT_FAILED_CELLS if done.left_out else EXIT_OK
