"""The datasets of a run: looked up, loaded, and what came in said."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from unlearnbench.brackets import Bracket
from unlearnbench.component import Spec
from unlearnbench.config import RunConfig
from unlearnbench.datasets.base import describe, load_graph
from unlearnbench.datasets.raw import offline
from unlearnbench.errors import DataError, MissingDataError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.plugins import Catalogue
from unlearnbench.resolve import resolve


def chosen_datasets(config: RunConfig, catalogue: Catalogue) -> list[Spec]:
    """Look the datasets of a run up; `split` goes to those that have several.

    Raises:
        UsageError: An unknown name or parameter, or a split for datasets that take none.
    """
    specs, split_used = [], False
    for bracket in config.brackets(config.datasets):
        spec = resolve(catalogue, "dataset", bracket)
        if config.split is not None and "split" in type(spec.params).model_fields:
            split_used = True
            arguments = {"split": str(config.split), **bracket.arguments}
            spec = resolve(catalogue, "dataset", Bracket(bracket.name, arguments))
        specs.append(spec)
    if config.split is not None and not split_used:
        raise UsageError(f"--split {config.split}: no dataset has several splits.", "It is for file:PATH with masks.")
    return specs


def load_graphs(
    datasets: Sequence[Spec], root: Path, forbid_downloads: bool, skip_missing: bool = False
) -> tuple[dict[str, Graph], list[str]]:
    """Load every dataset.

    Args:
        datasets: Which.
        root: The data root.
        forbid_downloads: Whether a file that is missing is an error at once.
        skip_missing: Whether a dataset whose files cannot be had is left out.

    Returns:
        The graphs by label, and lines that say what came in and what is left out.

    Raises:
        DataError: Files are missing or damaged, or a graph breaks a rule; names every dataset whose
            files cannot be had.
    """
    graphs, said = {}, []
    missing: list[MissingDataError] = []
    with offline(forbid_downloads):
        for spec in datasets:
            dataset = spec.build()
            try:
                graphs[spec.label] = load_graph(dataset, root)
            except MissingDataError as error:
                missing.append(error)
                continue
            name = dataset.recorded_name(dataset.params)
            said += [f"{name}: {line}" for line in (describe(graphs[spec.label]), *dataset.notes)]
    if missing and not (skip_missing and graphs):
        messages, hints = [error.message for error in missing], [error.hint for error in missing]
        if graphs:
            hints.append("Or leave out what cannot be had with --skip-missing.")
        raise DataError("\n".join(messages), "\n".join(hints))
    return graphs, said + [f"left out: {error.message}" for error in missing]
