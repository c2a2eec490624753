"""Components of this session: classes that a script or a notebook registers, and that no package brings."""

from __future__ import annotations

import hashlib
import inspect
from collections.abc import Iterator
from functools import cached_property
from types import CodeType, FunctionType
from typing import Any

from unlearnbench.errors import UsageError
from unlearnbench.hookspecs import SESSION
from unlearnbench.registry.announcing import make_entry
from unlearnbench.registry.catalogue import Catalogue, Entry

REMEDY = "Put it into a package: unlearnbench plugin new NAME."

_entries: dict[tuple[str, str], Entry] = {}


def announce(kind: str, cls: type[Any], catalogue: Catalogue) -> Entry:
    """Announce a class; it replaces one of the same kind and name that was announced before.

    Raises:
        UsageError: It has no proper name, or an installed component has it.
    """
    origin = (SESSION, source_digest(cls))
    entry = make_entry(kind, cls, "", "", {}, plugin=SESSION, origin=origin)
    for other in catalogue.entries[kind].get(entry.name, []):
        if other.distribution != SESSION:
            raise UsageError(
                f"The {kind} name {entry.name!r} of the class {cls.__name__} is taken by {other.distribution}.",
                "Choose another `name`.",
            )
    catalogue.load(entry)
    _entries[kind, entry.name] = entry
    catalogue.entries[kind][entry.name] = [entry]
    return entry


def enter(catalogue: Catalogue) -> None:
    """Enter what was announced so far into a catalogue."""
    for (kind, name), entry in _entries.items():
        catalogue.entries[kind].setdefault(name, []).append(entry)


def source_digest(cls: type[Any]) -> str:
    """Return a digest of a class and of what it uses of its own module or package: code, constants, classes.

    Of the compiled code, since that of an interactive session has no file. A digest is of one Python version.
    """
    digest = hashlib.sha256()
    seen: set[int] = set()
    for text in _parts(cls, cls.__module__.partition(".")[0], seen):
        digest.update(f"{text}\0".encode())
    return digest.hexdigest()[:32]


def _parts(value: Any, package: str, seen: set[int]) -> Iterator[str]:
    """Yield texts that differ where the behaviour of a value may differ."""
    if isinstance(value, staticmethod | classmethod):
        value = value.__func__
    elif isinstance(value, property):
        value = value.fget
    elif isinstance(value, cached_property):
        value = value.func
    value = inspect.unwrap(value) if callable(value) else value
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        yield repr(value)
    elif isinstance(value, tuple | list):
        for item in value:
            yield from _parts(item, package, seen)
    elif isinstance(value, set | frozenset):
        yield from sorted(map(repr, value))
    elif isinstance(value, dict):
        for key, item in value.items():
            yield repr(key)
            yield from _parts(item, package, seen)
    elif isinstance(value, CodeType):
        yield from (value.co_code.hex(), *value.co_names)
        for item in value.co_consts:
            yield from _parts(item, package, seen)
    elif id(value) not in seen and str(getattr(value, "__module__", "")).partition(".")[0] == package:
        seen.add(id(value))
        if isinstance(value, FunctionType):
            yield from _parts([value.__code__, value.__defaults__, value.__kwdefaults__], package, seen)
            yield from _parts(dict(_globals_of(value)), package, seen)
            closed = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
            yield from _parts(closed, package, seen)
        elif isinstance(value, type):
            yield value.__qualname__
            yield from _parts(list(value.__bases__), package, seen)
            own = {name: member for name, member in vars(value).items() if not name.startswith(("__pydantic", "_abc"))}
            yield from _parts({name: own[name] for name in sorted(own) if name not in _OF_PLACE}, package, seen)


# What says where a class stands, or changes with any other class.
_OF_PLACE = frozenset({"__module__", "__dict__", "__weakref__", "__firstlineno__", "__static_attributes__"})


def _is_filled(cell: Any) -> bool:
    try:
        return cell.cell_contents is not None
    except ValueError:  # not assigned yet
        return False


def _globals_of(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield the global names that a function, or one inside it, reads."""
    codes = [function.__code__]
    while codes:
        code = codes.pop()
        codes += [item for item in code.co_consts if isinstance(item, CodeType)]
        yield from ((name, function.__globals__[name]) for name in code.co_names if name in function.__globals__)
