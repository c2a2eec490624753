"""`unlearnbench run`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from unlearnbench.brackets import split_names
from unlearnbench.cli import options

NAMES = {"methods", "datasets", "models"}


@click.command("run", short_help="Run methods on datasets and print tables.")
@click.option("--methods", "-m", multiple=True, metavar="NAMES", help="Unlearners, with commas: sisa,graphrevoker[sem_weight=0].")  # fmt: skip
@click.option("--datasets", "-d", multiple=True, metavar="NAMES", help="Datasets.  [default: digits]")
@click.option("--models", multiple=True, metavar="NAMES", help="Base models.  [default: gcn]")
@click.option("--repetitions", type=int, help="How many repetitions, 0 to R-1.  [default: 3]")
@click.option("--seeds", callback=options.integers("--seeds"), metavar="LIST", help="Which repetitions, instead of their number: 3,4.")  # fmt: skip
@click.option("--config", type=click.Path(path_type=Path), metavar="FILE", help="A run file (TOML); options given here win over it.")  # fmt: skip
@click.option("--forget-ratio", type=float, help="Share of all nodes to forget.  [default: 0.005]")
@click.option("--forget-count", type=int, help="Number of nodes to forget.")
@click.option("--forget", callback=options.integers("--forget"), metavar="IDS", help="The nodes to forget.")
@click.option("--num-shards", type=int, help="Shards of every sharded method.  [default: 20]")
@click.option("--epochs", type=int, help="Epochs of training.  [default: 100]")
@click.option("--train", type=click.Choice(["lockstep", "one-by-one"]), help="Train networks together, or one by one to time each.  [default: lockstep]")  # fmt: skip
@click.option("--set", "set_", multiple=True, callback=options.assignments, metavar="KEY=VALUE", help="training.lr, training.weight_decay, model.PARAMETER or seed.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path), metavar="DIR", help="Results folder.  [default: results]")
@click.option("--data-root", type=click.Path(path_type=Path), metavar="DIR", help="Where datasets lie.  [default: UNLEARNBENCH_DATA, else your cache folder]")  # fmt: skip
@click.option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX.  [default: auto]")
@click.option("--threads", type=int, help="Threads of torch.  [default: 1]")
@click.option("--overwrite", type=click.Choice(["only-missing", "never", "always"]), help="What to compute again.  [default: only-missing]")  # fmt: skip
@click.option("--dry-run", is_flag=True, help="List the cells and whether each is there already; compute nothing.")
@click.option("--no-reference", is_flag=True, help="Do not run Retrain along.")
@click.option("--save-state", type=click.Path(path_type=Path), metavar="DIR", help="Keep the deployed parameters here.")
@options.disable_plugin
@options.debug
def command(config: Path | None, dry_run: bool, no_reference: bool, set_: dict[str, str], debug: bool, **given: Any) -> int:
    """Run every method on every dataset with every model, and print tables.

    A cell that has a record is not computed again: running the same command again goes on
    where it was interrupted. Retrain, the reference, is always run along.

    \b
    Examples:
      unlearnbench run --methods sisa,grapheraser,graphrevoker
      unlearnbench run -m graphrevoker,graphrevoker[sem_weight=0] -d cora --repetitions 10
    """
    from unlearnbench.cli.progress import run_with_progress
    from unlearnbench.config import make_config, read_run_file

    values = read_run_file(config) if config is not None else {}
    source = f"Run file {config}" if config is not None else "The command line"
    for key, value in given.items():
        if value is not None and value != ():
            values[key] = split_names(value) if key in NAMES else list(value) if key == "disable_plugins" else value
    if set_:
        values["set"] = {**values.get("set", {}), **set_}
    if no_reference:
        values["reference"] = False
    return run_with_progress(make_config(values, source), dry_run)
