"""Classes and data of a script or a notebook, taken as they are where others write names."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from unlearnbench.api.own_network import is_network, model_of
from unlearnbench.component import Component
from unlearnbench.datasets.own.held import hold
from unlearnbench.datasets.own.reading import is_pyg_data
from unlearnbench.errors import UsageError
from unlearnbench.hookspecs import KINDS, SESSION
from unlearnbench.registry import session
from unlearnbench.registry.brackets import FILE_PREFIX
from unlearnbench.registry.loading import load_catalogue

Thing = TypeVar("Thing")


def register(thing: Thing, *, name: str = "") -> Thing:
    """Make a class or a graph of yours known by name for the rest of this session; can decorate a class.

    A class is then found by its `name` wherever an installed component is: in brackets, in `run`, in
    `method`. One registered again, after a change, replaces the former. Data are found as `file:NAME`.

    Args:
        thing: A subclass of `Unlearner`, `Partitioner`, `Aggregator`, `Model`, `StackedModel`, `Dataset`,
            `Metric` or `Audit`; a PyG `Data`; or a dictionary of tensors.
        name: What to call data.

    Returns:
        What was given.

    Raises:
        UsageError: It is none of these, it has no `name`, or an installed component has that name.
        DataError: The data have no labels or edges.
    """
    if is_data(thing):
        hold(thing, name)
    elif name:
        raise UsageError("register() takes a name for data alone.", "A class has a class attribute `name`.")
    else:
        name_of(thing)
    return thing


def name_of(thing: Any, kind: str = "") -> Any:
    """Return the name of a class or of data, registered if they were not; anything else as it is.

    Args:
        thing: A class, data, a bracket, or a table with one of these as its `name`; as a model also a network.
        kind: What is wanted; empty: anything.
    """
    if isinstance(thing, str):
        return thing
    if is_data(thing) and kind in ("", "dataset"):
        return FILE_PREFIX + hold(thing)
    if isinstance(thing, Mapping):
        named, is_weighted = thing.get("name"), str(thing.get("weighted", "")).lower() == "true"
        of_data = is_weighted and is_data(named) and kind == "dataset"
        return {**thing, "name": FILE_PREFIX + hold(named, weighted=True) if of_data else name_of(named, kind)}
    if kind == "model" and is_network(thing):
        thing = model_of(thing)
    own = thing.kind if inspect.isclass(thing) and issubclass(thing, Component) else ""
    if own not in KINDS or kind not in ("", own):
        raise UsageError(f"{thing!r} is no {kind or 'component'}.", "Name one, or use a class derived from its base.")
    catalogue = load_catalogue()
    for entry in catalogue.entries[own].get(str(getattr(thing, "name", "")), []):
        if entry.distribution != SESSION and catalogue.load(entry) is thing:
            return entry.name
    return session.announce(own, thing, catalogue).name


def names_of(things: Any, kind: str) -> Any:
    """Return the names of one or several classes, data or brackets; see `name_of`."""
    if isinstance(things, str) or things is None:
        return things
    listed = things if isinstance(things, Sequence) and not is_data(things) else [things]
    return [name_of(thing, kind) for thing in listed]


def is_data(thing: Any) -> bool:
    """Whether it is a graph as `task_from_data` takes it."""
    return is_pyg_data(thing) or (isinstance(thing, Mapping) and "edge_index" in thing)
