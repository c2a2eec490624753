"""`unlearnbench run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unlearnbench.cli.grid import grid, said, settings


@click.command("run", short_help="Run methods on datasets and print tables.")
@grid(repetitions=3, forget_ratio=0.005)
@click.option(
    "--experiment",
    metavar="NAME",
    help="A comparison that comes with the package; --datasets and --models narrow it, --methods are added.",
)
@click.option("--no-reference", is_flag=True, help="Do not run Retrain along.")
@click.option(
    "--save-state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep weights, forgotten ids, split and partition here, as DIR/KEY.pt.",
)
def command(
    dry_run: bool,
    tolerate_failures: bool,
    as_json: bool,
    no_reference: bool,
    debug: bool,
    experiment: str | None,
    **given: Any,
) -> int:
    """Run every method on every dataset with every model, and print tables.

    A cell that has a record is not computed again: running the same command again goes on
    where it was interrupted. Retrain, the reference, is always run along.

    Everything is looked up and checked before the first training: names, settings, data, and the
    modules that components need. What is wrong there stops the run with exit code 2. A cell that
    fails later does not stop the others; the run then ends with 1.

    \b
    Examples:
      unlearnbench run --methods sisa,grapheraser,graphrevoker
      unlearnbench run -m graphrevoker,graphrevoker[sem_weight=0] -d cora --repetitions 10
      unlearnbench run --experiment graphrevoker-www24 -d cora,citeseer
      unlearnbench ls experiment
    """  # noqa: D301
    from unlearnbench.cli.running import run_with_progress

    if no_reference:
        given["reference"] = False
    if experiment is None:
        return run_with_progress([settings(given)], dry_run, tolerate_failures, as_json=as_json)
    from unlearnbench.experiments import configs, find_experiment
    from unlearnbench.registry.loading import load_catalogue

    found = find_experiment(experiment, load_catalogue(disable=given.get("disable_plugins") or ()))
    return run_with_progress(configs(found, said(given)), dry_run, tolerate_failures, found.tables, as_json)
