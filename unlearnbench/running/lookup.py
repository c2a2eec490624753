"""Look up the methods, models, metrics and datasets that a run names, and load the datasets."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

from unlearnbench.component import Spec, canonical_json
from unlearnbench.datasets.base import ONE_WAY, describe, edge_statistics, load_graph
from unlearnbench.datasets.own.held import held
from unlearnbench.datasets.raw import offline
from unlearnbench.errors import DataError, MissingDataError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.hookspecs import SESSION
from unlearnbench.protocol import Setting, protocol
from unlearnbench.registry.brackets import Bracket
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.requirements import check_requirements
from unlearnbench.registry.resolve import resolve
from unlearnbench.registry.session import REMEDY
from unlearnbench.running.cell import Cell
from unlearnbench.running.config import RunConfig
from unlearnbench.running.edge_weights import check_edge_weights
from unlearnbench.running.settings import unknown_setting

REFERENCE = "retrain"


class Assumption(str):
    """A notice that something of a graph was ignored, converted or assumed as it entered."""

    __slots__ = ()


ALL = "all"
"""Among the names of methods: every one that fits."""


def chosen_datasets(config: RunConfig, catalogue: Catalogue) -> list[Spec]:
    """Look the datasets of a run up; `split` goes to those that have several.

    Raises:
        UsageError: An unknown name or parameter, or a split for datasets that take none.
    """
    brackets = config.brackets(config.datasets)
    specs = [_with_option(catalogue, "dataset", bracket, "split", config.split) for bracket in brackets]
    if config.split is not None and not any(hasattr(spec.params, "split") for spec in specs):
        raise UsageError(f"`split` {config.split}: no dataset has several splits.", "It is for file:PATH with masks.")
    return specs


def chosen_methods(config: RunConfig, catalogue: Catalogue) -> list[Spec]:
    """Look the methods of a run up, what they are compared with in front; `num_shards` goes to those that have shards.

    The name `all` stands for every method that `fitting_methods` returns.

    Raises:
        UsageError: An unknown name or parameter, a number of shards that reaches no method, or an alias that two
            methods have; or a method with two.
    """
    fitting = fitting_methods(config, catalogue)[0] if ALL in config.methods else []
    brackets = config.brackets([name for one in config.methods for name in (fitting if one == ALL else [one])])
    specs = [_with_option(catalogue, "unlearner", bracket, "num_shards", config.num_shards) for bracket in brackets]
    reached = config.num_shards is None or any(
        hasattr(spec.innermost().params, "num_shards") and not _sets(bracket, "num_shards")
        for spec, bracket in zip(specs, brackets, strict=True)
    )
    if specs and not reached:
        raise UsageError(
            f"`num_shards` {config.num_shards} reaches no method.",
            "Only sharded methods have shards, and a number in a method's bracket wins. Leave `num_shards` out.",
        )
    specs = _aliased(specs)
    if specs and config.reference:
        specs = [resolve(catalogue, "unlearner", REFERENCE), *references_of(specs, catalogue), *specs]
    return without_duplicates(specs)


def fitting_methods(config: RunConfig, catalogue: Catalogue) -> tuple[list[str], list[str]]:
    """Find the methods that `all` stands for: those that need nothing more and fit the request, setting and a model.

    Returns:
        Their names, and a reason for each that is left out.
    """
    models = {spec.name for spec in chosen_models(config, catalogue)}
    names, left_out = [], []
    for name in catalogue.names("unlearner"):
        try:
            spec = resolve(catalogue, "unlearner", name)
            check_requirements([spec])
        except UsageError as error:
            left_out.append(f"{name}: {error.message}")
            continue
        cls = spec.innermost().cls
        if misfit := _misfit(spec, config.forget_kind, config.setting):
            left_out.append(misfit.message)
        elif cls.models is not None and not cls.models & models:
            left_out.append(f"{name} is for the model {' or '.join(sorted(cls.models))}.")
        else:
            names.append(name)
    return names, left_out


def _misfit(method: Spec, kind: str, setting: str) -> UsageError | None:
    """Return why a method does not fit a request of a kind in a setting; None: it does."""
    if kind not in method.innermost().cls.forgets:
        return UsageError(f"{method.shown} does not forget {kind}s.", f"Leave it out, or `forget_kind` {kind}.")
    supported = settings_of(method)
    if setting not in supported:
        return UsageError(
            f"{method.shown} does not support the {setting} setting.",
            f"Leave it out, or use `setting` {' or '.join(sorted(supported))}.",
        )
    return None


def _aliased(methods: Sequence[Spec]) -> list[Spec]:
    """Return methods with one alias each: a method that is named with and without one has it.

    Raises:
        UsageError: Two methods have one alias, or one method has two.
    """
    aliases: dict[str, str] = {}
    for spec in methods:
        if spec.alias and aliases.setdefault(spec.label, spec.alias) != spec.alias:
            raise UsageError(
                f"{spec.label} has two aliases, {aliases[spec.label]!r} and {spec.alias!r}.", "Leave one out."
            )
    owners: dict[str, str] = {}
    for label, alias in aliases.items():
        if owners.setdefault(alias, label) != label:
            raise UsageError(
                f"Two methods have the alias {alias!r}: {owners[alias]} and {label}.", "Give each an alias of its own."
            )
    return [replace(spec, alias=aliases.get(spec.label, "")) for spec in methods]


def references_of(methods: Sequence[Spec], catalogue: Catalogue) -> list[Spec]:
    """Look up the methods that some methods are compared with, apart from Retrain."""
    brackets = [bracket for spec in methods for bracket in spec.cls.references(spec.params)]
    return [resolve(catalogue, "unlearner", bracket) for bracket in brackets]


def _with_option(catalogue: Catalogue, kind: str, bracket: Bracket, key: str, value: object) -> Spec:
    """Resolve a bracket; a component with the parameter `key` gets the value unless its bracket sets it."""
    spec = resolve(catalogue, kind, bracket)
    if value is None or not hasattr(spec.innermost().params, key) or _sets(bracket, key):
        return spec
    return resolve(catalogue, kind, replace(bracket, arguments={key: str(value), **bracket.arguments}))


def _sets(bracket: Bracket, key: str) -> bool:
    """Whether a bracket, or one inside it, sets a parameter."""
    return any(
        name.rpartition(".")[2] == key or (isinstance(inner, Bracket) and _sets(inner, key))
        for name, inner in bracket.arguments.items()
    )


def chosen_models(config: RunConfig, catalogue: Catalogue) -> list[Spec]:
    """Look the models of a run up.

    Raises:
        UsageError: An unknown name or parameter.
    """
    brackets = config.brackets(config.models, config.model_defaults())
    try:
        return without_duplicates(resolve(catalogue, "model", bracket) for bracket in brackets)
    except UsageError as error:
        for key in config.model_defaults():
            if repr(key) in error.message:
                raise unknown_setting(f"model.{key}", [error.hint]) from None
        raise


def check_installed(specs: Iterable[Spec]) -> None:
    """Check that other processes have every component and every graph.

    Raises:
        UsageError: A class or a graph is of this session alone; names it and the remedy.
    """
    for spec in specs:
        is_held = spec.kind == "dataset" and held(getattr(spec.params, "path", "")) is not None
        if is_held or SESSION in spec.distributions():
            raise UsageError(
                f"{spec.label} is of this session alone: other processes (`jobs`, `isolate`, `cell_timeout`) and"
                " clusters (`backend`) lack it.",
                "Save it with torch.save and name file:PATH." if is_held else REMEDY,
            )


def available_metrics(catalogue: Catalogue) -> tuple[list[Spec], list[str]]:
    """Look up every metric; one that cannot be used is left out with a notice: nobody asked for it by name."""
    metrics, left_out = [], []
    for name in catalogue.names("metric"):
        try:
            spec = resolve(catalogue, "metric", name)
            check_requirements([spec])
            metrics.append(spec)
        except UsageError as error:
            left_out.append(f"The metric {name!r} is left out. {error.message} {error.hint}".rstrip())
    return metrics, left_out


def without_duplicates(specs: Iterable[Spec]) -> list[Spec]:
    """Keep each component once."""
    different: dict[str, Spec] = {}
    for spec in specs:
        different.setdefault(canonical_json([spec.canonical(), spec.label]), spec)
    return list(different.values())


def load_graphs(
    datasets: Sequence[Spec], root: Path, forbid_downloads: bool, skip_missing: bool = False
) -> tuple[dict[str, Graph], list[str]]:
    """Load datasets.

    Returns:
        The graphs by label, and lines that describe them, say what was ignored or assumed (`Assumption`) and name
        those left out.

    Raises:
        DataError: Files are missing or damaged, or a graph breaks a rule; names every dataset whose
            files cannot be had.
    """
    graphs: dict[str, Graph] = {}
    notices: list[str] = []
    missing: list[MissingDataError] = []
    with offline(forbid_downloads):
        for spec in datasets:
            dataset = spec.build()
            try:
                graphs[spec.label] = load_graph(dataset, root)
            except MissingDataError as error:
                missing.append(error)
                continue
            name, kinds = dataset.recorded_name(dataset.params), edge_statistics(graphs[spec.label])
            one_way = [ONE_WAY] if kinds["directed"] and hasattr(spec.params, "undirected") else []
            notices.append(f"{name}: {describe(graphs[spec.label], kinds)}")
            notices += [Assumption(f"{name}: {line}") for line in (*dataset.notes, *one_way)]
    if missing and not (skip_missing and graphs):
        messages, hints = [error.message for error in missing], [error.hint for error in missing]
        if graphs:
            hints.append("Or leave out what cannot be had with `skip_missing`.")
        raise DataError("\n".join(messages), "\n".join(hints))
    return graphs, notices + [f"left out: {error.message}" for error in missing]


def check_cells(cells: Sequence[Cell], graphs: Mapping[str, Graph]) -> None:
    """Check that every request, number of shards, method and model fits its graph, and every method a model.

    Raises:
        UsageError: One does not; names method and dataset.
    """
    _check_models(cells)
    training_nodes: dict[tuple[str, int], int] = {}
    for cell in cells:
        graph, name, repetition = graphs[cell.dataset_label], cell.dataset_identity, cell.repetition
        if (name, repetition) not in training_nodes:
            try:
                setting = protocol.repetition_data(cell.protocol, graph, cell.seed, name, repetition)
            except UsageError as error:  # the protocol does not know the name of a graph
                raise UsageError(f"Dataset {cell.dataset_label}: {error.message}", error.hint) from None
            training_nodes[name, repetition] = len(setting.split.train)
        check_edge_weights(graph, cell.dataset_label, cell.model, cell.method)
        if misfit := _misfit(cell.method, cell.protocol.forget.kind, cell.protocol.setting):
            raise misfit
        num_shards = getattr(cell.method.innermost().params, "num_shards", 1)
        if num_shards > training_nodes[name, repetition]:
            raise UsageError(
                f"{cell.method.shown}: {num_shards} shards for the {training_nodes[name, repetition]} training nodes"
                f" of {cell.dataset_label}.",
                "Use a smaller `num_shards`.",
            )


def settings_of(method: Spec) -> frozenset[Setting]:
    """Return the settings that a method supports, and the method inside it, if it wraps one."""
    inside = [settings_of(chosen) for _, chosen in method.parts() if chosen.kind == method.kind]
    supported: frozenset[Setting] = method.cls.settings
    return supported.intersection(*inside)


def _check_models(cells: Sequence[Cell]) -> None:
    models: dict[str, set[str]] = {}
    for cell in cells:
        models.setdefault(cell.method.label, set()).add(cell.model.name)
    for cell in cells:
        fit, asked = cell.method.innermost().cls.models, models[cell.method.label]
        if fit is not None and not fit & asked:
            raise UsageError(
                f"{cell.method.shown} cannot be used with the model {' or '.join(sorted(asked))}.",
                f"Add `models` {','.join(sorted(fit))}, or leave {cell.method.shown} out.",
            )
