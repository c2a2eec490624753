"""From a bracket to a `Spec`: every default filled in, every part looked up, every value checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from unlearnbench.brackets import Bracket, parse_bracket
from unlearnbench.component import Spec, part_kinds
from unlearnbench.errors import UsageError, nearest

if TYPE_CHECKING:
    from unlearnbench.plugins import Catalogue

Arguments = dict[str, Any]


def resolve(catalogue: Catalogue, kind: str, text: str | Bracket) -> Spec:
    """Look a component up and fill in its parameters.

    Args:
        catalogue: Where components are found.
        kind: One of `hookspecs.KINDS`.
        text: `name`, or `name[key=value]`.

    Raises:
        UsageError: An unknown name or parameter, or a value out of range; names it and says
            what would be right.
    """
    bracket = parse_bracket(text) if isinstance(text, str) else text
    spec = _resolve(catalogue, kind, bracket)
    return replace(spec, label=str(_shortest(catalogue, kind, spec, bracket)))


def _resolve(catalogue: Catalogue, kind: str, bracket: Bracket) -> Spec:
    entry = catalogue.find(kind, bracket.name)
    cls = catalogue.load(entry)
    arguments: Arguments = dict(bracket.arguments)
    preset = str(arguments.pop("preset", cls.default_preset)) if cls.default_preset else ""
    preset_values = _preset(cls, entry.name, preset)
    parts = {}
    kinds = part_kinds(cls.Params)
    for key, part_kind in kinds.items():
        parts[key] = arguments.pop(key, None) or preset_values.get(key) or cls.Params.model_fields[key].default
    own: Arguments = {key: value for key, value in preset_values.items() if "." not in key and key not in kinds}
    inner: dict[str, Arguments] = {key: {} for key in kinds}
    for key, value in preset_values.items():
        head, dot, tail = key.partition(".")
        # A part that the user replaced is no longer the one the preset speaks of.
        if dot and head not in bracket.arguments:
            inner[head][tail] = value
    for key, value in arguments.items():
        head, dot, tail = key.partition(".")
        if dot and head in kinds:
            inner[head][tail] = value
        elif key in cls.Params.model_fields:
            own[key] = value
        else:
            inner[_owner(catalogue, entry.name, cls, parts, kinds, key)][key] = value
    for key, part_kind in kinds.items():
        chosen = parse_bracket(parts[key]) if isinstance(parts[key], str) else parts[key]
        own[key] = _resolve(catalogue, part_kind, Bracket(chosen.name, {**chosen.arguments, **inner[key]}))
    return Spec(
        kind=kind,
        name=entry.name,
        version=cls.version,
        cls=cls,
        params=_checked(entry.name, cls, own),
        preset=preset,
        distribution=entry.distribution,
    )


def _preset(cls: type[Any], name: str, preset: str) -> Mapping[str, Any]:
    if not preset or preset == cls.default_preset:
        return {}
    if preset not in cls.presets:
        known = ", ".join([cls.default_preset, *cls.presets])
        raise UsageError(f"{name} has no preset {preset!r}.", f"Known: {known}.")
    found: Mapping[str, Any] = cls.presets[preset]
    return found


def _owner(
    catalogue: Catalogue, name: str, cls: type[Any], parts: Arguments, kinds: Mapping[str, str], key: str
) -> str:
    """Name the one part that has the parameter `key`."""
    owners = []
    known = {k: None for k in cls.Params.model_fields if k not in kinds}
    head = key.partition(".")[0]
    for part_key, part_kind in kinds.items():
        chosen = parse_bracket(parts[part_key]) if isinstance(parts[part_key], str) else parts[part_key]
        fields = _reachable(catalogue, part_kind, chosen)
        known |= {f"{part_key}.{field}": None for field in fields}
        if head in fields:
            owners.append(part_key)
    if len(owners) == 1:
        return owners[0]
    if owners:
        forms = " or ".join(f"{owner}.{key}=..." for owner in owners)
        raise UsageError(f"{name}: more than one part has a parameter {key!r}.", f"Say which: {forms}.")
    close = nearest(key, known)
    guess = f"Did you mean {' or '.join(close)}? " if close else ""
    raise UsageError(f"{name} has no parameter {key!r}.", f"{guess}Known: {', '.join(known) or 'none'}.")


def _reachable(catalogue: Catalogue, kind: str, bracket: Bracket) -> set[str]:
    """List the parameters that a bare key can reach in a component and its own parts."""
    cls = catalogue.load(catalogue.find(kind, bracket.name))
    found = set(cls.Params.model_fields)
    for key, part_kind in part_kinds(cls.Params).items():
        inner = bracket.arguments.get(key, cls.Params.model_fields[key].default)
        found |= _reachable(catalogue, part_kind, parse_bracket(inner) if isinstance(inner, str) else inner)
    return found


def _checked(name: str, cls: type[Any], values: Arguments) -> Any:
    for key, value in values.items():
        if isinstance(value, Bracket):
            raise UsageError(f"{name}: {key!r} takes no brackets.", f"Write {key}=VALUE.")
    try:
        return cls.Params(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(item) for item in first["loc"])
        raise UsageError(
            f"{name}[{key}={first.get('input')}]: {first['msg']}.", f"See: unlearnbench show {name}"
        ) from None


def _shortest(catalogue: Catalogue, kind: str, spec: Spec, bracket: Bracket) -> Bracket:
    """Drop the arguments that change nothing and order the others: one way to write each spec."""
    whole = spec.canonical()
    kept = dict(sorted(bracket.arguments.items(), key=lambda item: (item[0] != "preset", item[0])))
    for key in list(kept):
        without = Bracket(bracket.name, {k: v for k, v in kept.items() if k != key})
        if _resolve(catalogue, kind, without).canonical() == whole:
            del kept[key]
    return Bracket(bracket.name, kept)
