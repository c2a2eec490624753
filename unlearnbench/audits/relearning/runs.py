"""Runs of a method and of its retrained counterparts, relearning the forgotten nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import astuple, dataclass, replace
from functools import partial

import torch
from torch import Tensor

from unlearnbench.audits.relearning.curves import Curves, Known, Recipe
from unlearnbench.audits.subject import Subject
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError
from unlearnbench.gnn import Networks, blank_networks
from unlearnbench.graph import Graph
from unlearnbench.task import Task

SIDE = "relearning"
# A retrained counterpart with the run's own seed, and one with another seed.
SAME_SEED, OTHER_SEED = "", "other seed"

State = Mapping[str, Tensor]


class NoNetworksError(RefusedError):
    """A method does not deploy networks of the base model that could be trained on."""


@dataclass(frozen=True, eq=False)
class Relearned:
    """How a method's networks relearn after a request, and how they would have without it.

    Args:
        noop: The networks before the request.
        unlearned: The networks after it.
    """

    noop: Curves
    unlearned: Curves

    @property
    def target(self) -> Tensor:
        """The loss of each network on its forgotten nodes before the request, float64 [S]."""
        return self.noop.loss[0]


@dataclass(frozen=True, eq=False)
class UnlearnedRun(Relearned):
    """The same, and what its counterparts need.

    Args:
        shards: Numbers of the networks: those of the shards that held a forgotten node and still have a node.
        retired: How many other shards held a forgotten node.
        before: The partition before the request, int64 [n, 2]; None: there is one network.
        kept: What the method keeps after the request.
        others: What else is deployed and not trained here: the first parts of names in the state.
    """

    shards: tuple[int, ...]
    retired: int
    before: Tensor | None
    kept: State
    others: tuple[str, ...]


def unlearned_run(subject: Subject, method: Spec, run: int, recipe: Recipe, known: Known | None = None) -> UnlearnedRun:
    """Train a method on all training nodes, unlearn, and relearn; `run` numbers the seed.

    Args:
        subject: The cell.
        method: The method.
        run: Number of the seed.
        recipe: How to relearn.
        known: What other runs with this seed have made.

    Raises:
        NoNetworksError: It has no networks to train.
    """
    known = known or Known()

    def make() -> UnlearnedRun:
        task = subject.begun(method, subject.task(run, trained=known.trained))
        built = subject.fit(method, task)
        original, before = dict(built.state()), built.kept().get("partition")
        subject.forget(built, task)
        deployed, kept = built.state(), {name: value.clone() for name, value in built.kept().items()}
        shards, retired = _affected(before, kept.get("partition"), subject.request.ids)
        graphs = _graphs(task, before, shards)
        noop, unlearned = (
            known.relearn(networks_of(state, task, shards), graphs, subject.request.ids, recipe)
            for state in (original, deployed)
        )
        others = sorted({name.split("/")[0] for name in deployed} - {"members"})
        return UnlearnedRun(noop, unlearned, shards, retired, before, kept, tuple(others))

    return subject.remembered([SIDE, method.canonical(), run, *astuple(recipe)], make)


def reference_runs(
    subject: Subject, names: Sequence[str], recipe: Recipe, known: Sequence[Known]
) -> dict[str, list[Relearned]]:
    """Return runs of Retrain and of controls, which cells share.

    Args:
        subject: The cell.
        names: Brackets.
        recipe: How to relearn.
        known: For each run what others with its seed have made.
    """
    methods = {name: subject.find(name) for name in names}
    what = [SIDE, [method.canonical() for method in methods.values()], *astuple(recipe)]

    def make(run: int) -> dict[str, list[list[Tensor]]]:
        runs = {name: unlearned_run(subject, method, run, recipe, known[run]) for name, method in methods.items()}
        return {name: [[each.loss, each.accuracy] for each in (run.noop, run.unlearned)] for name, run in runs.items()}

    order = subject.in_own_order(len(known))
    plain = {run: subject.remembered_plain([*what, run], partial(make, run)) for run in order}
    return {name: [Relearned(*(Curves(*one) for one in plain[run][name])) for run in sorted(plain)] for name in names}


def retrained_run(
    subject: Subject, method: Spec, run: int, side: str, recipe: Recipe, of: UnlearnedRun, known: Known | None = None
) -> Curves:
    """Train the same method without the forgotten nodes, with the partition that `of` kept, and relearn.

    Args:
        subject: The cell.
        method: The method.
        run: Number of the seed.
        side: `SAME_SEED` or `OTHER_SEED`.
        recipe: How to relearn.
        of: The method's run.
        known: As for `unlearned_run`.
    """
    known = known or Known()

    def make() -> Curves:
        task, ids = subject.task(run, side, trained=known.trained), subject.request.ids
        left = replace(task.without(subject.request), given=of.kept)
        built = subject.fit(method, subject.begun(method, left))
        networks = networks_of(built.state(), task, of.shards)
        return known.relearn(networks, _graphs(task, of.before, of.shards), ids, recipe)

    return subject.remembered([SIDE, "retrained", method.canonical(), run, side, *astuple(recipe)], make)


def networks_of(state: State, task: Task, shards: Sequence[int]) -> Networks:
    """Return copies of some of the networks in a state, by their numbers.

    Raises:
        NoNetworksError: The state holds no network of the task's model with one of these numbers.
    """
    networks = blank_networks(task, len(shards))
    expected = {name: value.shape for name, value in networks.state(0).items()}
    for place, shard in enumerate(shards):
        prefix = f"members/{shard:03d}/"
        values = {name.removeprefix(prefix): value for name, value in state.items() if name.startswith(prefix)}
        if {name: value.shape for name, value in values.items()} != expected:
            held = ", ".join(sorted(values)) or "nothing"
            raise NoNetworksError(
                f"There is no network to train: {prefix[:-1]} of the state holds {held}, not the parameters of"
                f" {task.model.label}."
            )
        networks.put(place, values)
    return networks


def _affected(before: Tensor | None, after: Tensor | None, ids: Tensor) -> tuple[tuple[int, ...], int]:
    """Return the shards that held a node of the request and still have one, and how many others held one."""
    if before is None or after is None:
        return (0,), 0
    hit = before[torch.isin(before[:, 0], ids.to(before.device)), 1].unique()
    alive = hit[torch.isin(hit, after[:, 1])]
    if not len(alive):
        raise NoNetworksError("No shard that held a forgotten node has a node left.")
    return tuple(alive.tolist()), len(hit) - len(alive)


def _graphs(task: Task, partition: Tensor | None, shards: Sequence[int]) -> list[Graph]:
    """Return what the networks were trained on before the request."""
    if partition is None:
        return [task.seen]
    ids, shard = partition.to(task.device).unbind(dim=1)
    return list(task.parts(ids, shard, shards))
