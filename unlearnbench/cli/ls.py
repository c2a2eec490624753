"""`unlearnbench ls`."""

from __future__ import annotations

import json

import click

from unlearnbench.cli import options
from unlearnbench.hookspecs import KINDS


@click.command("ls", short_help="List the components of a kind.")
@click.argument("kind", type=options.OneOf([*KINDS, "method", "experiment"]))
@options.as_json
@options.disable_plugin
@options.debug
def command(kind: str, as_json: bool, disable_plugins: tuple[str, ...], debug: bool) -> None:
    """List the components of a kind (`method` is another word for `unlearner`), or the experiments."""
    if kind == "experiment":
        _experiments(as_json)
        return
    from unlearnbench.registry.loading import load_catalogue, report_problems

    catalogue = load_catalogue(disable=disable_plugins)
    report_problems(catalogue)
    entries = catalogue.all("unlearner" if kind == "method" else kind)
    if as_json:
        rows = [{"name": e.name, "summary": e.summary, "distribution": e.distribution} for e in entries]
        click.echo(json.dumps(rows, indent=1))
        return
    width = max((len(entry.name) for entry in entries), default=0)
    for entry in entries:
        click.echo(f"{entry.name:<{width}}  {entry.summary}  ({entry.distribution} {entry.distribution_version})")
    if not entries:
        click.echo(f"No {kind} is registered.", err=True)


def _experiments(as_json: bool) -> None:
    from unlearnbench.experiments import experiment_names, find_experiment

    experiments = [find_experiment(name) for name in experiment_names()]
    if as_json:
        click.echo(json.dumps([{"name": e.name, "title": e.title, "source": e.source} for e in experiments], indent=1))
        return
    width = max(len(experiment.name) for experiment in experiments)
    for experiment in experiments:
        click.echo(f"{experiment.name:<{width}}  {experiment.title}  ({experiment.source})")
