"""The catalogue of all that plugins announce: name to announcement, and from there to the thing itself."""

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
from unlearnbench.registry.looks import Look


@dataclass(frozen=True)
class Entry:
    """Something as it was announced: nothing of it is imported yet if its target is text.

    The target is `module:attribute`, of an experiment `package:file`, or the thing itself. Without a look, figures
    draw it as its name gives. A table may be set `against` published numbers, as `printed` in a table of the paper, and
    `reads` records, audits or both.
    """

    kind: str
    name: str
    target: Any
    summary: str
    distribution: str
    distribution_version: str
    plugin: str
    look: Look | None = None
    against: str = ""
    reads: str = "records"
    printed: str = ""

    @property
    def key(self) -> str:
        """The name it is found by; a table set against published numbers has that of the option too."""
        return f"{self.name} --against {self.against}" if self.against else self.name


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
    """All components, tables and experiments that can be used, by kind and key; several of one key are a clash.

    `plugins` are in the order of loading; `notices` are to be told once.
    """

    entries: dict[str, dict[str, list[Entry]]] = field(default_factory=lambda: {kind: {} for kind in hookspecs.HOOKS})
    plugins: list[PluginStatus] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def names(self, kind: str) -> list[str]:
        """List the names of a kind, sorted."""
        return sorted(self.entries[kind])

    def all(self, kind: str) -> list[Entry]:
        """List the entries of a kind by name; those of a clash one after the other."""
        return [entry for name in self.names(kind) for entry in self.entries[kind][name]]

    def find(self, kind: str, name: str) -> Entry:
        """Find an entry by its name, or by `distribution:name` where two distributions share a name.

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
        shown = hookspecs.shown_kind(kind)
        if found:
            forms = " or ".join(f"{entry.distribution}:{plain}" for entry in found)
            raise UsageError(f"More than one distribution registers the {shown} {plain!r}.", f"Say which: {forms}.")
        raise self.unknown(shown, name, self.names(kind), f"List them: unlearnbench ls {shown}.")

    def unknown(self, what: str, name: str, known: Iterable[str], where: str = "") -> UsageError:
        """Make the error for a name that nobody registered; plugins that are not there are named with the reason."""
        error = unknown_name(what, name, known, where)
        for status, said in (("failed", "failed to load"), ("disabled", "is disabled")):
            absent = [f"{p.name} ({p.distribution}): {p.reason}" for p in self.plugins if p.status == status]
            if absent:
                error.hint += f"\nIt may belong to a plugin that {said}: " + "; ".join(absent)
        return error

    def asked_for(self, entry: Entry) -> str:
        """How an entry is asked for: a table that always stands against published numbers by its name alone."""
        alike = [other for other in self.all(entry.kind) if other.name == entry.name]
        return entry.name if {other.key for other in alike} == {entry.key} else entry.key

    def plain_name(self, kind: str, name: str, distribution: str) -> str:
        """Return the shortest name that finds a component: with its distribution only where there is a clash."""
        return name if len(self.entries[kind].get(name, [])) == 1 else f"{distribution}:{name}"

    def load(self, entry: Entry) -> type[Any]:
        """Import the class of a component.

        Raises:
            UsageError: The import failed, or the class is not what its entry says, or lacks a
                method that its kind must have.
        """
        from unlearnbench.component import Component

        cls, who = self.imported(entry), _who(entry)
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

    def imported(self, entry: Entry) -> Any:
        """Import what an entry names.

        Raises:
            UsageError: The import failed.
        """
        if not isinstance(entry.target, str):
            return entry.target
        module, _, attribute = entry.target.partition(":")
        try:
            with contextlib.redirect_stdout(sys.stderr):  # standard output is for tables and JSON
                return getattr(importlib.import_module(module), attribute)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # a plugin's import may fail in any way; its user needs the reason
            raise UsageError(
                f"{_who(entry)} cannot be imported: {reason_of(error)}", f"It is named as {entry.target}."
            ) from error

    def versions(self) -> dict[str, str]:
        """Return the versions of the distributions whose plugins loaded."""
        return {plugin.distribution: plugin.version for plugin in self.plugins if plugin.status == "ok"}


def _who(entry: Entry) -> str:
    return f"The {entry.kind} {entry.key!r} of {entry.distribution}"


def reason_of(error: BaseException) -> str:
    """Return in one line why something of a plugin failed."""
    if isinstance(error, UnlearnbenchError):
        return error.message
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def normal_name(name: str) -> str:
    """Write the name of a distribution the one way that equal names are written (PEP 503)."""
    return re.sub(r"[-_.]+", "-", name).lower()
