"""`unlearnbench plugin`: write a plugin, and check one."""

from __future__ import annotations

import dataclasses
import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import click

from unlearnbench.cli import options
from unlearnbench.errors import EXIT_FAILED_CELLS, EXIT_OK
from unlearnbench.hookspecs import KINDS, kind_of, shown_kind

if TYPE_CHECKING:
    from unlearnbench.component import Spec
    from unlearnbench.testing.rules.base import Result


@click.group("plugin", cls=options.Group, short_help="Write a plugin of your own, and check it.")
def command() -> None:
    """Write a plugin of your own, and check that a component keeps to its contract."""


@command.command("new", short_help="Write an installable package that works.")
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice([*map(shown_kind, KINDS), "posthoc", "table"]),
    required=True,
    help="What it brings; posthoc: a method that updates a trained network.",
)
@click.option(
    "--out", type=options.PATH, default=Path(), metavar="DIR", help="Where its folder is made; default: here."
)
@options.debug
def new(name: str, kind: str, out: Path) -> None:
    """Write a package that pip installs, with a component NAME that works, a test and a README.

    For a table, NAME is that of a paper's published numbers: `report --table utility --against NAME`.
    Nothing that exists is overwritten.
    """
    from unlearnbench.registry.loading import load_catalogue
    from unlearnbench.testing.skeleton import write_package

    folder = write_package(name, kind_of(kind), out, load_catalogue())
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        print(f"wrote {path}")
    component = folder.name.removeprefix("unlearnbench-")
    use = f"report --table utility --against {component}" if kind == "table" else f"plugin check {component}"
    print(f"\nNext:\n  pip install --editable {folder}\n  unlearnbench {use}")


@command.command("check", short_help="Say what a component does wrong, and why.")
@click.argument("name")
@click.option("--kind", type=click.Choice([*map(shown_kind, KINDS)]), help="Where a name is that of two kinds.")
@click.option("--model", default="gcn", show_default=True, help="The base model that methods train.")
@click.option("--data-root", type=options.PATH, metavar="DIR", help="Where datasets lie.")
@options.as_json
@options.disable_plugin
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def check(
    name: str,
    kind: str | None,
    model: str,
    data_root: Path | None,
    as_json: bool,
    disable_plugins: tuple[str, ...],
    debug: bool,
) -> int:
    """Try every rule of its kind on a component, on toy graphs: what fails, why, and what to do.

    NAME can have a bracket. Exit code 0: it conforms; 1: it does not; 2: there is no such component.
    """
    import torch

    from unlearnbench.registry.loading import load_and_report
    from unlearnbench.registry.resolve import resolve_any
    from unlearnbench.testing.conformance import check_component

    torch.set_num_threads(1)
    catalogue = load_and_report(disable_plugins)
    spec = resolve_any(catalogue, name, kind)
    if not as_json:
        print(f"{spec.label}, {shown_kind(spec.kind)}, version {spec.version}, from {spec.distribution}")
    results = []
    for result in check_component(spec, catalogue, model, data_root):
        results.append(result)
        if not as_json:
            _show(result, debug)
    failed = sum(result.status == "failed" for result in results)
    if as_json:
        print(json.dumps(_plain(spec, results), indent=1))
    else:
        skipped = sum(result.status == "skipped" for result in results)
        print(f"{len(results)} rules: {len(results) - failed - skipped} ok, {failed} failed, {skipped} skipped")
    return EXIT_FAILED_CELLS if failed else EXIT_OK


def _show(result: Result, debug: bool) -> None:
    print(f"{result.status:<8}{result.rule}: {result.promise}")
    if result.skipped:
        print(f"          {result.skipped}")
    for text in result.refused:
        print(f"          refused, which it may: {text}")
    for fault in result.faults:
        print(f"          {f'On {fault.where}: ' if fault.where else ''}{fault.what}")
        print(f"          Remedy: {fault.remedy}")
        if debug and fault.traceback:
            print(fault.traceback, file=sys.stderr)


def _plain(spec: Spec, results: list[Result]) -> dict[str, object]:
    return {
        "name": spec.name,
        "kind": spec.kind,
        "label": spec.label,
        "version": spec.version,
        "distribution": spec.distribution,
        "conforms": all(result.status != "failed" for result in results),
        "rules": [{**dataclasses.asdict(result), "status": result.status} for result in results],
    }
