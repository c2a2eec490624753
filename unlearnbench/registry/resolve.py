"""Turns a bracket into a `Spec`: fills in defaults, looks up parts, checks values."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from unlearnbench.component import Spec, part_kinds
from unlearnbench.errors import UsageError, nearest
from unlearnbench.hookspecs import KINDS, SESSION, kind_of, shown_kind
from unlearnbench.registry.brackets import Bracket, parse_bracket

if TYPE_CHECKING:
    from unlearnbench.registry.catalogue import Catalogue, Entry

Arguments = dict[str, Any]


def resolve(catalogue: Catalogue, kind: str, text: str | Bracket) -> Spec:
    """Look a component up and fill in its parameters.

    Its label depends on these alone, not on how the text was written; its alias is that of the text.

    Raises:
        UsageError: An unknown name or parameter, one given twice, a value out of range, or an alias that cannot
            stand; names it and what would be valid.
    """
    bracket = parse_bracket(text) if isinstance(text, str) else text
    if bracket.alias:
        _check_alias(catalogue, kind, bracket)
    return replace(labelled(catalogue, _resolve(catalogue, kind, bracket)), alias=bracket.alias)


def _check_alias(catalogue: Catalogue, kind: str, bracket: Bracket) -> None:
    """Refuse an alias of anything but a method, or one that is the name of a method; and a slip that looks like one."""
    if kind != "unlearner":
        raise UsageError(f"{bracket}: only methods take an alias.", f"Write {replace(bracket, alias='')}.")
    if bracket.alias in catalogue.names(kind):
        raise UsageError(
            f"{bracket}: {bracket.alias!r} is the name of a method and cannot be an alias.", "Choose another alias."
        )
    if bracket.name.rpartition(":")[2] not in catalogue.names(kind):
        raise UsageError(
            f"{bracket}: there is no method {bracket.name!r} to give the alias {bracket.alias!r} to.",
            f"An alias is ALIAS=METHOD; a parameter goes in brackets: METHOD[{bracket.alias}={bracket.name}].",
        )
    if bracket.name.rpartition(":")[2] == "retrain":
        raise UsageError(f"{bracket}: Retrain is what tables compare with, and keeps its name.", "Leave the alias out.")


def labelled(catalogue: Catalogue, spec: Spec) -> Spec:
    """Return a spec with its label: the shortest bracket that resolves to it."""
    return replace(spec, label=str(_label(catalogue, spec)))


def resolve_any(catalogue: Catalogue, text: str, kind: str | None = None) -> Spec:
    """Look up a component of any kind, or of the one named, which can be `method`.

    Raises:
        UsageError: As for `resolve`; or components of two kinds have this name.
    """
    plain = parse_bracket(text).name.rpartition(":")[2]
    asked = [each for each in KINDS if kind is None or each == kind_of(kind)]
    kinds = [each for each in asked if plain in catalogue.names(each)]
    if not kinds:
        raise catalogue.unknown(kind or "component", plain, {n for each in asked for n in catalogue.names(each)})
    if len(kinds) > 1:
        shown = [shown_kind(each) for each in kinds]
        raise UsageError(f"{plain} is a {' and a '.join(shown)}.", f"Choose one: `kind` {shown[0]}.")
    return resolve(catalogue, kinds[0], text)


def _resolve(catalogue: Catalogue, kind: str, bracket: Bracket, under: Mapping[str, Any] | None = None) -> Spec:
    """Resolve a bracket; `under` has the values of an outer preset or default, which it overrides."""
    entry = catalogue.find(kind, bracket.name)
    cls = catalogue.load(entry)
    given, lower = dict(bracket.arguments), dict(under or {})
    preset = ""
    if cls.default_preset:
        preset = str(given.pop("preset", lower.pop("preset", cls.default_preset)))
    lower = {**_preset(cls, entry.name, preset), **lower}
    kinds = part_kinds(cls.Params)
    replaced = kinds.keys() & given.keys()
    parts = {}
    for key in kinds:
        default = lower.pop(key, cls.Params.model_fields[key].default)
        chosen = given.pop(key, default)
        parts[key] = chosen if isinstance(chosen, Bracket) else parse_bracket(str(chosen))
    # The preset describes the original part, not its replacement.
    lower = {key: value for key, value in lower.items() if key.partition(".")[0] not in replaced}
    below = _sort_by_part(catalogue, entry.name, cls, parts, lower, once=False)
    above = _sort_by_part(catalogue, entry.name, cls, parts, given, once=True)
    own: Arguments = {**below[""], **above[""]}
    for key, part_kind in kinds.items():
        chosen, flat, beneath = parts[key], above[key], below[key]
        if key in replaced:
            twice = [name for name in flat if name in chosen.arguments]
            if twice:
                raise _given_twice(entry.name, f"{key}.{twice[0]}")
            flat = {**chosen.arguments, **flat}
        else:
            beneath = {**chosen.arguments, **beneath}
        own[key] = _resolve(catalogue, part_kind, Bracket(chosen.name, flat), beneath)
    return spec_of(entry, cls, _checked(entry.name, cls, own), preset)


def spec_of(entry: Entry, cls: type[Any], params: Any, preset: str = "") -> Spec:
    """Make the spec of a component that was looked up; it has no label."""
    source = entry.distribution_version if entry.distribution == SESSION else ""
    return Spec(entry.kind, entry.name, cls.version, cls, params, preset, entry.distribution, source=source)


def _sort_by_part(
    catalogue: Catalogue,
    name: str,
    cls: type[Any],
    parts: Mapping[str, Bracket],
    values: Mapping[str, Any],
    once: bool,
) -> dict[str, Arguments]:
    """Assign each value to the part it is meant for, or to the component itself (the empty key).

    With `once`, setting a parameter by two of its names is an error; otherwise the last one counts.
    """
    kinds = part_kinds(cls.Params)
    values_of: dict[str, Arguments] = {"": {}, **{key: {} for key in kinds}}
    for key, value in values.items():
        head, dot, tail = key.partition(".")
        if dot and head in kinds:
            part_key, inner = head, tail
        elif key in cls.Params.model_fields:
            part_key, inner = "", key
        else:
            part_key, inner = _owner(catalogue, name, cls, parts, key), key
        if once and inner in values_of[part_key]:
            raise _given_twice(name, f"{part_key}.{inner}")
        values_of[part_key][inner] = value
    return values_of


def _given_twice(name: str, key: str) -> UsageError:
    return UsageError(f"{name}: {key!r} is given twice.", "Leave one out.")


def _preset(cls: type[Any], name: str, preset: str) -> Mapping[str, Any]:
    if not preset or preset == cls.default_preset:
        return {}
    if preset not in cls.presets:
        known = ", ".join([cls.default_preset, *cls.presets])
        raise UsageError(f"{name} has no preset {preset!r}.", f"Known: {known}.")
    values: Mapping[str, Any] = cls.presets[preset]
    return values


def _owner(catalogue: Catalogue, name: str, cls: type[Any], parts: Mapping[str, Bracket], key: str) -> str:
    """Return the one part that has the parameter `key`."""
    owners = []
    known = list(cls.Params.model_fields)
    spellings = {field: field for field in known}
    head = key.partition(".")[0]
    for part_key, part_kind in part_kinds(cls.Params).items():
        fields = _reachable(catalogue, part_kind, parts[part_key])
        known += [f"{part_key}.{field}" for field in fields]
        for field in fields:
            spellings.setdefault(field, f"{part_key}.{field}")
        if head in fields:
            owners.append(part_key)
    if len(owners) == 1:
        return owners[0]
    if owners:
        forms = " or ".join(f"{owner}.{key}=..." for owner in owners)
        raise UsageError(f"{name}: more than one part has a parameter {key!r}.", f"Say which: {forms}.")
    close = [spellings[field] for field in nearest(key, spellings)]
    guess = f"Did you mean {' or '.join(close)}? " if close else ""
    raise UsageError(f"{name} has no parameter {key!r}.", f"{guess}Known: {', '.join(known) or 'none'}.")


def _reachable(catalogue: Catalogue, kind: str, bracket: Bracket) -> list[str]:
    """List the parameters that a bare key can reach in a component and its own parts."""
    cls = catalogue.load(catalogue.find(kind, bracket.name))
    fields = list(cls.Params.model_fields)
    for key, part_kind in part_kinds(cls.Params).items():
        inner = bracket.arguments.get(key, cls.Params.model_fields[key].default)
        fields += _reachable(catalogue, part_kind, inner if isinstance(inner, Bracket) else parse_bracket(str(inner)))
    return list(dict.fromkeys(fields))


def _checked(name: str, cls: type[Any], values: Arguments) -> Any:
    for key, value in values.items():
        if isinstance(value, Bracket):
            raise UsageError(f"{name}: {key!r} takes no brackets.", f"Write {key}=VALUE.")
    try:
        return cls.Params(**values)
    except ValidationError as error:
        first = error.errors()[0]
        key = ".".join(str(item) for item in first["loc"])
        if first["type"] == "missing":
            what = f"{name}: {key!r} has no default and must be given."
        elif not key:
            what = f"{name}: {first['msg'].removeprefix('Value error, ')}."
        else:
            what = f"{name}[{key}={first.get('input')}]: {first['msg']}."
        raise UsageError(what, f"See: unlearnbench show {name}") from None


def _label(catalogue: Catalogue, spec: Spec) -> Bracket:
    """Return the canonical bracket of a spec: the fewest arguments, parts first."""
    name = catalogue.plain_name(spec.kind, spec.name, spec.distribution)
    start: Arguments = {"preset": spec.preset} if spec.preset != spec.cls.default_preset else {}
    fields = type(spec.params).model_fields
    start |= {key: _text(value) for key, value in _plain(spec).items() if fields[key].is_required()}
    parts = [key for key, _ in spec.parts()]
    if spec.cls.named_by_parts:
        start |= {key: _label(catalogue, chosen) for key, chosen in spec.parts()}
    base = _resolve(catalogue, spec.kind, Bracket(name, start))
    arguments = {**start, **_difference(catalogue, base, spec)}
    canonical = spec.canonical()
    for key in sorted(key for key in arguments if "." in key):
        steps = key.split(".")
        for bare in (".".join(steps[at:]) for at in range(len(steps) - 1, 0, -1)):
            shorter = {bare if other == key else other: value for other, value in arguments.items()}
            if bare not in arguments and _resolves_to(catalogue, spec.kind, Bracket(name, shorter), canonical):
                arguments = shorter
                break
    places = {"preset": -1} | {key: place for place, key in enumerate(parts)}
    ordered = sorted(arguments, key=lambda key: (places.get(key, len(parts)), key))
    return Bracket(name, {key: arguments[key] for key in ordered})


def _difference(catalogue: Catalogue, base: Spec, spec: Spec) -> Arguments:
    """List the arguments that turn `base` into `spec`, dotted where they reach into a part."""
    before, after = _plain(base), _plain(spec)
    arguments: Arguments = {k: _text(v) for k, v in after.items() if json.dumps(v) != json.dumps(before[k])}
    others = dict(base.parts())
    for key, chosen in spec.parts():
        other = others[key]
        replaced: Arguments = {key: _label(catalogue, chosen)}
        if (chosen.cls, chosen.preset) == (other.cls, other.preset):
            inner = {f"{key}.{name}": value for name, value in _difference(catalogue, other, chosen).items()}
            arguments |= inner if _count(inner) <= _count(replaced) else replaced
        else:
            arguments |= replaced
    return arguments


def _count(arguments: Mapping[str, Any]) -> int:
    """Count the arguments, including those of inner brackets."""
    return sum(1 + (_count(value.arguments) if isinstance(value, Bracket) else 0) for value in arguments.values())


def _plain(spec: Spec) -> dict[str, Any]:
    """Return the parameters that are no parts, as JSON values."""
    return spec.params.model_dump(mode="json", exclude={key for key, _ in spec.parts()})


def _text(value: Any) -> str:
    """Return a JSON value as it is written in a bracket."""
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, list):
        return ",".join(_text(item) for item in value)
    return value if isinstance(value, str) else json.dumps(value)


def _resolves_to(catalogue: Catalogue, kind: str, bracket: Bracket, canonical: dict[str, Any]) -> bool:
    try:
        return _resolve(catalogue, kind, bracket).canonical() == canonical
    except UsageError:  # the shorter form is ambiguous
        return False
