"""`unlearnbench plugins`."""

from __future__ import annotations

import dataclasses
import json

import click

from unlearnbench import messages
from unlearnbench.cli import options


@click.command("plugins", cls=options.Command, short_help="List plugins and what became of them.")
@options.as_json
@options.disable_plugin
@options.debug
def command(as_json: bool, disable_plugins: tuple[str, ...]) -> None:
    """List every plugin: loaded, disabled, or failed with the reason."""
    from unlearnbench.registry.loading import load_catalogue

    catalogue = load_catalogue(disable=disable_plugins)
    if as_json:
        print(json.dumps([dataclasses.asdict(plugin) for plugin in catalogue.plugins], indent=1))
        return
    for plugin in catalogue.plugins:
        reason = f"  {plugin.reason}" if plugin.reason else ""
        print(f"{plugin.name}  ({plugin.distribution} {plugin.version})  {plugin.status}{reason}")
        for component in plugin.components:
            print(f"  {component}")
    for notice in catalogue.notices:
        messages.note(notice)
