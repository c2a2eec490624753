"""`unlearnbench doctor`."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlearnbench.cli import options
from unlearnbench.errors import UsageError
from unlearnbench.hookspecs import KINDS

if TYPE_CHECKING:
    from unlearnbench.registry.catalogue import Catalogue, Entry


@click.command(
    "doctor", cls=options.Command, short_help="Check what this machine offers: devices, memory readings, data."
)
@click.option("--data-root", type=options.PATH, metavar="DIR", help="Where datasets lie.")
@options.as_json
@options.disable_plugin
@options.debug
def command(data_root: Path | None, as_json: bool, disable_plugins: tuple[str, ...]) -> None:
    """Check what this machine offers: hardware, devices, NVML, METIS, threads, data, what components need, plugins."""
    report = findings(data_root, disable_plugins)
    if as_json:
        print(json.dumps(report, indent=1))
        return
    for heading, text in _lines(report):
        print(f"{heading:<11} {text}")


def findings(data_root: Path | None, disable: Iterable[str]) -> dict[str, Any]:
    """Collect what the machine and the installation have.

    Returns:
        Plain JSON values: `machine`, `packages`, `devices`, `nvml`, `memory`, `metis`, `threads`,
        `data_root`, `datasets`, `needs`, `plugins`.
    """
    import torch

    from unlearnbench.datasets.base import data_root as choose_root
    from unlearnbench.measure.machine import describe_machine
    from unlearnbench.measure.memory import resident_memory
    from unlearnbench.measure.nvml import Nvml
    from unlearnbench.measure.provenance import provenance
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.registry.requirements import require_module

    root = choose_root(data_root)
    catalogue = load_catalogue(disable=disable)
    return {
        "machine": describe_machine(),
        "packages": provenance()["packages"],
        "devices": ["cpu", *(f"cuda:{i} {torch.cuda.get_device_name(i)}" for i in range(torch.cuda.device_count()))],
        "nvml": Nvml().gpu_names(),
        "memory": resident_memory().name,
        "metis": require_module("pymetis", "unlearnbench[metis]").describe(),
        "threads": torch.get_num_threads(),
        "data_root": {"path": str(root), "exists": root.is_dir()},
        "datasets": {entry.name: _presence(catalogue, entry, root) for entry in catalogue.all("dataset")},
        "needs": list(_needs(catalogue)),
        "plugins": [dataclasses.asdict(plugin) for plugin in catalogue.plugins],
    }


def _lines(report: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    machine, names, root = report["machine"], report["nvml"], report["data_root"]
    yield "machine", f"{machine['id']}: {machine['cpu']}, {machine['cores']} cores, {machine['memory_gib']} GiB"
    system = f"{machine['os']} {machine['os_release']}"
    yield "system", f"{system}, Python {machine['python']}, BLAS {machine['blas']}"
    for name, version in report["packages"].items():
        yield "package", f"{name} {version or 'not installed'}"
    yield "devices", ", ".join(report["devices"])
    yield "NVML", ", ".join(names) if names else "no GPU is reported; GPU columns stay empty"
    yield "memory", f"peak resident memory is read by {report['memory']}"
    yield "METIS", f"pymetis is {report['metis']}"
    yield "threads", f"torch would use {report['threads']} by itself; runs use --threads, 1 by default"
    yield "data root", f"{root['path']}{'' if root['exists'] else ' (not there yet)'}"
    for name, presence in report["datasets"].items():
        yield "dataset", f"{name}: {presence}"
    for line in report["needs"]:
        yield "need", line
    for plugin in report["plugins"]:
        reason = f": {plugin['reason']}" if plugin["reason"] else ""
        yield "plugin", f"{plugin['name']} ({plugin['distribution']} {plugin['version']}) {plugin['status']}{reason}"


def _needs(catalogue: Catalogue) -> Iterator[str]:
    """Describe the requirements of all components, and whether they are installed."""
    from unlearnbench.registry.requirements import requirements_of

    for kind in KINDS:
        for entry in catalogue.all(kind):
            try:
                needs = requirements_of(catalogue.load(entry))
            except UsageError as error:
                if kind != "dataset":  # reported where datasets are listed
                    yield f"{kind} {entry.name}: cannot be used: {error.message}"
            else:
                for need in needs:
                    yield f"{kind} {entry.name}: {need.module} is {need.describe()}"


def _presence(catalogue: Catalogue, entry: Entry, root: Path) -> str:
    """Describe whether the files of a dataset are there; a broken plugin is reported and ends nothing."""
    try:
        presence: str = catalogue.load(entry)().presence(root)
    except UsageError as error:
        return f"cannot be used: {error.message}"
    return presence
