"""The catalogue of components: name to announcement, and from there to the class."""

from __future__ import annotations

import contextlib
import importlib
import inspect
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from unlearnbench import hookspecs
from unlearnbench.errors import UnlearnbenchError, UsageError, unknown_name


@dataclass(frozen=True)
class Entry:
    """A component as it was announced: nothing of it is imported yet if it was given as text."""

    kind: str
    name: str
    target: str | type[Any]
    summary: str
    distribution: str
    distribution_version: str
    plugin: str


@dataclass(frozen=True)
class PluginStatus:
    """What became of one plugin: `ok`, `disabled` or `failed` with the reason."""

    name: str
    distribution: str
    version: str
    status: str
    reason: str = ""
    components: tuple[str, ...] = ()


@dataclass
class Catalogue:
    """All components that can be used, by kind and name.

    Args:
        entries: `{kind: {name: [entry, ...]}}`; more than one entry is a clash.
        plugins: What became of each plugin, in the order of loading.
        notices: What a user should be told once.
    """

    entries: dict[str, dict[str, list[Entry]]] = field(default_factory=lambda: {kind: {} for kind in hookspecs.KINDS})
    plugins: list[PluginStatus] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def names(self, kind: str) -> list[str]:
        """List the names of a kind, sorted."""
        return sorted(self.entries[kind])

    def all(self, kind: str) -> list[Entry]:
        """List the entries of a kind by name; those of a clash one after the other."""
        return [entry for name in self.names(kind) for entry in self.entries[kind][name]]

    def find(self, kind: str, name: str) -> Entry:
        """Find one component.

        Args:
            kind: One of `hookspecs.KINDS`.
            name: `name`, or `distribution:name` where two distributions share a name.

        Raises:
            UsageError: Nobody registered it (near matches are named, and plugins that failed
                to load), or more than one distribution did.
        """
        distribution, colon, plain = name.rpartition(":")
        found = self.entries[kind].get(plain, [])
        if colon:
            found = [entry for entry in found if entry.distribution == normal_name(distribution)]
        if len(found) == 1:
            return found[0]
        if found:
            forms = " or ".join(f"{entry.distribution}:{plain}" for entry in found)
            raise UsageError(f"More than one distribution registers the {kind} {plain!r}.", f"Say which: {forms}.")
        raise self.unknown(kind, name, self.names(kind), f"List them: unlearnbench ls {kind}.")

    def unknown(self, what: str, name: str, known: Iterable[str], where: str = "") -> UsageError:
        """Make the error for a name that nobody registered; plugins that are not there are named with the reason."""
        error = unknown_name(what, name, known, where)
        for status, said in (("failed", "failed to load"), ("disabled", "is disabled")):
            absent = [f"{p.name} ({p.distribution}): {p.reason}" for p in self.plugins if p.status == status]
            if absent:
                error.hint += f"\nIt may belong to a plugin that {said}: " + "; ".join(absent)
        return error

    def plain_name(self, kind: str, name: str, distribution: str) -> str:
        """Give the shortest name that finds a component: with its distribution only where there is a clash."""
        return name if len(self.entries[kind].get(name, [])) == 1 else f"{distribution}:{name}"

    def load(self, entry: Entry) -> type[Any]:
        """Import the class of an entry.

        Raises:
            UsageError: The import failed, or the class is not what its entry says, or lacks a
                method that its kind must have.
        """
        from unlearnbench.component import Component

        cls: Any = entry.target
        who = f"The {entry.kind} {entry.name!r} of {entry.distribution}"
        if isinstance(entry.target, str):
            module, _, attribute = entry.target.partition(":")
            try:
                with contextlib.redirect_stdout(sys.stderr):  # standard output is for tables and JSON
                    cls = getattr(importlib.import_module(module), attribute)
            except KeyboardInterrupt:
                raise
            except BaseException as error:  # a plugin's import may fail in any way; its user needs the reason
                raise UsageError(
                    f"{who} cannot be imported: {reason_of(error)}", f"It is named as {entry.target}."
                ) from error
        if not (inspect.isclass(cls) and issubclass(cls, Component)):
            raise UsageError(f"{who} is {cls!r}, not a class derived from unlearnbench.Component.")
        name = getattr(cls, "name", None)
        if name != entry.name:
            raise UsageError(
                f"{who} calls itself {name!r}.",
                "The name it was announced with and the class attribute `name` must agree.",
            )
        if inspect.isabstract(cls):
            missing = ", ".join(sorted(getattr(cls, "__abstractmethods__", ())))
            raise UsageError(f"{who} cannot be used: {cls.__name__} does not define {missing}.")
        return cls

    def versions(self) -> dict[str, str]:
        """Give the versions of the distributions whose plugins loaded."""
        return {plugin.distribution: plugin.version for plugin in self.plugins if plugin.status == "ok"}


def reason_of(error: BaseException) -> str:
    """Say in one line why something of a plugin failed."""
    if isinstance(error, UnlearnbenchError):
        return error.message
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def normal_name(name: str) -> str:
    """Write the name of a distribution the one way that equal names are written (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
