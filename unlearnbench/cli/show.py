"""`unlearnbench show`."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from unlearnbench.cli import options
from unlearnbench.cli.lists import definitions
from unlearnbench.cli.shown_record import describe_record, is_record, record_lines
from unlearnbench.hookspecs import HOOKS, KINDS, kind_of, shown_kind
from unlearnbench.messages import broken, columns, painted

if TYPE_CHECKING:
    from unlearnbench.component import Spec
    from unlearnbench.registry.catalogue import Catalogue


@click.command("show", cls=options.Command, short_help="Show one component, table, experiment or record.")
@click.argument("name")
@click.option("--kind", type=click.Choice([*map(shown_kind, HOOKS)]), help="Where a name is that of two kinds.")
@options.as_json
@options.disable_plugin
@options.debug
def command(name: str, kind: str | None, as_json: bool, disable_plugins: tuple[str, ...]) -> None:
    """Show one component: where it comes from, what it needs, its parameters with defaults, its presets.

    NAME can have a bracket: then its values are shown instead of the defaults. It can also be the
    name of a table or an experiment, or the path of a record.
    """
    if is_record(name):
        from unlearnbench.report.tables.render import printable

        recorded = describe_record(Path(name))
        print(json.dumps(recorded, indent=1) if as_json else printable("\n".join(record_lines(recorded))))
        return
    from unlearnbench.registry.loading import load_and_report
    from unlearnbench.registry.resolve import resolve_any

    catalogue = load_and_report(disable_plugins)
    other = _kind_of_other(catalogue, name, kind)
    if other:
        described = describe_other(catalogue, other, name)
        lines = [f"{key}: {_text(value)}" for key, value in described.items() if value]
    else:
        described = describe(resolve_any(catalogue, name, kind))
        lines = list(_lines(described))
    if as_json:
        print(json.dumps(described, indent=1))
        return
    first, *others = lines
    print(painted(first, "bold", sys.stdout))
    fits = sys.stdout.isatty()
    print("\n".join(broken(line, columns(), "  ") if fits and "\n" not in line else line for line in others))


def _kind_of_other(catalogue: Catalogue, name: str, kind: str | None) -> str:
    """Return `table` or `experiment` if the name is that of one; components go first where no kind is named."""
    if kind is not None:
        return "" if kind_of(kind) in KINDS else kind
    plain = name.rpartition(":")[2]
    if any(plain in catalogue.names(each) for each in KINDS):
        return ""
    others = (each for each in HOOKS if each not in KINDS)
    return next((each for each in others if plain in {entry.name for entry in catalogue.all(each)}), "")


def describe_other(catalogue: Catalogue, kind: str, name: str) -> dict[str, Any]:
    """Describe a table or an experiment, as plain JSON values.

    Returns:
        `name`, `kind`, `distribution` and `summary`; of a table `reads`, `against`, the names of the published
        numbers it can be set against, and `experiments` made for it; of an experiment `source`, `tables` and
        `grids`.
    """
    from unlearnbench.experiments import experiments_with, find_experiment

    if kind == "table":
        from unlearnbench.report.tables.index import find_table

        entry = find_table(catalogue, name)
        against = [each.against for each in catalogue.all("table") if each.name == entry.name and each.against]
        makers = list(experiments_with(entry.name, catalogue))
        more: dict[str, Any] = {"reads": entry.reads, "against": against, "experiments": makers}
    else:
        entry = catalogue.find(kind, name)
        found = find_experiment(name, catalogue)
        grids = [dict(grid) for grid in found.grids]
        more = {"source": found.source, "tables": list(found.tables), "grids": grids}
    who = {"name": entry.name, "kind": kind, "distribution": entry.distribution, "summary": entry.summary}
    return {**who, **more}


def _text(value: Any) -> str:
    """Write a value of a table or experiment; each grid on a line of its own."""
    if not isinstance(value, list):
        return str(value)
    if not any(isinstance(item, dict) for item in value):
        return ", ".join(value)
    grids = (", ".join(f"{key} {_listed(setting)}" for key, setting in grid.items()) for grid in value)
    return "".join(f"\n  {grid}" for grid in grids)


def _listed(value: Any) -> str:
    return " ".join(map(str, value)) if isinstance(value, list) else str(value)


def describe(spec: Spec) -> dict[str, Any]:
    """Describe a component as plain JSON values.

    Returns:
        `name`, `alias`, `kind`, `version`, `distribution`, `summary`, `reference`, `link`, `bibtex`, `needs`,
        `parameters`, `presets`, `default_preset`; of a method whose requirements are met `claim`,
        `claim_reason`, `forgets` and `models` too, of it and of a model `supports_edge_weight`, of a dataset
        `license`, `source` and `size`. A
        parameter that is a component has `parameters` of its own. What does not apply or is unknown is null.
    """
    from unlearnbench.registry.requirements import requirements_of_tree

    cls = spec.cls
    needs = list(requirements_of_tree(spec))
    described: dict[str, Any] = {
        "name": spec.name,
        "alias": spec.alias or None,
        "kind": spec.kind,
        "version": spec.version,
        "distribution": spec.distribution,
        "summary": cls.summary,
        "reference": cls.reference,
        "link": (cls.paper.url or None) if cls.paper else None,
        "bibtex": cls.paper.bibtex() if cls.paper else None,
        "needs": [
            {"module": need.module, "of": None if owner is spec else f"{owner.kind} {owner.name}"}
            | {"met": need.is_met, "found": need.describe()}
            for owner, need in needs
        ],
    }
    if spec.kind == "dataset":
        size = str(cls.size) if hasattr(cls, "size") else None
        described |= {"license": cls.license or None, "source": cls.source or None, "size": size}
    # Without its requirements it may not even be built.
    if spec.kind == "unlearner" and all(need.is_met for _, need in needs):
        method = spec.build()
        described |= {"claim": method.claim.value, "claim_reason": method.claim_reason or None}
        described |= {"forgets": sorted(method.forgets)}
        described |= {"models": None if method.models is None else sorted(method.models)}
        described |= {"supports_edge_weight": method.supports_edge_weight}
    if spec.kind == "model":
        described |= {"supports_edge_weight": cls.supports_edge_weight}
    described["parameters"] = list(_parameters(spec))
    described["presets"] = {preset: dict(values) for preset, values in cls.presets.items()}
    described["default_preset"] = cls.default_preset or None
    return described


def _parameters(spec: Spec) -> Iterator[dict[str, Any]]:
    from unlearnbench.component import search_ranges

    parts = dict(spec.parts())
    plain = spec.params.model_dump(mode="json", exclude=set(parts))
    ranges = search_ranges(type(spec.params))
    for key, info in type(spec.params).model_fields.items():
        value = parts[key].name if key in parts else plain[key]
        row: dict[str, Any] = {"name": key, "value": value, "description": info.description or ""}
        if key in ranges:
            row["tuned"] = {"low": ranges[key].low, "high": ranges[key].high, "log": ranges[key].log}
        if key in parts:
            row["parameters"] = list(_parameters(parts[key]))
        yield row


def _lines(described: Mapping[str, Any]) -> Iterator[str]:
    kind = shown_kind(described["kind"])
    yield f"{described['name']}, {kind}, version {described['version']}, from {described['distribution']}"
    if described["alias"]:
        yield f"Alias: {described['alias']}"
    if described["summary"]:
        yield described["summary"]
    if described["reference"]:
        yield f"Reference: {described['reference']}"
    if described["link"]:
        yield f"Link: {described['link']}"
    if described["kind"] == "dataset":
        yield f"Licence: {described['license'] or 'not known'}"
        yield f"Source: {described['source'] or 'not known'}"
        if described["size"]:
            yield f"Published size: {described['size']}"
    for need in described["needs"]:
        who = f" of the {need['of']}" if need["of"] else ""
        yield f"Needs: {need['module']}{who}, {need['found']}"
    if "claim" in described:
        yield f"Claim: {claim_text(described['claim'], described['claim_reason'])}"
        yield f"Forgets: {', '.join(forgotten(described))}"
    if "supports_edge_weight" in described:
        yield f"Edge weights: {'used' if described['supports_edge_weight'] else 'refused'}"
    if described["parameters"]:
        yield definitions("Parameters:", list(_pairs(described["parameters"])))
    if described["presets"]:
        yield f"Presets (preset=NAME; the default is {described['default_preset']}):"
        for preset, values in described["presets"].items():
            yield f"  {preset}: " + ", ".join(f"{key}={value}" for key, value in values.items())
    if described["bibtex"]:
        yield f"Cite as:\n{described['bibtex']}"


def claim_text(claim: str, reason: str | None) -> str:
    """Write a claim with what qualifies it: `exact-given-partition, the partition depends on ids`."""
    if reason in ("ids", "content"):
        return f"{claim}, the partition depends on {reason}"
    return f"{claim}, {reason}" if reason else claim


def forgotten(described: Mapping[str, Any]) -> list[str]:
    """Name the kinds of data that a method forgets, in the plural, nodes first."""
    return [f"{kind}s" for kind in reversed(described.get("forgets", []))]


def _pairs(rows: Iterable[Mapping[str, Any]], indent: str = "") -> Iterator[tuple[str, str]]:
    """Yield each parameter with its value, and its description; those of a part are indented."""
    for row in rows:
        value = row["value"]
        shown = int(value) if isinstance(value, float) and value.is_integer() else value
        tuned = f" Tuned from {row['tuned']['low']:g} to {row['tuned']['high']:g}." if "tuned" in row else ""
        yield f"{indent}{row['name']} = {shown}", f"{row['description']}{tuned}"
        yield from _pairs(row.get("parameters", ()), indent + "  ")
