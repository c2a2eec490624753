"""`unlearnbench run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unlearnbench.brackets import split_names
from unlearnbench.cli import options

NAMES = {"methods", "datasets", "models"}
# Settings that say the same thing in different ways: an option replaces what the run file says of any of them.
ALTERNATIVES = ({"forget_ratio", "forget_count", "forget"}, {"repetitions", "seeds"})


@click.command("run", short_help="Run methods on datasets and print tables.")
@click.option(
    "--methods", "-m", multiple=True, metavar="NAMES", help="Unlearners, with commas: sisa,graphrevoker[sem_weight=0]."
)
@click.option("--datasets", "-d", multiple=True, metavar="NAMES", help="Datasets.  [default: digits]")
@click.option("--models", multiple=True, metavar="NAMES", help="Base models.  [default: gcn]")
@click.option("--repetitions", type=int, help="How many repetitions, 0 to R-1.  [default: 3]")
@click.option(
    "--seeds",
    callback=options.integers("--seeds"),
    metavar="LIST",
    help="Which repetitions, instead of their number: 3,4.",
)
@click.option(
    "--config",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="A run file (TOML); options given here win over it.",
)
@click.option("--forget-ratio", type=float, help="Share of all nodes to forget.  [default: 0.005]")
@click.option("--forget-count", type=int, help="Number of nodes to forget.")
@click.option("--forget", callback=options.integers("--forget"), metavar="IDS", help="The nodes to forget.")
@click.option("--num-shards", type=int, help="Shards of every sharded method.  [default: 20]")
@click.option("--epochs", type=int, help="Epochs of training.  [default: 100]")
@click.option(
    "--train",
    type=click.Choice(["lockstep", "one-by-one"]),
    help="Train networks together, or one by one to time each.  [default: lockstep]",
)
@click.option(
    "--set",
    "set_",
    multiple=True,
    callback=options.assignments,
    metavar="KEY=VALUE",
    help="training.lr, training.weight_decay, model.PARAMETER or seed.",
)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), metavar="DIR", help="Results folder.  [default: results]"
)
@click.option(
    "--data-root",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Where datasets lie.  [default: UNLEARNBENCH_DATA, else your cache folder]",
)
@click.option("--offline", is_flag=True, help="Download nothing; UNLEARNBENCH_OFFLINE=1 says the same.")
@click.option(
    "--split",
    callback=options.split_choice,
    metavar="K",
    help="Which split of the masks in file:PATH, or folds for the harness's own.",
)
@click.option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX.  [default: auto]")
@click.option("--threads", type=int, help="Threads of torch.  [default: 1]")
@click.option(
    "--overwrite",
    type=click.Choice(["only-missing", "never", "always"]),
    help="What to compute again.  [default: only-missing]",
)
@click.option("--dry-run", is_flag=True, help="List the cells and whether each is there already; compute nothing.")
@click.option("--tolerate-failures", is_flag=True, help="End with exit code 0 although cells failed.")
@click.option("--no-reference", is_flag=True, help="Do not run Retrain along.")
@click.option(
    "--save-state",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Keep the deployed parameters here.",
)
@options.disable_plugin
@options.debug
def command(
    config: Path | None,
    dry_run: bool,
    tolerate_failures: bool,
    no_reference: bool,
    offline: bool,
    set_: dict[str, str],
    debug: bool,
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
    """  # noqa: D301
    from unlearnbench.cli.progress import run_with_progress
    from unlearnbench.config import make_config, read_run_file
    from unlearnbench.errors import UsageError

    options_given = {
        key: split_names(value) if key in NAMES else list(value) if key == "disable_plugins" else value
        for key, value in given.items()
        if value is not None and value != ()
    }
    if {"repetitions", "seeds"} <= options_given.keys():
        raise UsageError("--repetitions and --seeds exclude each other.", "--seeds names the repetitions themselves.")
    if no_reference:
        options_given["reference"] = False
    if offline:
        options_given["offline"] = True
    values: dict[str, Any] = {}
    if config is not None:
        values = read_run_file(config)
        make_config(values, f"Run file {config}")
        told = {key for group in ALTERNATIVES if group & options_given.keys() for key in group}
        values = {key: value for key, value in values.items() if key not in told}
    values |= options_given
    if set_:
        values["set"] = {**values.get("set", {}), **set_}
    return run_with_progress(make_config(values, "The command line"), dry_run, tolerate_failures)
