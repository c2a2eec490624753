"""What a trial is judged by: validation F1, or the distance to Retrain on forgotten nodes; never a test node."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.audits.distance.measures import divergence, pairwise
from unlearnbench.audits.subject import Memory, Subject, log_probabilities
from unlearnbench.component import Spec, canonical_json
from unlearnbench.errors import UnlearnbenchError
from unlearnbench.gnn import train_networks
from unlearnbench.graph import Graph
from unlearnbench.graph.neighbours import hop_distance
from unlearnbench.protocol import Forget, Protocol
from unlearnbench.running.cell import Cell
from unlearnbench.statistics import energy_statistic
from unlearnbench.task import Training, View
from unlearnbench.unlearning import PostHoc, Unlearner

FORGOTTEN, NEIGHBOURS, VALIDATION = "forgotten", "neighbours", "validation"
GROUPS = (FORGOTTEN, NEIGHBOURS)
Answers = dict[str, Tensor]


@dataclass(frozen=True)
class Effort:
    """What every trial costs, the same for all methods.

    Args:
        repetitions: Splits, each with a request of its own.
        runs: Trained networks a split that the request is served on, and as many retrained ones.
        forget_ratio: Share of the nodes that a request names.
        seed: What splits, requests and points are derived from.
    """

    repetitions: int = 2
    runs: int = 2
    forget_ratio: float = 0.05
    seed: int = 0

    def canonical(self) -> dict[str, Any]:
        """Return plain values."""
        return asdict(self)

    @property
    def base_seed(self) -> int:
        """The base of the seeds of splits and requests: other ones than any reported repetition has."""
        return seeds.seed(self.seed, "tuning")


@dataclass(frozen=True)
class Outcome:
    """What a trial showed.

    Args:
        loss: The smaller, the better: the share of wrong validation nodes, or the distance to Retrain on forgotten
            nodes in units of a network that forgot nothing.
        f1: Micro-F1 on validation nodes, after the request where there is one.
        retrain_f1: That of Retrain; None where `f1` is what is tuned.
        neighbours: The distance on the neighbours of forgotten nodes, in the same unit.
    """

    loss: float
    f1: float
    retrain_f1: float | None = None
    neighbours: float | None = None


@dataclass(eq=False)
class Bench:
    """One graph and base model on which methods are tried.

    Args:
        dataset: The dataset.
        graph: Its graph.
        model: The base model.
        effort: What a trial costs.
        device: Where methods compute.
        find: Looks up a method by its bracket.
    """

    dataset: Spec
    graph: Graph
    model: Spec
    effort: Effort
    device: torch.device
    find: Callable[[str], Spec]
    _kept: dict[str, list[_Side]] = field(default_factory=dict, repr=False)

    def validation(self, method: Spec, training: Training) -> Outcome:
        """Train a method and score it on validation nodes, over the graph of all training nodes."""
        shares = []
        for repetition in range(self.effort.repetitions):
            subject = self._subject(method, training, repetition)
            task = subject.task()
            built = subject.fit(method, task)
            query = subject.query(subject.split.val, task.graph.ids, View.FULL)
            with torch.no_grad():
                shares.append(_right(built.predict(query).cpu(), self._labels(subject.split.val)))
        share = float(np.mean(shares))
        return Outcome(loss=1 - share, f1=share)

    def distance(self, method: Spec, training: Training) -> Outcome:
        """Serve the requests on trained networks, and measure how far they are from retrained ones.

        The distance is the energy statistic of the Jensen-Shannon divergence, as in the audit `distance`, summed over
        requests and divided by that of networks that forgot nothing.

        Raises:
            UnlearnbenchError: Predictions are not finite, or even untouched networks are as near as retrained ones.
        """
        sides = self._sides(training)
        made = [self._unlearned(method, side, training) for side in sides]
        pairs = list(zip(sides, made, strict=True))
        sums = {name: sum(side.statistic(answers, name) for side, answers in pairs) for name in GROUPS}
        units = {name: sum(side.untouched[name] for side in sides) for name in GROUPS}
        if units[FORGOTTEN] <= 0:
            raise UnlearnbenchError(
                "Networks that forgot nothing are as near to Retrain as retrained ones.", "Take a larger request."
            )
        f1 = float(np.mean([side.f1(answers) for side, answers in pairs]))
        retrain_f1 = float(np.mean([side.f1(side.retrained) for side in sides]))
        near = sums[NEIGHBOURS] / units[NEIGHBOURS] if units[NEIGHBOURS] > 0 else None
        return Outcome(sums[FORGOTTEN] / units[FORGOTTEN], f1, retrain_f1, near)

    def _sides(self, training: Training) -> list[_Side]:
        """Return what does not depend on the method: retrained networks, and those that requests are served on."""
        key = canonical_json(training.canonical())
        if key not in self._kept:
            self._kept[key] = [self._side(training, number) for number in range(self.effort.repetitions)]
        return self._kept[key]

    def _side(self, training: Training, repetition: int) -> _Side:
        retrain, noop = self.find("retrain"), self.find("noop")
        subject = self._subject(retrain, training, repetition)
        hops = hop_distance(
            subject.train_graph.edge_index, torch.isin(subject.train_graph.ids, subject.request.removed), 1
        )
        ids = {
            FORGOTTEN: subject.request.removed.cpu(),
            NEIGHBOURS: subject.train_graph.ids[hops == 1].cpu(),
            VALIDATION: subject.split.val,
        }
        ids = {name: nodes for name, nodes in ids.items() if len(nodes)}
        side = _Side(subject, ids, self._labels(subject.split.val))
        for run in range(self.effort.runs):
            task = subject.task(run)
            start = train_networks(task, [task.seen], [0])
            side.starts.append({f"members/000/{name}": value.clone() for name, value in start.state(0).items()})
        retrained = []
        for run in range(self.effort.runs):
            left = subject.task(run, "without").without(subject.request)
            retrained.append(side.ask(subject.fit(retrain, left), left.graph.ids))
        side.retrained = _stacked(retrained)
        untouched = self._unlearned(noop, side, training)
        side.untouched = {name: side.statistic(untouched, name) for name in GROUPS}
        return side

    def _unlearned(self, method: Spec, side: _Side, training: Training) -> Answers:
        answers = []
        for run, start in enumerate(side.starts):
            task = side.subject.task(run, training=training)
            built: Unlearner = method.build()
            if isinstance(built, PostHoc) and built.can_resume():
                built.resume(task, start, {}, {})
            else:
                built.fit(task)
            retained = side.subject.forget(built, task)
            answers.append(side.ask(built, retained.graph.ids))
        return _stacked(answers)

    def _subject(self, method: Spec, training: Training, repetition: int) -> Subject:
        effort = self.effort
        cell = Cell(
            Protocol("tuning", forget=Forget(effort.forget_ratio), own_split=self.graph.split is not None),
            self.dataset,
            "",
            self.model,
            method,
            training,
            repetition,
            effort.base_seed,
            self.device.type,
        )
        return Subject(cell, self.graph, self.device, self.find, Memory())

    def _labels(self, ids: Tensor) -> Tensor:
        return self.graph.y[self.graph.positions(ids)]


@dataclass(eq=False)
class _Side:
    """One split with its request.

    Args:
        subject: The split, its request and its tasks.
        ids: Nodes that are asked about, by group.
        labels: int64 [n], those of the validation nodes.
        starts: Parameters of the trained networks that the request is served on.
        retrained: Log-probabilities of the retrained networks, [R, n, C] a group.
        untouched: Their statistic against networks that forgot nothing.
    """

    subject: Subject
    ids: Mapping[str, Tensor]
    labels: Tensor
    starts: list[Mapping[str, Tensor]] = field(default_factory=list)
    retrained: Answers = field(default_factory=dict)
    untouched: Mapping[str, float] = field(default_factory=dict)

    def ask(self, method: Unlearner, held: Tensor) -> Answers:
        """Predict every group over the graph of the retained nodes: log-probabilities [n, C]."""
        queries = {name: self.subject.query(nodes, held, View.FULL) for name, nodes in self.ids.items()}
        return log_probabilities(method.predict, queries)

    def statistic(self, answers: Answers, group: str) -> float:
        """Return the energy statistic of runs against the retrained ones, in nats; 0 for a group without nodes.

        Raises:
            UnlearnbenchError: A prediction is not finite.
        """
        if group not in answers:
            return 0.0
        runs = len(answers[group])
        matrix = pairwise(divergence, torch.cat([answers[group], self.retrained[group]]))
        statistic = energy_statistic(matrix, np.repeat((0, 1), (runs, len(matrix) - runs))).statistic
        if statistic is None:
            raise UnlearnbenchError("Predictions are not finite.", "Take milder parameters.")
        return statistic

    def f1(self, answers: Answers) -> float:
        """Return the mean micro-F1 of runs on the validation nodes, in [0, 1]."""
        return float(np.mean([_right(one, self.labels) for one in answers[VALIDATION]]))


def _stacked(runs: Sequence[Answers]) -> Answers:
    return {name: torch.stack([run[name] for run in runs]) for name in runs[0]}


def _right(answers: Tensor, labels: Tensor) -> float:
    return float((answers.argmax(dim=-1) == labels).double().mean())
