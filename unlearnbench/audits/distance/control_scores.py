"""Scores of the control methods by each measure of forgetting, in one setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.audits.distance.measures import (
    DISTANCES,
    Floats,
    auc,
    equal_seeds,
    loss_scores,
    pairwise,
    read_area,
    shift_scores,
)
from unlearnbench.audits.distance.node_groups import FORGOTTEN, TEST
from unlearnbench.audits.distance.runs import UnlearnedRun, groups_of, retrained_run, stacked, unlearned_run
from unlearnbench.audits.gating import NOOP
from unlearnbench.audits.subject import Subject, Trained
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.statistics import permutation_test
from unlearnbench.task import View

LOSS, SHIFT = "loss-auc", "posterior-shift"
MEASURES = (*DISTANCES, LOSS, SHIFT)
# The ideal value of the posterior shift according to published benchmarks.
IDEAL_AREA = 0.5


@dataclass(frozen=True)
class ControlScores:
    """Scores of the controls by one measure.

    Args:
        scores: [R] by control: the larger the mean, the worse the forgetting by this measure.
        blocks: The same as independent values, for a trend test; equal positions have equal seeds.
        noop_p: p-value of the test that `noop` and Retrain differ.
        areas: [R] by control: the areas under the curve behind membership scores.
    """

    scores: Mapping[str, Floats]
    blocks: Mapping[str, Floats]
    noop_p: float | None
    areas: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def means(self) -> dict[str, float]:
        """The mean score of each control."""
        return {control: float(scores.mean()) for control, scores in self.scores.items()}

    @property
    def noop_is_worse(self) -> bool:
        """Whether `noop` has a worse mean score than Retrain."""
        return self.means[NOOP] > self.means[REFERENCE]


def score_controls(
    subject: Subject, controls: Sequence[str], count: int, permutations: int, view: View, setting: str
) -> dict[str, ControlScores]:
    """Train the controls and score them by every measure.

    A distance scores a run by its part of the energy statistic on D between the control and the
    retrainings: a mean of distances would favour models that vary less than retrained ones. The
    loss-based area of a run is scored by its distance from the mean of Retrain's, that of the
    posterior shift by its distance from 0.5. Members are the nodes of D; as many other nodes are
    drawn from the test nodes.

    Controls are given by brackets, Retrain and `noop` among them; each is run, and Retrain
    retrained, `count` times. `setting` is a name for the seeds. Scores are returned by measure.
    """
    gold = stacked([retrained_run(subject, subject.reference, run, view) for run in range(count)])
    runs: dict[str, list[UnlearnedRun]] = {name: [] for name in controls}
    for run in range(count):
        # Controls with equal seeds begin with the same network, and some train on the same nodes.
        trained: Trained = {}
        for name in controls:
            runs[name].append(unlearned_run(subject, subject.find(name), run, view, trained))
    rng = np.random.default_rng(seeds.seed(subject.cell.seed, "controls", setting, subject.cell.repetition))
    by_measure = {}
    for measure, distance in DISTANCES.items():
        scores, blocks, noop_p = {}, {}, None
        for name in controls:
            unlearned = stacked([run.unlearned for run in runs[name]])[FORGOTTEN]
            matrix = pairwise(distance, torch.cat([unlearned, gold[FORGOTTEN]]))
            scores[name], blocks[name] = parts_of_energy(matrix, count), energy_of_twos(matrix, count)
            if name == NOOP:
                noop_p = permutation_test(matrix, (count, count), rng, permutations).p
        by_measure[measure] = ControlScores(scores, blocks, noop_p)
    for measure, areas in _areas(subject, runs).items():
        ideal = float(areas[REFERENCE].mean()) if measure == LOSS else IDEAL_AREA
        scores = {name: np.abs(values - ideal) for name, values in areas.items()}
        noop_p = _differ(areas[NOOP], areas[REFERENCE], rng, permutations)
        by_measure[measure] = ControlScores(scores, scores, noop_p, areas)
    return by_measure


def read_areas(subject: Subject, areas: Mapping[str, Floats]) -> dict[str, dict[str, Any]]:
    """Compare each control's mean loss-based area with Retrain's; return, by control, the fields of `Membership`."""
    groups, retrain = groups_of(subject), float(areas[REFERENCE].mean())
    members = len(groups[FORGOTTEN])
    others = min(members, len(groups[TEST]))
    return {name: asdict(read_area(float(values.mean()), members, others, retrain)) for name, values in areas.items()}


def parts_of_energy(matrix: Floats, count: int) -> Floats:
    """Return the contribution [count] of each run of the first side to the energy statistic, which is their mean.

    `matrix` [n, n] holds distances; the first `count` runs are the first side. Each side has at least 2.
    """
    across = matrix[:count, count:].mean(axis=1)
    within = matrix[:count, :count].sum(axis=1) / (count - 1)
    parts: Floats = 2 * across - within - _floor(matrix, count)
    return parts


def energy_of_twos(matrix: Floats, count: int) -> Floats:
    """Return the energy statistic of consecutive pairs of runs of the first side against all of the second.

    No run is in two pairs: given the second side the values [count // 2] are independent. If
    `count` is odd, the last run is left out.
    """
    first, second = np.arange(0, count - 1, 2), np.arange(1, count, 2)
    across = matrix[:count, count:].mean(axis=1)
    statistics: Floats = across[first] + across[second] - matrix[first, second] - _floor(matrix, count)
    return statistics


def _floor(matrix: Floats, count: int) -> float:
    others = matrix[count:, count:]
    return float(others.sum() / (len(others) * (len(others) - 1)))


def _areas(subject: Subject, runs: Mapping[str, Sequence[UnlearnedRun]]) -> dict[str, dict[str, Floats]]:
    """Return areas [R] by measure and control."""
    groups, graph = groups_of(subject), subject.graph
    at = _drawn(subject, len(groups[TEST]), len(groups[FORGOTTEN]))
    labels = {group: graph.y[graph.positions(ids)] for group, ids in groups.items() if group in (FORGOTTEN, TEST)}

    def scored(measure: str, run: UnlearnedRun, group: str) -> Tensor:
        after = run.unlearned[group]
        return loss_scores(after, labels[group]) if measure == LOSS else shift_scores(run.before[group], after)

    def area(measure: str, run: UnlearnedRun) -> float:
        return auc(scored(measure, run, FORGOTTEN), scored(measure, run, TEST)[at])

    return {
        measure: {name: np.array([area(measure, run) for run in of_control]) for name, of_control in runs.items()}
        for measure in (LOSS, SHIFT)
    }


def _drawn(subject: Subject, available: int, wanted: int) -> Tensor:
    """Draw the test nodes that are compared with the members, the same for every run."""
    cell = subject.cell
    rng = seeds.generator(cell.seed, "controls", "others", cell.dataset_identity, cell.repetition)
    return torch.randperm(available, generator=rng)[:wanted].sort().values


def _differ(noop: Floats, retrain: Floats, rng: np.random.Generator, permutations: int) -> float | None:
    """Test whether two controls' areas differ; runs with equal seeds are never paired."""
    count, both = len(noop), np.concatenate([noop, retrain])
    gaps = np.abs(both[:, None] - both[None, :])
    return permutation_test(gaps, (count, count), rng, permutations, equal_seeds(count)).p
