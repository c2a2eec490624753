"""Every hook a plugin can implement, on one screen.

A hook announces; what it names does the work. Each hook gets a callable `register` and calls it
once for everything it brings. Components take one of two forms:

    register(Class)
    register("name", "package.module:Class", summary="One line.")

Tables and experiments are no classes and take the second:

    register("name", "package.module:function", summary="One line.")
    register("name", "package:file.toml", summary="One line.")

It imports nothing until the thing is used.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pluggy

PROJECT = "unlearnbench"
SESSION = "(session)"
"""What stands for the distribution of a class that a script or a notebook registered."""

hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)

Register = Callable[..., Any]


@hookspec
def register_partitioners(register: Register) -> None:
    """Announce partitioners: classes that deal training nodes into shards."""


@hookspec
def register_aggregators(register: Register) -> None:
    """Announce aggregators: classes that combine the outputs of members into one prediction."""


@hookspec
def register_unlearners(register: Register) -> None:
    """Announce unlearners: classes that train, forget and predict."""


@hookspec
def register_datasets(register: Register) -> None:
    """Announce datasets: classes that load a graph."""


@hookspec
def register_models(register: Register) -> None:
    """Announce base models: classes that build the GNN a method trains."""


@hookspec
def register_metrics(register: Register) -> None:
    """Announce metrics: classes that score predictions against labels."""


@hookspec
def register_audits(register: Register) -> None:
    """Announce audits: classes that ask whether forgotten data is really gone."""


@hookspec
def register_tables(register: Register) -> None:
    """Announce tables of `unlearnbench report`: functions that build them from records.

    `against="NAME"` announces what stands in place of a table where `--against NAME` sets it
    against published numbers; `reads` is `records`, `audits` or `both`.
    """


@hookspec
def register_experiments(register: Register) -> None:
    """Announce experiments of `unlearnbench run --experiment`: TOML files in a package."""


KINDS = {
    "partitioner": "register_partitioners",
    "aggregator": "register_aggregators",
    "unlearner": "register_unlearners",
    "dataset": "register_datasets",
    "model": "register_models",
    "metric": "register_metrics",
    "audit": "register_audits",
}
"""Kinds of components, each with the hook that announces it."""

METHOD = "method"


def shown_kind(kind: str) -> str:
    """Return what users call a kind: an unlearner with its parameters is a method."""
    return METHOD if kind == "unlearner" else kind


def kind_of(shown: str) -> str:
    """Return the kind that users call so: the inverse of `shown_kind`."""
    return "unlearner" if shown == METHOD else shown


HOOKS = {**KINDS, "table": "register_tables", "experiment": "register_experiments"}
"""Everything that can be announced, each kind with its hook."""
