"""`unlearnbench show`."""

from __future__ import annotations

from enum import Enum

import click

from unlearnbench.cli import options
from unlearnbench.hookspecs import KINDS


@click.command("show", short_help="Show one component and its parameters.")
@click.argument("name")
@click.option("--kind", type=click.Choice([*KINDS, "method"]), help="Where a name is that of two kinds.")
@options.disable_plugin
@options.debug
def command(name: str, kind: str | None, disable_plugins: tuple[str, ...], debug: bool) -> None:
    """Show one component: where it comes from, what it needs, its parameters with defaults, its presets.

    NAME can have a bracket: then its values are shown instead of the defaults.
    """
    from unlearnbench.component import Spec
    from unlearnbench.needs import needs_of_tree
    from unlearnbench.plugins import load_catalogue, report_problems
    from unlearnbench.resolve import resolve_any

    catalogue = load_catalogue(disable=disable_plugins)
    report_problems(catalogue)
    spec = resolve_any(catalogue, name, kind)
    cls = spec.cls
    click.echo(f"{spec.name}, {spec.kind}, version {spec.version}, from {spec.distribution}")
    for line in (cls.summary, f"Reference: {cls.reference}" if cls.reference else ""):
        if line:
            click.echo(line)
    if spec.kind == "dataset":
        click.echo(f"Licence: {cls.license or 'not known'}\nSource: {cls.source or 'not known'}")
        if hasattr(cls, "size"):
            click.echo(f"Published size: {cls.size}")
    needs = list(needs_of_tree(spec))
    for owner, need in needs:
        who = "" if owner is spec else f" of the {owner.kind} {owner.name}"
        click.echo(f"Needs: {need.module}{who}, {need.describe()}")
    # What lacks a module may not even be made.
    if spec.kind == "unlearner" and all(need.is_met for _, need in needs):
        method = spec.build()
        reason = f", the partition depends on {method.claim_reason}" if method.claim_reason else ""
        click.echo(f"Claim: {method.claim.value}{reason}")

    def parameters(spec: Spec, indent: str) -> None:
        for key, info in type(spec.params).model_fields.items():
            value = getattr(spec.params, key)
            shown = value.name if isinstance(value, Spec) else value.value if isinstance(value, Enum) else value
            click.echo(f"{indent}{key} = {shown}    {info.description or ''}".rstrip())
            if isinstance(value, Spec):
                parameters(value, indent + "    ")

    if type(spec.params).model_fields:
        click.echo("Parameters:")
        parameters(spec, "  ")
    if cls.presets:
        click.echo(f"Presets (preset=NAME; the default is {cls.default_preset}):")
        for preset, values in cls.presets.items():
            click.echo(f"  {preset}: " + ", ".join(f"{key}={value}" for key, value in values.items()))
