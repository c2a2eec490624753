"""`unlearnbench ls`."""

from __future__ import annotations

import json
import sys

import click

from unlearnbench.cli import options
from unlearnbench.hookspecs import HOOKS


@click.command("ls", cls=options.Command, short_help="List components, tables or experiments.")
@click.argument("kind", type=options.OneOf([*HOOKS, "method"]))
@options.as_json
@options.disable_plugin
@options.debug
def command(kind: str, as_json: bool, disable_plugins: tuple[str, ...]) -> None:
    """List the components of a kind (`method` is another word for `unlearner`), the tables or the experiments."""
    from unlearnbench.registry.loading import load_and_report

    catalogue = load_and_report(disable_plugins)
    entries = catalogue.all("unlearner" if kind == "method" else kind)
    names = [catalogue.asked_for(entry) for entry in entries]
    if as_json:
        rows = [
            {"name": name, "summary": e.summary, "distribution": e.distribution}
            for name, e in zip(names, entries, strict=True)
        ]
        print(json.dumps(rows, indent=1))
        return
    width = max(map(len, names), default=0)
    for name, entry in zip(names, entries, strict=True):
        print(f"{name:<{width}}  {entry.summary}  ({entry.distribution} {entry.distribution_version})")
    if not entries:
        print(f"No {kind} is registered.", file=sys.stderr)
