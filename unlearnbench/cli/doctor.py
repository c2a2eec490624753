"""`unlearnbench doctor`."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unlearnbench.cli import options
from unlearnbench.hookspecs import KINDS

if TYPE_CHECKING:
    from unlearnbench.plugins import Catalogue, Entry


@click.command("doctor", short_help="Say what was found here: devices, memory readings, data.")
@click.option("--data-root", type=click.Path(path_type=Path), metavar="DIR", help="Where datasets lie.")
@options.disable_plugin
@options.debug
def command(data_root: Path | None, disable_plugins: tuple[str, ...], debug: bool) -> None:
    """Say what was found: machine, devices, NVML, METIS, threads, data, what components need, plugins."""
    import torch

    from unlearnbench.datasets.base import data_root as choose_root
    from unlearnbench.measure.machine import describe_machine
    from unlearnbench.measure.memory import resident_memory
    from unlearnbench.measure.nvml import Nvml
    from unlearnbench.measure.provenance import provenance
    from unlearnbench.needs import look_for
    from unlearnbench.plugins import load_catalogue

    machine, versions = describe_machine(), provenance()
    click.echo(f"machine     {machine['id']}: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB")
    system = f"{machine['os']} {machine['os_release']}"
    click.echo(f"system      {system}, Python {machine['python']}, BLAS {machine['blas']}")
    for name, version in versions["packages"].items():
        click.echo(f"package     {name} {version or 'not installed'}")
    gpus = [f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count())]
    click.echo(f"devices     cpu{''.join(f', {gpu}' for gpu in gpus)}")
    names = Nvml().gpu_names()
    click.echo(f"NVML        {', '.join(names) if names else 'no GPU is reported; GPU columns stay empty'}")
    click.echo(f"memory      peak resident memory is read by {resident_memory().name}")
    click.echo(f"METIS       pymetis is {look_for('pymetis', 'unlearnbench[metis]').describe()}")
    click.echo(f"threads     torch would use {torch.get_num_threads()} by itself; runs use --threads, 1 by default")
    root = choose_root(data_root)
    click.echo(f"data root   {root}{'' if root.is_dir() else ' (not there yet)'}")
    catalogue = load_catalogue(disable=disable_plugins)
    for entry in catalogue.all("dataset"):
        click.echo(f"dataset     {entry.name}: {_presence(catalogue, entry, root)}")
    for line in _needs(catalogue):
        click.echo(f"need        {line}")
    for plugin in catalogue.plugins:
        said = f": {plugin.reason}" if plugin.reason else ""
        click.echo(f"plugin      {plugin.name} ({plugin.distribution} {plugin.version}) {plugin.status}{said}")


def _needs(catalogue: Catalogue) -> Iterator[str]:
    """Say of each component that needs more than its distribution whether it is there."""
    from unlearnbench.errors import UsageError
    from unlearnbench.needs import needs_of

    for kind in KINDS:
        for entry in catalogue.all(kind):
            try:
                needs = needs_of(catalogue.load(entry))
            except UsageError as error:
                if kind != "dataset":  # told where datasets are listed
                    yield f"{kind} {entry.name}: cannot be used: {error.message}"
            else:
                for need in needs:
                    yield f"{kind} {entry.name}: {need.module} is {need.describe()}"


def _presence(catalogue: Catalogue, entry: Entry, root: Path) -> str:
    """Say whether the files of a dataset are there; a plugin that is broken is a finding, not the end."""
    from unlearnbench.errors import UsageError

    try:
        found: str = catalogue.load(entry)().presence(root)
    except UsageError as error:
        return f"cannot be used: {error.message}"
    return found
