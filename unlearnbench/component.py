"""The base of every component, and its identity: name, version and the tree of its parameters."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from pydantic import BaseModel, ConfigDict, Field

from unlearnbench.hookspecs import PROJECT
from unlearnbench.papers import Paper


class ComponentParams(BaseModel):
    """Base class of every component's `Params`: unknown names are errors, values are fixed."""

    model_config = ConfigDict(extra="forbid", frozen=True, arbitrary_types_allowed=True, allow_inf_nan=False)


class Component:
    """Anything that a plugin registers.

    Args:
        params: An instance of the class's own `Params`.

    Attributes:
        kind: One of `hookspecs.KINDS`, which the base class of the kind sets.
        name: Lower-case, as it is written on the command line.
        title: Its name as papers write it; default: the name.
        version: Raised when the same parameters would give other numbers.
        summary: One line.
        reference: Where it comes from: paper and section.
        paper: The paper itself, for `unlearnbench show` to cite.
        presets: Named sets of parameters, dotted where they reach into a part:
            `{"paper": {"partitioner.balance": "none"}}`.
        default_preset: The name of its own defaults, for a component that has presets.
        named_by_parts: Whether tables always show which parts it is made of, default ones too.
        requires: Optional modules it imports, each with what to install by pip:
            `{"pymetis": "unlearnbench[metis]"}`. Checked before any training, so import them
            where they are used, not at the top of the module.
    """

    kind: ClassVar[str] = ""
    name: ClassVar[str]
    title: ClassVar[str] = ""
    version: ClassVar[int] = 1
    summary: ClassVar[str] = ""
    reference: ClassVar[str] = ""
    paper: ClassVar[Paper | None] = None
    presets: ClassVar[Mapping[str, Mapping[str, Any]]] = {}
    default_preset: ClassVar[str] = ""
    named_by_parts: ClassVar[bool] = False
    requires: ClassVar[Mapping[str, str]] = {}

    class Params(ComponentParams):
        """No parameters."""

    def __init__(self, params: Any = None) -> None:
        self.params: Any = self.Params() if params is None else params

    @classmethod
    def recorded_name(cls, params: Any) -> str:
        """Return its name in records and tables; a class may derive it from its parameters.

        Args:
            params: An instance of the class's own `Params`.
        """
        return cls.name


@dataclass(frozen=True)
class Spec:
    """A chosen component with every parameter filled in; `build()` makes an instance.

    Args:
        kind: One of `hookspecs.KINDS`.
        name: The component's name.
        version: The component's version.
        cls: Its class.
        params: Its parameters; a parameter that is a component itself holds a `Spec`.
        preset: The preset the parameters started from, empty where the class has none.
        distribution: The installed distribution it comes from.
        label: The shortest bracket that gives this spec: what tables show.
        source: The digest of its source; empty for what an installed distribution brings.
        alias: What the user calls it: tables show it in place of the label. No part of its identity.
    """

    kind: str
    name: str
    version: int
    cls: type[Any]
    params: ComponentParams
    preset: str = ""
    distribution: str = ""
    label: str = ""
    source: str = ""
    alias: str = ""

    @property
    def shown(self) -> str:
        """What the user reads: the alias, or else the label."""
        return self.alias or self.label

    def build(self) -> Any:
        """Make the component."""
        return self.cls(self.params)

    def parts(self) -> Iterator[tuple[str, Spec]]:
        """Yield the parameters that are components themselves."""
        for key in type(self.params).model_fields:
            value = getattr(self.params, key)
            if isinstance(value, Spec):
                yield key, value

    def innermost(self) -> Spec:
        """Return the component inside a wrapper, a component with a part of its own kind; else this one."""
        return next((chosen.innermost() for _, chosen in self.parts() if chosen.kind == self.kind), self)

    def distributions(self) -> set[str]:
        """Return the distributions it and its parts come from."""
        return {self.distribution}.union(*(chosen.distributions() for _, chosen in self.parts())) - {""}

    def canonical(self) -> dict[str, Any]:
        """Return the whole tree as plain JSON values: what a cell's key is made of.

        A component from elsewhere carries its distribution: two packages may use one name.
        """
        parts = dict(self.parts())
        plain = self.params.model_dump(mode="json", exclude={*parts, *_omitted(self.params)})
        params = {key: parts[key].canonical() if key in parts else plain[key] for key in sorted({*plain, *parts})}
        tree: dict[str, Any] = {"name": self.cls.recorded_name(self.params), "version": self.version, "params": params}
        if self.preset:
            tree["preset"] = self.preset
        if self.distribution not in ("", PROJECT):
            tree["distribution"] = self.distribution
        if self.source:
            tree["source"] = self.source
        return tree


def part(kind: str, default: str, description: str) -> Any:
    """Declare a parameter that is a component.

    Example: `partitioner: Spec = part("partitioner", "random", "Deals nodes into shards.")`.

    Args:
        kind: One of `hookspecs.KINDS`.
        default: A bracket, looked up when the component is resolved, so that no plugin
            imports another.
        description: One line for `unlearnbench show`.
    """
    return Field(default=default, description=description, json_schema_extra={"part": kind})


def part_kinds(params: type[BaseModel]) -> dict[str, str]:
    """Map each parameter that is a component to its kind."""
    kinds = {}
    for key, info in params.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, dict) and "part" in extra:
            kinds[key] = str(extra["part"])
    return kinds


def location(description: str) -> Any:
    """Declare a parameter that is a path or the like, and no part of the component's identity.

    A graph that is moved to another folder is still the same graph: its checksum is in the key.

    Args:
        description: One line for `unlearnbench show`.
    """
    return Field(default="", description=description, json_schema_extra={"location": True})


def later(default: Any, description: str, **limits: Any) -> Any:
    """Declare a parameter that was added in a later release.

    At its default it is no part of a cell's key, so that records from before it was added still belong
    to the same cells.

    Args:
        default: What the component did before.
        description: One line for `unlearnbench show`.
        **limits: As `pydantic.Field` takes them: `ge=0`, `pattern="..."`.
    """
    return Field(default=default, description=description, json_schema_extra={"later": True}, **limits)


@dataclass(frozen=True)
class Range:
    """The values of a parameter that a tuning tries.

    Args:
        low: The least; whole if the parameter is.
        high: The largest.
        log: Whether equal ratios are equally likely, instead of equal differences.
    """

    low: float
    high: float
    log: bool = False

    @property
    def whole(self) -> bool:
        """Whether only whole numbers are tried."""
        return isinstance(self.low, int) and isinstance(self.high, int)

    def at(self, share: float) -> float:
        """Return the value at a share in [0, 1) of the range, with two significant digits if it need not be whole."""
        low, high = self.low, self.high
        value = low * (high / low) ** share if self.log else low + share * (high - low)
        rounded = round(value) if self.whole else float(f"{value:.2g}")
        return min(max(rounded, low), high)


def search(low: float, high: float, log: bool = False) -> dict[str, Any]:
    """Declare the values of a parameter that `unlearnbench tune` tries; see `Range` for the arguments.

    Example: `lr: float = Field(default=0.01, gt=0, description="...", json_schema_extra=search(0.001, 0.1, log=True))`.
    """
    return {"search": {"low": low, "high": high, "log": log}}


def search_ranges(params: type[BaseModel]) -> dict[str, Range]:
    """Map each parameter that is tuned to its values."""
    ranges = {}
    for key, info in params.model_fields.items():
        extra = info.json_schema_extra
        if isinstance(extra, dict) and isinstance(extra.get("search"), dict):
            ranges[key] = Range(**extra["search"])  # type: ignore[arg-type]
    return ranges


def _omitted(params: ComponentParams) -> set[str]:
    """Return the parameters left out of a component's identity: locations, and later ones at their defaults."""
    omitted = set()
    for key, info in type(params).model_fields.items():
        extra = info.json_schema_extra if isinstance(info.json_schema_extra, dict) else {}
        if "location" in extra or ("later" in extra and getattr(params, key) == info.default):
            omitted.add(key)
    return omitted


# `json.dumps` would make one at each call.
_ENCODER = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


def canonical_json(value: Any) -> str:
    """Return the canonical text of plain values: equal values have equal texts."""
    return _ENCODER.encode(value)
