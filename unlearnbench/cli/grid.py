"""The options that say what is run: one list for `run` and `audit`, one way to the settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlearnbench.cli import options
from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import split_names

if TYPE_CHECKING:
    from unlearnbench.running.config import RunConfig

NAMES = {"methods", "datasets", "models"}
# Settings that say the same thing in different ways: an option replaces what the run file says of any of them.
ALTERNATIVES = ({"forget_ratio", "forget_count", "forget"}, {"repetitions", "seeds"})


def grid(repetitions: int, forget_ratio: float) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Give a command the options of a grid.

    Args:
        repetitions: How many there are by default.
        forget_ratio: What share is forgotten by default.
    """
    listed = [
        click.option(
            "--methods",
            "-m",
            multiple=True,
            metavar="NAMES",
            help="Unlearners, with commas: sisa,graphrevoker[sem_weight=0].",
        ),
        click.option("--datasets", "-d", multiple=True, metavar="NAMES", help="Datasets.  [default: digits]"),
        click.option("--models", multiple=True, metavar="NAMES", help="Base models.  [default: gcn]"),
        click.option("--repetitions", type=int, help=f"How many repetitions, 0 to R-1.  [default: {repetitions}]"),
        click.option(
            "--seeds",
            callback=options.integers("--seeds"),
            metavar="LIST",
            help="Which repetitions, instead of their number: 3,4.",
        ),
        click.option(
            "--config",
            type=click.Path(dir_okay=False, path_type=Path),
            metavar="FILE",
            help="A run file (TOML); options given here win over it.",
        ),
        click.option(
            "--protocol",
            type=click.Choice(["www24", "poison"]),
            help="Forget training nodes, or wrong nodes that are injected first.  [default: www24]",
        ),
        click.option("--forget-ratio", type=float, help=f"Share of all nodes to forget.  [default: {forget_ratio:g}]"),
        click.option("--forget-count", type=int, help="Number of nodes to forget."),
        click.option(
            "--forget", callback=options.forgotten, metavar="IDS", help="The nodes to forget, 3,17; edges: 3-17,4-5."
        ),
        click.option("--forget-kind", type=click.Choice(["node", "edge"]), help="What is forgotten.  [default: node]"),
        click.option("--num-shards", type=int, help="Shards of every sharded method.  [default: 20]"),
        click.option("--epochs", type=int, help="Epochs of training.  [default: 100]"),
        click.option(
            "--batch-size",
            type=int,
            metavar="N",
            help="Nodes of a step, with neighbours sampled as training.fanouts says.  [default: the whole shard]",
        ),
        click.option(
            "--train",
            type=click.Choice(["lockstep", "one-by-one"]),
            help="Train networks together, or one by one to time each.  [default: lockstep]",
        ),
        click.option(
            "--set",
            "set_",
            multiple=True,
            callback=options.assignments,
            metavar="KEY=VALUE",
            help="training.lr, .weight_decay or .fanouts, model.PARAMETER, poison.nodes, poison.edges or seed.",
        ),
        click.option(
            "--out",
            type=click.Path(file_okay=False, path_type=Path),
            metavar="DIR",
            help="Results folder.  [default: results]",
        ),
        click.option(
            "--data-root",
            type=click.Path(path_type=Path),
            metavar="DIR",
            help="Where datasets lie.  [default: UNLEARNBENCH_DATA, else your cache folder]",
        ),
        click.option("--offline", is_flag=True, help="Download nothing; UNLEARNBENCH_OFFLINE=1 says the same."),
        click.option("--skip-missing", is_flag=True, help="Leave out datasets that cannot be had, and say which."),
        click.option(
            "--split",
            callback=options.split_choice,
            metavar="K",
            help="Which split of the masks in file:PATH, or folds for the harness's own.",
        ),
        click.option("--device", metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX.  [default: auto]"),
        click.option("--threads", type=int, help="Threads of torch.  [default: 1]"),
        click.option(
            "--deterministic",
            is_flag=True,
            help="Fail, naming it, where an operation may give other bits each time (on a GPU).",
        ),
        click.option(
            "--overwrite",
            type=click.Choice(["only-missing", "busy", "never", "always"]),
            help="What to compute again; busy: also what was timed on a busy machine.  [default: only-missing]",
        ),
        click.option(
            "--isolate", is_flag=True, help="Give each cell a process of its own: what ends it ends no other."
        ),
        click.option(
            "--cell-timeout",
            type=float,
            metavar="SECONDS",
            help="End a cell that takes longer, starting up included; implies --isolate.",
        ),
        click.option(
            "--jobs",
            type=int,
            metavar="N",
            help="Run N cells at once; more than 1 implies --isolate, and gives no times.  [default: 1]",
        ),
        click.option(
            "--backend",
            type=click.Choice(["local", "dask"]),
            help="Run cells here, or on the workers of a dask cluster, which gives no times.  [default: local]",
        ),
        click.option(
            "--scheduler", metavar="ADDRESS", help="The scheduler of the cluster, for --backend dask: tcp://HOST:8786."
        ),
        click.option(
            "--distribute",
            type=click.Choice(["cells", "members"]),
            help="What workers are given: cells, or the members of one cell after the other.  [default: cells]",
        ),
        click.option(
            "--shard",
            metavar="I/N",
            help="Run the I-th of N parts of the cells, for array jobs that share --out.",
        ),
        click.option(
            "--dry-run", is_flag=True, help="List the cells and whether each is there already; compute nothing."
        ),
        click.option("--tolerate-failures", is_flag=True, help="End with exit code 0 although cells failed."),
    ]

    def decorate(command: Callable[..., Any]) -> Callable[..., Any]:
        for option in reversed([*listed, options.as_json, options.disable_plugin, options.debug]):
            command = option(command)
        return command

    return decorate


def settings(given: dict[str, Any], defaults: dict[str, Any] | None = None) -> RunConfig:
    """Make the settings of a grid of the options given and the run file they name.

    Args:
        given: What the command line says, by parameter; absent or empty values say nothing.
        defaults: What holds where neither says anything, if it is not what `RunConfig` has.

    Raises:
        UsageError: Something contradicts, is unknown or out of range.
    """
    from unlearnbench.running.config import make_config

    values = said(given)
    for key, value in (defaults or {}).items():
        group = next((group for group in ALTERNATIVES if key in group), {key})
        if not group & values.keys() and not (key == "forget_ratio" and values.get("protocol") == "poison"):
            values[key] = value
    return make_config(values, "The command line")


def said(given: dict[str, Any]) -> dict[str, Any]:
    """Gather what the options and the run file they name say: keys of `RunConfig`, none that was not given.

    Args:
        given: What the command line says, by parameter; absent or empty values say nothing.

    Raises:
        UsageError: Options contradict each other, or the run file is wrong.
    """
    from unlearnbench.running.config import make_config, read_run_file

    flags = {"offline", "skip_missing", "isolate", "deterministic"}
    given = {
        key: value
        for key, value in given.items()
        if value is not None and value not in ((), {}) and not (key in flags and value is False)
    }
    file, assigned = given.pop("config", None), given.pop("set_", {})
    told_here = {
        key: split_names(value) if key in NAMES else list(value) if key == "disable_plugins" else value
        for key, value in given.items()
    }
    if {"repetitions", "seeds"} <= told_here.keys():
        raise UsageError("--repetitions and --seeds exclude each other.", "--seeds names the repetitions themselves.")
    values: dict[str, Any] = {}
    if file is not None:
        values = read_run_file(file)
        make_config(values, f"Run file {file}")
        told = {key for group in ALTERNATIVES if group & told_here.keys() for key in group}
        values = {key: value for key, value in values.items() if key not in told}
    values |= told_here
    if assigned:
        values["set"] = {**values.get("set", {}), **assigned}
    return values
