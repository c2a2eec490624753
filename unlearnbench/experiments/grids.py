"""The grids of an experiment as settings of runs."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from unlearnbench.errors import UsageError
from unlearnbench.experiments import AXES, Experiment
from unlearnbench.running.config import RunConfig, make_configs


def configs(experiment: Experiment, given: Mapping[str, Any]) -> list[RunConfig]:
    """Make the settings of each grid of an experiment.

    Of the keys of `RunConfig` that the user gave, `datasets` and `models` narrow the experiment, `methods` are
    added to it, and all others replace what it says.

    Raises:
        UsageError: A dataset or model that the experiment does not have, or settings that do not fit.
    """
    for axis in AXES:
        known = dict.fromkeys(name for grid in experiment.grids for name in grid[axis])
        strange = [name for name in given.get(axis, ()) if name not in known]
        if strange:
            raise UsageError(
                f"Experiment {experiment.name} has no {axis.removesuffix('s')} {strange[0]!r}.",
                f"It has: {', '.join(known)}. Other {axis} are for a run without --experiment.",
            )
    found = []
    for grid in experiment.grids:
        values = {**grid, **given, "methods": [*grid["methods"], *given.get("methods", ())]}
        for axis in AXES:
            values[axis] = [name for name in grid[axis] if name in given.get(axis, grid[axis])]
        if "seeds" in given:
            values.pop("repetitions", None)
        if all(values[axis] for axis in AXES):
            found += make_configs(values, f"Experiment {experiment.name}")
    return found
