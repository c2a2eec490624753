"""What runs would make, found among records: the cells of an experiment, and what methods are compared with."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Sequence
from typing import Any

import pandas as pd

from unlearnbench.component import canonical_json
from unlearnbench.errors import UsageError
from unlearnbench.experiments import find_experiment
from unlearnbench.experiments.grids import configs
from unlearnbench.protocol import Protocol
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.config import RunConfig
from unlearnbench.running.lookup import chosen_datasets, chosen_methods, chosen_models, references_of

# A dataset's own split is the dataset's affair, and a version that of the records.
_OF_THE_GRAPH = ("split", "version")


def references(methods: Sequence[str], catalogue: Catalogue) -> set[str]:
    """Return the configurations of what these methods are compared with, of those that are known here."""
    found = set[str]()
    for method in methods:
        with contextlib.suppress(UsageError):
            specs = references_of([resolve(catalogue, "unlearner", method)], catalogue)
            found |= {canonical_json(spec.canonical()) for spec in specs}
    return found


def of_experiment(frame: pd.DataFrame, name: str, catalogue: Catalogue) -> pd.Series[bool]:
    """Mark the rows whose cells `run --experiment` makes.

    Raises:
        UsageError: There is no such experiment.
    """
    keep = pd.Series(False, index=frame.index)
    protocols = frame["protocol_config"].map(_without_split)
    for config in configs(find_experiment(name, catalogue), {}):
        cells = protocols == _protocol(config)
        cells &= frame["training_config"] == canonical_json(config.training_settings().canonical())
        cells &= frame["dataset"].isin([spec.canonical()["name"] for spec in chosen_datasets(config, catalogue)])
        cells &= frame["model_config"].isin([canonical_json(s.canonical()) for s in chosen_models(config, catalogue)])
        cells &= frame["method_config"].isin([canonical_json(s.canonical()) for s in chosen_methods(config, catalogue)])
        keep |= cells
    return keep


def _protocol(config: RunConfig) -> str:
    values: dict[str, Any] = Protocol(
        config.protocol, forget=config.forget_amount(), poison=config.poison(), setting=config.setting
    ).canonical()
    return canonical_json({key: value for key, value in values.items() if key not in _OF_THE_GRAPH})


def _without_split(text: str) -> str:
    return canonical_json({key: value for key, value in json.loads(text).items() if key not in _OF_THE_GRAPH})
