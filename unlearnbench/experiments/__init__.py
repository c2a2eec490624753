"""Experiments that come with the package: grids of a published or an own comparison, as TOML files."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from unlearnbench.errors import UsageError, unknown_name
from unlearnbench.running.config import RunConfig, make_config

_FOLDER = Path(__file__).parent
_AXES = ("datasets", "models")


@dataclass(frozen=True)
class Experiment:
    """One experiment.

    Args:
        name: What `--experiment` takes.
        title: One line.
        source: Where the published figures stand: table or figure of the paper.
        tables: Names of the tables that show it: `unlearnbench report --table`.
        grids: Keys of `RunConfig`, one mapping a grid.
    """

    name: str
    title: str
    source: str
    tables: tuple[str, ...]
    grids: tuple[Mapping[str, Any], ...]


def experiment_names() -> list[str]:
    """List the experiments."""
    return sorted(path.stem for path in _FOLDER.glob("*.toml"))


def find_experiment(name: str) -> Experiment:
    """Read an experiment.

    Raises:
        UsageError: There is none of that name.
    """
    if name not in experiment_names():
        raise unknown_name("experiment", name, experiment_names())
    plain = tomllib.loads((_FOLDER / f"{name}.toml").read_text(encoding="utf-8"))
    return Experiment(name, plain["title"], plain["source"], tuple(plain["tables"]), tuple(plain["grid"]))


def configs(experiment: Experiment, given: Mapping[str, Any]) -> list[RunConfig]:
    """Make the settings of each grid of an experiment.

    Args:
        experiment: Which.
        given: Keys of `RunConfig` that the user gave: `datasets` and `models` narrow the
            experiment, `methods` are added to it, whatever else replaces what it says.

    Raises:
        UsageError: A dataset or model that the experiment does not have, or settings that do not fit.
    """
    for axis in _AXES:
        known = dict.fromkeys(name for grid in experiment.grids for name in grid[axis])
        strange = [name for name in given.get(axis, ()) if name not in known]
        if strange:
            raise UsageError(
                f"Experiment {experiment.name} has no {axis.removesuffix('s')} {strange[0]!r}.",
                f"It has: {', '.join(known)}. Other {axis} are for a run without --experiment.",
            )
    found = []
    for grid in experiment.grids:
        values = {**grid, **{key: value for key, value in given.items() if key not in (*_AXES, "methods")}}
        values["methods"] = [*grid["methods"], *given.get("methods", ())]
        for axis in _AXES:
            values[axis] = _narrowed(grid[axis], given.get(axis))
        if "seeds" in given:
            values.pop("repetitions", None)
        if all(values[axis] for axis in _AXES):
            found.append(make_config(values, f"Experiment {experiment.name}"))
    return found


def _narrowed(names: Sequence[str], chosen: Sequence[str] | None) -> list[str]:
    return [name for name in names if chosen is None or name in chosen]
