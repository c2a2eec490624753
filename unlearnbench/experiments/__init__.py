"""Experiments: grids of a published or an own comparison, as TOML files that plugins bring."""

from __future__ import annotations

import contextlib
import sys
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from unlearnbench.errors import UsageError
from unlearnbench.registry.catalogue import Catalogue, reason_of
from unlearnbench.registry.loading import load_catalogue

AXES = ("datasets", "models")
"""What `run` narrows an experiment by."""


@dataclass(frozen=True)
class Experiment:
    """One experiment: the table or figure of a paper it has as source, the tables that show it, and its grids.

    A grid has keys of `RunConfig`.
    """

    name: str
    title: str
    source: str
    tables: tuple[str, ...]
    grids: tuple[Mapping[str, Any], ...]


def find_experiment(name: str, catalogue: Catalogue | None = None) -> Experiment:
    """Read an experiment.

    Raises:
        UsageError: There is none of that name, or its file cannot be read.
    """
    entry = (catalogue or load_catalogue()).find("experiment", name)
    package, _, file = str(entry.target).partition(":")
    try:
        with contextlib.redirect_stdout(sys.stderr):  # finding the file imports the package
            text = resources.files(package).joinpath(file).read_text(encoding="utf-8")
        plain = tomllib.loads(text)
        grids = tuple({"methods": [], **plain.get("common", {}), **grid} for grid in plain["grid"])
        missing = [axis for grid in grids for axis in AXES if axis not in grid]
        if missing:
            raise UsageError(f"a grid has no {missing[0]}")
        return Experiment(entry.name, entry.summary, plain.get("source", ""), tuple(plain.get("tables", ())), grids)
    except Exception as error:  # a stranger's file may be wrong in any way; its user needs the reason
        raise UsageError(
            f"The experiment {entry.name!r} of {entry.distribution} cannot be read: {reason_of(error)}",
            f"It is named as {entry.target}.",
        ) from error


def experiments_with(table: str, catalogue: Catalogue, plugin: str = "") -> Iterator[str]:
    """Yield the experiments that a table shows, those of a plugin first; one that cannot be read is passed over."""
    for entry in sorted(catalogue.all("experiment"), key=lambda entry: entry.plugin != plugin):
        with contextlib.suppress(UsageError):
            if table in find_experiment(entry.name, catalogue).tables:
                yield entry.name
