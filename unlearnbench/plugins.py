"""Loads plugins one by one, keeps failures to themselves, and holds the catalogue of components.

Each plugin is called through a plugin manager of its own: what it announces is collected
aside and enters the catalogue only when the whole plugin has succeeded.
"""

from __future__ import annotations

import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from importlib import metadata
from typing import Any, Protocol

import pluggy

from unlearnbench import hookspecs
from unlearnbench.errors import UnlearnbenchError, UsageError, nearest, unknown_name

FIRST_PARTY = "unlearnbench"
CORE = "unlearnbench.builtin"
LOAD_ONLY = "UNLEARNBENCH_PLUGINS"
STRICT = "UNLEARNBENCH_STRICT_PLUGINS"


class EntryPoint(Protocol):
    """What is asked of an entry point; `importlib.metadata.EntryPoint` fits."""

    @property
    def name(self) -> str: ...
    @property
    def value(self) -> str: ...
    @property
    def dist(self) -> Any: ...
    def load(self) -> Any: ...


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
            found = [entry for entry in found if entry.distribution == distribution]
        if len(found) == 1:
            return found[0]
        if found:
            forms = " or ".join(f"{entry.distribution}:{plain}" for entry in found)
            raise UsageError(f"More than one distribution registers the {kind} {plain!r}.", f"Say which: {forms}.")
        error = unknown_name(kind, name, self.names(kind), f"List them: unlearnbench ls {kind}.")
        broken = [f"{p.name} ({p.distribution}): {p.reason}" for p in self.plugins if p.status == "failed"]
        if broken:
            error.hint += "\nIt may belong to a plugin that failed to load: " + "; ".join(broken)
        raise error

    def load(self, entry: Entry) -> type[Any]:
        """Import the class of an entry.

        Raises:
            UsageError: The import failed, or the class is not what its entry says.
        """
        if not isinstance(entry.target, str):
            return entry.target
        module, _, attribute = entry.target.partition(":")
        try:
            cls: type[Any] = getattr(importlib.import_module(module), attribute)
        except (Exception, SystemExit) as error:  # a plugin's import may fail in any way; its user needs the reason
            raise UsageError(
                f"The {entry.kind} {entry.name!r} of {entry.distribution} cannot be imported: {_reason(error)}",
                f"It is named as {entry.target}.",
            ) from error
        if cls.name != entry.name:
            raise UsageError(
                f"The {entry.kind} {entry.name!r} of {entry.distribution} calls itself {cls.name!r}.",
                "The name it was announced with and the class attribute `name` must agree.",
            )
        return cls

    def versions(self) -> dict[str, str]:
        """Give the versions of the distributions whose plugins loaded."""
        return {plugin.distribution: plugin.version for plugin in self.plugins if plugin.status == "ok"}


class PluginError(UnlearnbenchError):
    """A plugin did not load; raised only when failures are to stop the program."""


def load_catalogue(
    disable: Iterable[str] = (),
    only: Sequence[str] | None = None,
    strict: bool | None = None,
    entry_points: Iterable[EntryPoint] | None = None,
) -> Catalogue:
    """Load every plugin and collect what it announces.

    Args:
        disable: Names of plugins or distributions that are not even imported.
        only: Load no others but these; default: the environment's `UNLEARNBENCH_PLUGINS`,
            where it is set. What the core itself brings is always there.
        strict: Raise at the first failure; default: `UNLEARNBENCH_STRICT_PLUGINS=1`.
        entry_points: Instead of the installed ones.

    Raises:
        PluginError: A plugin failed and `strict` was asked for.
    """
    if only is None and LOAD_ONLY in os.environ:
        only = [name.strip() for name in os.environ[LOAD_ONLY].split(",") if name.strip()]
    strict = os.environ.get(STRICT) == "1" if strict is None else strict
    disabled = set(disable)
    catalogue = Catalogue()
    found = metadata.entry_points(group=hookspecs.PROJECT) if entry_points is None else entry_points
    _register(catalogue, "core", FIRST_PARTY, _version(FIRST_PARTY), importlib.import_module(CORE))
    seen: dict[tuple[str, str], EntryPoint] = {}
    for point in sorted(found, key=lambda p: (_distribution(p)[0] != FIRST_PARTY, _distribution(p)[0], p.name)):
        distribution, version = _distribution(point)
        if (distribution, point.name) in seen:
            catalogue.notices.append(f"Plugin {point.name} of {distribution} was found twice; the first one is used.")
            continue
        seen[distribution, point.name] = point
        if point.name in disabled or distribution in disabled:
            catalogue.plugins.append(PluginStatus(point.name, distribution, version, "disabled", "asked for"))
        elif only is not None and point.name not in only and distribution not in only:
            catalogue.plugins.append(PluginStatus(point.name, distribution, version, "disabled", f"not in {LOAD_ONLY}"))
        else:
            try:
                _register(catalogue, point.name, distribution, version, point.load())
            except (Exception, SystemExit) as error:  # whatever a stranger's import does, the others still load
                if strict:
                    raise PluginError(f"Plugin {point.name} of {distribution}: {_reason(error)}") from error
                catalogue.plugins.append(PluginStatus(point.name, distribution, version, "failed", _reason(error)))
    known = {name for p in catalogue.plugins for name in (p.name, p.distribution)}
    catalogue.notices += [
        f"--disable-plugin {name}: there is no such plugin. See: unlearnbench plugins" for name in sorted(disabled - known)
    ]
    return catalogue


def report_problems(catalogue: Catalogue) -> None:
    """Tell standard error about plugins that failed, one line each, and about notices."""
    for plugin in catalogue.plugins:
        if plugin.status == "failed":
            print(
                f"warning: plugin {plugin.name} of {plugin.distribution} was not loaded: {plugin.reason}"
                f" (remedy: fix or uninstall it, or --disable-plugin {plugin.name})",
                file=sys.stderr,
            )
    for notice in catalogue.notices:
        print(f"note: {notice}", file=sys.stderr)


def _register(catalogue: Catalogue, name: str, distribution: str, version: str, plugin: Any) -> None:
    """Call the hooks of one plugin and, if all went well, enter what it announced."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(plugin, name=name)
    _check_hook_names(manager, plugin)
    announced: list[Entry] = []
    for kind, hook in hookspecs.KINDS.items():

        def register(target: Any, where: str = "", *, summary: str = "", kind: str = kind) -> Any:
            entry = _entry(kind, target, where, summary, name, distribution, version)
            _check_free(catalogue, announced, entry)
            announced.append(entry)
            return target

        getattr(manager.hook, hook)(register=register)
    for entry in announced:
        catalogue.entries[entry.kind].setdefault(entry.name, []).append(entry)
    components = tuple(f"{entry.kind} {entry.name}" for entry in announced)
    catalogue.plugins.append(PluginStatus(name, distribution, version, "ok", components=components))


def _check_hook_names(manager: pluggy.PluginManager, plugin: Any) -> None:
    try:
        manager.check_pending()
    except pluggy.PluginValidationError:
        marked = [
            name
            for name, value in inspect.getmembers(plugin, callable)
            if hasattr(value, f"{hookspecs.PROJECT}_impl") and name not in hookspecs.KINDS.values()
        ]
        guesses = "; ".join(
            f"unknown hook {name!r}, did you mean {(nearest(name, hookspecs.KINDS.values(), 1) or ['none of ours'])[0]!r}?"
            for name in marked
        )
        raise UsageError(guesses) from None


def _entry(
    kind: str, target: Any, where: str, summary: str, plugin: str, distribution: str, version: str
) -> Entry:
    if isinstance(target, str):
        if ":" not in where:
            raise UsageError(f"register({target!r}, {where!r}): the second argument must be 'module:Class'.")
        return Entry(kind, target, where, summary, distribution, version, plugin)
    name = getattr(target, "name", None)
    if not inspect.isclass(target) or not isinstance(name, str):
        raise UsageError(f"register({target!r}): expected a class with a `name`, or register('name', 'module:Class').")
    return Entry(kind, name, target, getattr(target, "summary", ""), distribution, version, plugin)


def _check_free(catalogue: Catalogue, announced: list[Entry], entry: Entry) -> None:
    others = catalogue.entries[entry.kind].get(entry.name, [])
    others = others + [other for other in announced if (other.kind, other.name) == (entry.kind, entry.name)]
    for other in others:
        if FIRST_PARTY in (other.distribution, entry.distribution) or other.distribution == entry.distribution:
            raise UsageError(
                f"the {entry.kind} name {entry.name!r} of {entry.distribution} is taken by {other.distribution}",
                "Choose another name.",
            )


def _reason(error: BaseException) -> str:
    if isinstance(error, UnlearnbenchError):
        return error.message
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _distribution(point: EntryPoint) -> tuple[str, str]:
    return (point.dist.name, point.dist.version) if point.dist is not None else ("unknown", "0")


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        warnings.warn(f"{distribution} is not installed; its version is unknown.", stacklevel=2)
        return "0"
