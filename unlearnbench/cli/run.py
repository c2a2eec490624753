"""`unlearnbench run`."""

from __future__ import annotations

from typing import Any

import click

from unlearnbench.cli import options
from unlearnbench.cli.grid import given_values, grid, options_of_run_alone


@click.command("run", cls=options.Command, short_help="Run methods on datasets and print tables.")
@grid()
@click.option(
    "--experiment",
    metavar="NAME",
    help="A comparison that comes with the package; --datasets and --models narrow it, --methods are added.",
)
@options_of_run_alone()
def command(
    dry_run: bool,
    tolerate_failures: bool,
    as_json: bool,
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

    if experiment is None:
        from unlearnbench.running.config import make_configs

        grids = make_configs(given_values(given), "The command line")
        tables = ["summary"] if len(grids) == 1 else ["sweep"]
        return run_with_progress(grids, dry_run, tolerate_failures, tables, as_json)
    from unlearnbench.experiments import find_experiment
    from unlearnbench.experiments.grids import configs
    from unlearnbench.registry.loading import load_catalogue

    chosen = find_experiment(experiment, load_catalogue(disable=given.get("disable_plugins") or ()))
    grids = configs(chosen, given_values(given))
    return run_with_progress(grids, dry_run, tolerate_failures, chosen.tables, as_json)
