"""The protocol `tuned`: values that `unlearnbench tune` chose, looked up for each method, base model and graph."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, ValidationError

from unlearnbench.component import Spec
from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import Bracket, parse_bracket
from unlearnbench.registry.catalogue import Catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Training

FILE = "tuned.toml"
ANY_OTHER = ""
_OF_TRAINING = "training."

# Values by name, dotted where it reaches into a part; those of the training begin with `training.`.
Point = Mapping[str, Any]


class _Row(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    method: str
    version: int
    model: str
    graph: str
    chosen_on: list[str]
    objective: str
    trials: int
    failed: int
    trial: int
    loss: float
    default_loss: float | None = None
    within_margin: bool
    values: dict[str, int | float | bool | str]


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    format: int
    origin: dict[str, Any]
    tuned: list[_Row]


@dataclass(frozen=True)
class TunedValues:
    """The values of a file that `unlearnbench tune` wrote.

    Args:
        source: The file, for errors.
        rows: What was chosen: one row for each method, base model and graph, `graph` empty for any other graph.
    """

    source: str
    rows: tuple[_Row, ...]

    def of(
        self, catalogue: Catalogue, method: Spec, model: Spec, dataset: str, training: Training
    ) -> tuple[Spec, Training]:
        """Return a method with its tuned values, and how its networks are trained.

        Args:
            catalogue: Where the method is looked up.
            method: As the user named it.
            model: The base model.
            dataset: The identity of the dataset: see `cell.identity_of`.
            training: What holds where nothing was tuned.

        Raises:
            UsageError: There are no values, those there were chosen on this very graph, or they are of another version.
        """
        rows = {row.graph: row for row in self.rows if (row.method, row.model) == (method.label, model.label)}
        row = rows.get(dataset, rows.get(ANY_OTHER))
        where = f"{method.label} with {model.label} on {dataset}"
        if row is None:
            raise UsageError(
                f"{self.source} has no tuned values for {where}.",
                f"Leave it out, or tune it on other graphs: unlearnbench tune --methods {method.label} --models"
                f" {model.label} --datasets NAMES; `tuned` FILE names the file that this writes.",
            )
        if row.graph == ANY_OTHER and dataset in row.chosen_on:
            raise UsageError(
                f"{self.source} has tuned values for {where}, but they were chosen on this graph.",
                f"Tune on others too: unlearnbench tune --methods {method.label} --models {model.label} --datasets"
                " NAMES; of two graphs each has values that were chosen on the other.",
            )
        if row.version != method.version:
            raise UsageError(
                f"{self.source}: the values for {method.label} are of its version {row.version}, this is version"
                f" {method.version}.",
                "Tune it again.",
            )
        return at_point(catalogue, method, training, row.values)


def read_tuned(path: Path | None) -> TunedValues:
    """Read tuned values; None: those that come with the package.

    Raises:
        UsageError: The file is missing, or is none that `unlearnbench tune` writes.
    """
    source = "The file of tuned values of this package" if path is None else f"Tuned values {path}"
    try:
        place = resources.files("unlearnbench.running").joinpath(FILE) if path is None else path
        plain = _File(**tomllib.loads(place.read_text(encoding="utf-8")))
    except OSError as error:
        raise UsageError(f"{source}: {error.strerror}.", "Name a file that `unlearnbench tune` wrote.") from None
    except (ValueError, TypeError, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise UsageError(f"{source}: {first}.", "Name a file that `unlearnbench tune` wrote.") from None
    return TunedValues(source, tuple(plain.tuned))


def at_point(catalogue: Catalogue, method: Spec, training: Training, point: Point) -> tuple[Spec, Training]:
    """Return a method and its training with the values of a point; what it does not name stays.

    Raises:
        UsageError: A parameter takes no such value.
    """
    own = {name: _text(value) for name, value in point.items() if not name.startswith(_OF_TRAINING)}
    recipe = recipe_of(point)
    bracket = parse_bracket(method.label)
    if not own:
        return method, replace(training, **recipe)
    chosen = resolve(catalogue, "unlearner", Bracket(bracket.name, {**bracket.arguments, **own}))
    return replace(chosen, alias=method.alias), replace(training, **recipe)


def recipe_of(point: Point) -> dict[str, Any]:
    """Return the values of a point that are of the training, without their prefix."""
    return {name.removeprefix(_OF_TRAINING): value for name, value in point.items() if name.startswith(_OF_TRAINING)}


def _text(value: Any) -> str:
    return repr(value) if isinstance(value, float) else str(value)
