"""What a call of `register` means: one form for components, another for tables and experiments."""

from __future__ import annotations

import inspect
from collections.abc import Sequence
from typing import Any

from unlearnbench import hookspecs
from unlearnbench.errors import UsageError
from unlearnbench.registry.brackets import NAME
from unlearnbench.registry.catalogue import Catalogue, Entry
from unlearnbench.registry.looks import read_look

READS = ("records", "audits", "both")
OPTIONS = {"unlearner": ("look",), "table": ("against", "reads", "printed")}
"""What `register` takes beside a summary, by kind."""
_FORMS = {"table": "'module:function' or a function", "experiment": "'package:file.toml'"}


def make_entry(
    kind: str, target: Any, where: Any, summary: str, options: dict[str, Any], *, plugin: str, origin: tuple[str, str]
) -> Entry:
    """Make the entry of one call of `register` by a plugin, whose distribution and version are `origin`.

    Raises:
        UsageError: The call makes no sense.
    """
    strange = [name for name in options if name not in OPTIONS.get(kind, ())]
    if strange:
        raise UsageError(f"register() of {hookspecs.HOOKS[kind]!r} takes no argument {strange[0]!r}")
    if kind in hookspecs.KINDS:
        name, place, summary = _component(target, where, summary)
    else:
        name, place = _named(kind, target, where)
    _check_name(kind, name)
    against, reads = options.get("against", ""), options.get("reads", "records")
    if against:
        _check_name("published numbers'", against)
    printed = options.get("printed", "")
    if not isinstance(printed, str) or (printed and not against):
        raise UsageError(f"printed={printed!r}: expected the table of the paper, beside `against`")
    if reads not in READS:
        raise UsageError(f"reads={reads!r}: expected one of {', '.join(READS)}")
    return Entry(kind, name, place, summary, *origin, plugin, read_look(options.get("look")), against, reads, printed)


def check_free(catalogue: Catalogue, announced: Sequence[Entry], entry: Entry) -> None:
    """Refuse a name that the same distribution or a first-party plugin has already.

    Raises:
        UsageError: It has.
    """
    same = [other for other in announced if (other.kind, other.key) == (entry.kind, entry.key)]
    for other in catalogue.entries[entry.kind].get(entry.key, []) + same:
        if hookspecs.PROJECT in (other.distribution, entry.distribution) or other.distribution == entry.distribution:
            raise UsageError(
                f"the {entry.kind} name {entry.key!r} of {entry.distribution} is taken by {other.distribution}",
                "Choose another name.",
            )


def _component(target: Any, where: Any, summary: str) -> tuple[str, Any, str]:
    if isinstance(target, str):
        if not isinstance(where, str) or ":" not in where:
            raise UsageError(f"register({target!r}, {where!r}): the second argument must be 'module:Class'.")
        return target, where, summary
    name = getattr(target, "name", None)
    if not inspect.isclass(target) or not isinstance(name, str):
        raise UsageError(f"register({target!r}): expected a class with a `name`, or register('name', 'module:Class').")
    return name, target, getattr(target, "summary", "")


def _named(kind: str, target: Any, where: Any) -> tuple[str, Any]:
    is_place = isinstance(where, str) and ":" in where
    if not isinstance(target, str) or not (is_place or (kind == "table" and callable(where))):
        raise UsageError(f"register({target!r}, {where!r}): expected a name and {_FORMS[kind]}.")
    return target, where


def _check_name(kind: str, name: Any) -> None:
    """Refuse a name that nobody could ask for: it could not be written in a bracket."""
    if not isinstance(name, str) or not NAME.fullmatch(name) or ":" in name:
        raise UsageError(f"the {kind} name {name!r} cannot be written on a command line. Use letters, digits, - and _.")
