"""The rules of all kinds: declared names, version and parameters, and that a component can be built."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel
from pydantic_core import PydanticUndefined

import unlearnbench
from unlearnbench.component import ComponentParams, search_ranges
from unlearnbench.registry.brackets import Bracket
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import Toy
from unlearnbench.testing.rules.base import Case, Fault, Rule

BASES: dict[str, tuple[type[Any], ...]] = {
    "partitioner": (unlearnbench.Partitioner,),
    "aggregator": (unlearnbench.Aggregator,),
    "unlearner": (unlearnbench.Unlearner,),
    "dataset": (unlearnbench.Dataset,),
    "model": (unlearnbench.Model, unlearnbench.StackedModel),
    "metric": (unlearnbench.Metric,),
    "audit": (unlearnbench.Audit,),
}
_NAME = re.compile(r"[a-z0-9_][a-z0-9_.+-]*")


def _declares(case: Case, toy: Toy) -> Iterator[Fault]:
    cls, kind = case.spec.cls, case.spec.kind
    if not issubclass(cls, BASES[kind]):
        named = " or ".join(f"unlearnbench.{base.__name__}" for base in BASES[kind])
        yield Fault(f"{cls.__name__} is registered as a {kind} but is none.", f"Subclass {named}.")
    if not _NAME.fullmatch(cls.name):
        yield Fault(
            f"Its name {cls.name!r} cannot be written on a command line.",
            "Use lower-case letters, digits, '-' and '_'.",
        )
    if not isinstance(cls.version, int) or isinstance(cls.version, bool) or cls.version < 1:
        yield Fault(f"Its version is {cls.version!r}.", "Use a whole number, 1 at first.")
    for attribute, what in (("summary", "what it does, for lists"), ("reference", "where it comes from")):
        value = getattr(cls, attribute)
        if not isinstance(value, str) or not value.strip() or "\n" in value:
            yield Fault(f"Its {attribute} is {value!r}.", f"Write in one line {what}.")


def _parameters(case: Case, toy: Toy) -> Iterator[Fault]:
    cls = case.spec.cls
    params = cls.Params
    if not (isinstance(params, type) and issubclass(params, ComponentParams)):
        yield Fault("Its Params is no unlearnbench.ComponentParams.", "Derive the nested class Params from it.")
        return
    config: Any = params.model_config
    if config.get("extra") != "forbid" or not config.get("frozen"):
        yield Fault(
            "Its Params accepts unknown names or can be changed.", 'Leave extra="forbid" and frozen=True as they are.'
        )
    yield from _fields(params)
    case.build()
    for preset in cls.presets:
        resolve(case.catalogue, case.spec.kind, Bracket(case.spec.name, {"preset": preset}))
    for name, values in search_ranges(params).items():
        if not values.low < values.high or (values.log and not values.low > 0):
            yield Fault(
                f"Its range of {name} to be tuned is empty.", "Use search(LOW, HIGH), LOW above 0 with log=True."
            )
        for value in (values.low, values.high):
            resolve(case.catalogue, case.spec.kind, Bracket(case.spec.name, {name: str(value)}))
    if cls.presets and not cls.default_preset:
        yield Fault("It has presets and no default_preset.", "Name its own defaults in default_preset.")


def _fields(params: type[BaseModel]) -> Iterator[Fault]:
    for name, info in params.model_fields.items():
        if not info.description:
            yield Fault(f"Its parameter {name} has no description.", 'Use Field(default=..., description="...").')
        if info.default is PydanticUndefined and info.default_factory is None:
            yield Fault(f"Its parameter {name} has no default.", "Set one, so that the bare name works.")


RULES = (
    Rule("declares", "name, version, summary and reference are given, and the class is of its kind", _declares),
    Rule(
        "parameters",
        "every parameter has a default and a description, every preset and every value to be tuned can be used",
        _parameters,
    ),
)
