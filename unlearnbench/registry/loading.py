"""Loads plugins one by one, keeps failures to themselves, and fills the catalogue.

Each plugin is called through a plugin manager of its own: what it announces is collected
aside and enters the catalogue only when the whole plugin has succeeded.
"""

from __future__ import annotations

import contextlib
import importlib
import inspect
import os
import sys
import warnings
from collections.abc import Iterable, Iterator, Sequence
from importlib import metadata
from importlib.metadata import EntryPoint
from typing import Any

import pluggy

from unlearnbench import hookspecs, messages
from unlearnbench.errors import UsageError, nearest
from unlearnbench.registry.announcing import check_free, make_entry
from unlearnbench.registry.catalogue import Catalogue, Entry, PluginStatus, normal_name, reason_of
from unlearnbench.registry.environment import STRICT_PLUGINS, switch
from unlearnbench.registry.session import enter

FIRST_PARTY = "unlearnbench"
CORE = "unlearnbench.registry.builtin"
LOAD_ONLY = "UNLEARNBENCH_PLUGINS"
UNKNOWN = "unknown"


class PluginError(UsageError):
    """A plugin did not load; raised only when failures are to stop the program before it starts."""


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
        UsageError: `UNLEARNBENCH_STRICT_PLUGINS` is neither on nor off.
    """
    if only is None and LOAD_ONLY in os.environ:
        only = [name.strip() for name in os.environ[LOAD_ONLY].split(",") if name.strip()]
    strict = switch(STRICT_PLUGINS) if strict is None else strict
    disabled = {normal_name(name) for name in disable}
    chosen = None if only is None else {normal_name(name) for name in only}
    catalogue = Catalogue()
    _register(catalogue, "core", FIRST_PARTY, _version(FIRST_PARTY), importlib.import_module(CORE))
    found = _installed(catalogue) if entry_points is None else entry_points
    seen: dict[tuple[str, str], str] = {}
    for (distribution, version), point in sorted(_identified(found), key=_in_order):
        if (distribution, point.name) in seen:
            first = seen[distribution, point.name]
            # A checkout on the path beside its own editable installation is no surprise.
            if (distribution, version) != (FIRST_PARTY, first):
                catalogue.notices.append(
                    f"Plugin {point.name} of {distribution} was found twice, as version {first} and version {version};"
                    " the first one is used."
                )
            continue
        seen[distribution, point.name] = version
        if point.name in disabled or distribution in disabled:
            catalogue.plugins.append(PluginStatus(point.name, distribution, version, "disabled", "asked for"))
        elif chosen is not None and point.name not in chosen and distribution not in chosen:
            catalogue.plugins.append(PluginStatus(point.name, distribution, version, "disabled", f"not in {LOAD_ONLY}"))
        else:
            _load_plugin(catalogue, point, distribution, version, strict)
    enter(catalogue)
    known = {name for p in catalogue.plugins[1:] for name in (p.name, p.distribution)} | {FIRST_PARTY}
    for option, names in (("--disable-plugin", disabled), (LOAD_ONLY, chosen or ())):
        catalogue.notices += [
            f"{option} {name}: there is no such plugin. See: unlearnbench plugins"
            for name in sorted(set(names) - known)
        ]
    return catalogue


def _load_plugin(catalogue: Catalogue, point: EntryPoint, distribution: str, version: str, strict: bool) -> None:
    """Import a plugin and collect what it announces, or note why that failed.

    Raises:
        PluginError: It failed and `strict` was asked for.
    """
    try:
        # What a plugin prints as it loads must not get into a table or JSON on standard output.
        with contextlib.redirect_stdout(sys.stderr):
            _register(catalogue, point.name, distribution, version, _loaded(point))
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a stranger's import does, the others still load
        if strict:
            raise PluginError(
                f"Plugin {point.name} of {distribution}: {reason_of(error)}",
                f"Fix or uninstall it, or --disable-plugin {point.name}; failures stop everything: {STRICT_PLUGINS}=1.",
            ) from error
        catalogue.plugins.append(PluginStatus(point.name, distribution, version, "failed", reason_of(error)))


def _installed(catalogue: Catalogue) -> list[EntryPoint]:
    """List the entry points of all installed distributions, of one that is found twice both times."""
    found: list[EntryPoint] = []
    places: set[tuple[str, str]] = set()
    for distribution in metadata.distributions():
        try:
            # Most installed distributions are no plugins: what they announce need not be understood.
            if hookspecs.PROJECT not in (distribution.read_text("entry_points.txt") or ""):
                continue
            points = [point for point in distribution.entry_points if point.group == hookspecs.PROJECT]
        except Exception as error:  # a damaged installation of a stranger's must not stop the others
            name, version = _identity(distribution)
            reason = f"its entry_points.txt, lines of NAME = MODULE, cannot be read ({reason_of(error)})"
            catalogue.plugins.append(PluginStatus("entry points", name, version, "failed", reason))
            continue
        if not points:
            continue
        place = _identity(distribution)[0], str(distribution.locate_file(""))
        if place not in places:  # else a folder stands on the path twice
            found += points
        if place[0] != UNKNOWN:
            places.add(place)
    return found


def load_and_report(disable: Iterable[str] = ()) -> Catalogue:
    """Load every plugin, and print those that failed and notices to standard error."""
    catalogue = load_catalogue(disable)
    report_problems(catalogue)
    return catalogue


def report_problems(catalogue: Catalogue) -> None:
    """Print plugins that failed, one line each, and notices to standard error."""
    for plugin in catalogue.plugins:
        if plugin.status == "failed":
            messages.warning(
                f"plugin {plugin.name} of {plugin.distribution} was not loaded: {plugin.reason}"
                f" (remedy: fix or uninstall it, or --disable-plugin {plugin.name})"
            )
    for notice in catalogue.notices:
        messages.note(notice)


def _loaded(point: EntryPoint) -> Any:
    if EntryPoint.pattern.match(point.value) is None:
        raise UsageError(f"its entry point is {point.value!r}, which names no module (NAME = MODULE)")
    return point.load()


def _register(catalogue: Catalogue, name: str, distribution: str, version: str, plugin: Any) -> None:
    """Enter what one plugin announces, if all goes well."""
    ours = distribution == FIRST_PARTY and inspect.ismodule(plugin)
    announced = _OURS.get((plugin, version), ()) if ours else ()
    for entry in announced:
        check_free(catalogue, (), entry)
    announced = announced or _announced(catalogue, name, distribution, version, plugin)
    if ours:
        _OURS[plugin, version] = announced
    for entry in announced:
        catalogue.entries[entry.kind].setdefault(entry.key, []).append(entry)
    components = tuple(f"{entry.kind} {entry.key}" for entry in announced)
    catalogue.plugins.append(PluginStatus(name, distribution, version, "ok", components=components))


_OURS: dict[tuple[Any, str], tuple[Entry, ...]] = {}
"""What modules of our own announced, which is the same every time; another's may depend on anything."""


def _announced(catalogue: Catalogue, name: str, distribution: str, version: str, plugin: Any) -> tuple[Entry, ...]:
    """Call the hooks of a plugin and return the entries it makes."""
    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    try:
        manager.register(plugin, name=name)
    except pluggy.PluginValidationError as error:
        raise UsageError(f"{' '.join(str(error).split())}. A hook has one argument, `register`.") from None
    _check_hook_names(manager, plugin)
    _check_collecting_hooks(manager, plugin)
    announced: list[Entry] = []
    for kind, hook in hookspecs.HOOKS.items():

        def register(target: Any, where: Any = "", *, summary: str = "", _kind: str = kind, **options: Any) -> Any:
            entry = make_entry(_kind, target, where, summary, options, plugin=name, origin=(distribution, version))
            check_free(catalogue, announced, entry)
            announced.append(entry)
            return target

        getattr(manager.hook, hook)(register=register)
    return tuple(announced)


def _check_hook_names(manager: pluggy.PluginManager, plugin: Any) -> None:
    try:
        manager.check_pending()
    except pluggy.PluginValidationError:
        marked = [
            name
            for name, value in inspect.getmembers(plugin, callable)
            if hasattr(value, f"{hookspecs.PROJECT}_impl") and name not in hookspecs.HOOKS.values()
        ]
        raise UsageError("; ".join(_unknown_hook(name) for name in marked)) from None


def _unknown_hook(name: str) -> str:
    close = nearest(name, hookspecs.HOOKS.values(), 1)
    guess = f"did you mean {close[0]!r}?" if close else f"known: {', '.join(hookspecs.HOOKS.values())}"
    return f"unknown hook {name!r}, {guess}"


def _check_collecting_hooks(manager: pluggy.PluginManager, plugin: Any) -> None:
    """Refuse what pluggy would pass over in silence, so that components would just be missing."""
    for caller in manager.get_hookcallers(plugin) or ():
        if any("register" not in implementation.argnames for implementation in caller.get_hookimpls()):
            raise UsageError(f"hook {caller.name!r} takes no argument `register`")
    for name in hookspecs.HOOKS.values():
        hook = getattr(plugin, name, None)
        if callable(hook) and not any(hasattr(hook, f"{hookspecs.PROJECT}_{mark}") for mark in ("impl", "spec")):
            raise UsageError(f"hook {name!r} is not marked with @hookimpl")


def _in_order(item: tuple[tuple[str, str], EntryPoint]) -> tuple[bool, str, str]:
    """Sort first-party plugins first, so that nobody can take their names, then by name."""
    (distribution, _), point = item
    return distribution != FIRST_PARTY, distribution, point.name


def _identified(points: Iterable[EntryPoint]) -> Iterator[tuple[tuple[str, str], EntryPoint]]:
    """Pair entry points with the distribution they come from; its metadata, the README in it, are parsed once."""
    known: dict[int, tuple[Any, tuple[str, str]]] = {}
    for point in points:
        if id(point.dist) not in known:
            # The distribution is held too: an id is only of something that lives.
            known[id(point.dist)] = point.dist, _identity(point.dist)
        yield known[id(point.dist)][1], point


def _identity(distribution: Any) -> tuple[str, str]:
    """Name a distribution and its version; damaged metadata may lack either, or not be readable."""
    try:
        # Each access to `metadata` parses it anew, the README in it too.
        metadata = distribution.metadata
        return normal_name(metadata["Name"]), metadata["Version"] or "0"
    except Exception:  # importlib raises whatever the damage leads to
        return UNKNOWN, "0"


def _version(distribution: str) -> str:
    try:
        return metadata.version(distribution)
    except metadata.PackageNotFoundError:
        warnings.warn(f"{distribution} is not installed; its version is unknown.", stacklevel=2)
        return "0"
