"""`unlearnbench tune`."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlearnbench import messages
from unlearnbench.cli import options
from unlearnbench.errors import EXIT_OK
from unlearnbench.registry.brackets import split_names

if TYPE_CHECKING:
    from collections.abc import Sequence

    from unlearnbench.running.config import RunConfig
    from unlearnbench.tuning.choice import Choice, Study
    from unlearnbench.tuning.objective import Effort
    from unlearnbench.tuning.studies import Trial
    from unlearnbench.tuning.tune import OnTrial

MARGIN = 0.01
_DEFAULTS = {"trials": 20, "repetitions": 2, "runs": 2, "forget_ratio": 0.05, "seed": 0}


@click.command("tune", cls=options.Command, short_help="Tune methods, each with the same number of trials.")
@click.option("--methods", "-m", multiple=True, metavar="NAMES", help="Methods, with commas.")
@click.option(
    "--datasets",
    "-d",
    multiple=True,
    metavar="NAMES",
    help="Datasets to tune on; for tables take others.  [default: digits]",
)
@click.option("--models", multiple=True, metavar="NAMES", help="Base models.  [default: gcn]")
@click.option(
    "--trials",
    type=click.IntRange(min=1),
    default=_DEFAULTS["trials"],
    show_default=True,
    metavar="N",
    help="Trials of each method with each base model on each dataset, the defaults being the first.",
)
@click.option(
    "--repetitions",
    type=click.IntRange(min=1),
    default=_DEFAULTS["repetitions"],
    show_default=True,
    metavar="R",
    help="Splits a trial is judged on, each with a request of its own.",
)
@click.option(
    "--runs",
    type=click.IntRange(min=2),
    default=_DEFAULTS["runs"],
    show_default=True,
    metavar="K",
    help="Trained networks a split that a post-hoc method serves the request on, and retrained ones to compare with.",
)
@click.option(
    "--forget-ratio",
    type=float,
    default=_DEFAULTS["forget_ratio"],
    show_default=True,
    help="Share of all nodes to forget.",
)
@click.option(
    "--margin",
    type=click.FloatRange(min=0, max=1),
    default=MARGIN,
    show_default=True,
    help="How much lower than Retrain's the validation F1 of a post-hoc method may be, in [0, 1].",
)
@click.option(
    "--seed", type=click.IntRange(min=0), default=0, show_default=True, help="Seed of splits, requests and points."
)
@click.option(
    "--out",
    type=options.FOLDER,
    default=Path("runs/tuning"),
    show_default=True,
    metavar="DIR",
    help="Folder of trials.journal, trials.csv and tuned.toml.",
)
@click.option("--data-root", type=options.PATH, metavar="DIR", help="Where datasets lie.")
@click.option("--offline", is_flag=True, help="Download nothing.")
@click.option("--device", default="cpu", show_default=True, metavar="DEVICE", help="auto, cpu, cuda or cuda:INDEX.")
@click.option("--threads", type=click.IntRange(min=1), default=1, show_default=True, help="Threads of torch.")
@options.disable_plugin
@options.debug
def command(
    methods: tuple[str, ...],
    datasets: tuple[str, ...],
    models: tuple[str, ...],
    trials: int,
    repetitions: int,
    runs: int,
    forget_ratio: float,
    margin: float,
    seed: int,
    out: Path,
    disable_plugins: tuple[str, ...],
    **given: Any,
) -> int:
    """Choose parameters on other graphs and nodes than tables report; `--protocol tuned` uses them.

    Every method gets the same number of trials: its defaults, the values of released code if there are any, then
    points that fill the ranges its parameters declare (`unlearnbench show NAME`). Retrain is tuned along. Methods
    that train are tuned for validation F1; post-hoc methods for the distance of forgotten nodes to Retrain, as long
    as they keep validation F1. A trial that is in the folder is not made again: running the same command again
    goes on where it was interrupted.

    \b
    Example:
      unlearnbench tune --methods finetune,scrub --datasets digits,amazon-photo --trials 20
    """  # noqa: D301
    from unlearnbench.errors import UsageError
    from unlearnbench.records.files import write_together
    from unlearnbench.registry.loading import load_and_report
    from unlearnbench.running.config import make_config
    from unlearnbench.tuning.choice import choices
    from unlearnbench.tuning.objective import Effort
    from unlearnbench.tuning.tune import make_tuning
    from unlearnbench.tuning.values import trials_csv, values_toml

    names = {"methods": methods, "datasets": datasets, "models": models}
    values = {key: split_names(value) for key, value in names.items() if value}
    values |= {key: value for key, value in given.items() if value is not None}
    config = make_config(
        {**values, "forget_ratio": forget_ratio, "out": out, "set": {"seed": seed}}, "The command line"
    )
    if not config.methods:
        raise UsageError("No method is named.", "Add --methods NAMES; they are listed by: unlearnbench ls method.")
    effort = Effort(repetitions, runs, forget_ratio, seed)
    tuning = make_tuning(config, load_and_report(disable_plugins), effort, trials, _tell(trials))
    if alone := tuning.without_values:
        messages.note(
            f"What is chosen on {alone} alone serves other graphs, and not {alone} itself: with a second graph in"
            " --datasets there will be values for both."
        )
    studies = tuning.run()
    chosen = choices(studies, margin)
    text = trials_csv(studies)
    told = {
        "command": _command(config, trials, effort, margin),
        "trials": trials,
        **effort.canonical(),
        "margin": margin,
        **tuning.versions(),
    }
    paths = {out / "trials.csv": text, out / "tuned.toml": values_toml(chosen, told, text)}
    write_together({path: content.encode() for path, content in paths.items()})
    print(_table(chosen))
    print(f"trials and values are in {out}; use them: {_use(config, alone, out / 'tuned.toml')}", file=sys.stderr)
    return EXIT_OK


def _use(config: RunConfig, alone: str, file: Path) -> str:
    """Return the command that uses what was chosen, on a graph that it was not chosen on."""
    methods = shlex.join(["--methods", ",".join(map(str, config.methods))])
    graph = "GRAPH" if alone else shlex.quote(str(config.datasets[0]))
    command = f"unlearnbench run {methods} --datasets {graph} --protocol tuned --tuned {shlex.quote(str(file))}"
    return f"{command}, where GRAPH is any but {alone}" if alone else command


def _tell(count: int) -> OnTrial:
    """Return a function that prints one line a trial."""

    def tell(study: Study, trial: Trial, was_there: bool) -> None:
        if was_there:
            return
        result = f"failed: {trial.failure}"
        if trial.outcome is not None:
            result = f"{study.objective} {trial.outcome.loss:.4f}, validation F1 {100 * trial.outcome.f1:.2f}"
        place = f"{study.graph} {study.model.label} {study.method.label}"
        print(f"{place} trial {trial.number + 1} of {count}: {result}", file=sys.stderr, flush=True)

    return tell


def _command(config: RunConfig, trials: int, effort: Effort, margin: float) -> str:
    """Return the command that makes the same trials, without folders."""
    names = {"methods": config.methods, "datasets": config.datasets, "models": config.models}
    values = {name: ",".join(map(str, several)) for name, several in names.items()}
    values |= {name.replace("_", "-"): str(value) for name, value in effort.canonical().items()}
    values |= {"trials": str(trials), "margin": str(margin)}
    return shlex.join(
        ["unlearnbench", "tune", *(part for name, value in values.items() for part in (f"--{name}", value))]
    )


def _table(chosen: Sequence[Choice]) -> str:
    """Write what was chosen, one row for each method, base model and graph."""
    from tabulate import tabulate

    rows = [
        {
            "method": one.study.method.label,
            "model": one.study.model.label,
            "for": one.graph or "other graphs",
            "chosen on": ", ".join(one.chosen_on),
            "trials": f"{one.trials}{f', {one.failed} failed' if one.failed else ''}",
            "objective": one.study.objective,
            "defaults": "failed" if one.default_loss is None else f"{one.default_loss:.4f}",
            "tuned": f"{one.loss:.4f}{'' if one.within_margin else ' (F1 too low)'}",
            "values": ", ".join(f"{name} {value}" for name, value in one.point.items()) or "defaults",
        }
        for one in chosen
    ]
    return tabulate(rows, headers="keys", disable_numparse=True)
