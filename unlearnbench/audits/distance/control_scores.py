"""What each measure of forgetting says of the controls in one setting."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import torch
from torch import Tensor

from unlearnbench import seeds
from unlearnbench.audits.distance.measures import DISTANCES, Floats, auc, loss_scores, pairwise, read_area, shift_scores
from unlearnbench.audits.distance.node_groups import FORGOTTEN, TEST
from unlearnbench.audits.distance.runs import UnlearnedRun, groups_of, retrained_run, stacked, unlearned_run
from unlearnbench.audits.subject import Subject
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.statistics import permutation_test
from unlearnbench.task import View

NOOP = "noop"
LOSS, SHIFT = "loss-auc", "posterior-shift"
MEASURES = (*DISTANCES, LOSS, SHIFT)
# What published benchmarks declare ideal for the posterior shift.
IDEAL_AREA = 0.5


@dataclass(frozen=True)
class ControlScores:
    """What one measure says of the controls.

    Args:
        scores: [R] by control: the larger the mean, the worse the measure takes the forgetting to be.
        blocks: The same in independent values, for a trend; those of one number have equal seeds.
        noop_p: Of the test that `noop` and Retrain differ.
        areas: [R] by control: the areas that scores of membership are made of.
    """

    scores: Mapping[str, Floats]
    blocks: Mapping[str, Floats]
    noop_p: float | None
    areas: Mapping[str, Floats] = field(default_factory=dict)

    @property
    def means(self) -> dict[str, float]:
        """Give the mean score of each control."""
        return {control: float(scores.mean()) for control, scores in self.scores.items()}

    @property
    def noop_is_worse(self) -> bool:
        """Tell whether `noop` has a worse mean score than Retrain."""
        return self.means[NOOP] > self.means[REFERENCE]


def score_controls(
    subject: Subject, controls: Sequence[str], count: int, permutations: int, view: View, setting: str
) -> dict[str, ControlScores]:
    """Train the controls and let every measure mark them.

    A distance scores a run by its part of the energy statistic on D between the control and the
    retrainings: a mere mean of distances favours models that vary less than retrained ones. The
    loss-based area of a run is scored by how far it is from the mean of Retrain's, that of the
    posterior shift by how far it is from 0.5. Members are the nodes of D; as many other nodes are
    drawn from the test nodes.

    Args:
        subject: The cell and its data.
        controls: Brackets; Retrain and `noop` among them.
        count: Runs of each control, and retrainings.
        permutations: Relabellings that are drawn.
        view: Which graph messages pass over.
        setting: Names the setting, for the generators.

    Returns:
        Marks by measure.
    """
    gold = stacked([retrained_run(subject, subject.reference, run, view) for run in range(count)])
    runs = {name: [unlearned_run(subject, subject.find(name), run, view) for run in range(count)] for name in controls}
    rng = np.random.default_rng(seeds.seed(subject.cell.seed, "controls", setting, subject.cell.repetition))
    found = {}
    for measure, distance in DISTANCES.items():
        scores, blocks, noop_p = {}, {}, None
        for name in controls:
            mine = stacked([run.unlearned for run in runs[name]])[FORGOTTEN]
            matrix = pairwise(distance, torch.cat([mine, gold[FORGOTTEN]]))
            scores[name], blocks[name] = parts_of_energy(matrix, count), energy_of_twos(matrix, count)
            if name == NOOP:
                noop_p = permutation_test(matrix, (count, count), rng, permutations).p
        found[measure] = ControlScores(scores, blocks, noop_p)
    for measure, areas in _areas(subject, runs).items():
        ideal = float(areas[REFERENCE].mean()) if measure == LOSS else IDEAL_AREA
        off = {name: np.abs(values - ideal) for name, values in areas.items()}
        found[measure] = ControlScores(off, off, _differ(areas[NOOP], areas[REFERENCE], rng, permutations), areas)
    return found


def read_areas(subject: Subject, areas: Mapping[str, Floats]) -> dict[str, dict[str, Any]]:
    """Read each control's mean loss-based area against Retrain's.

    Args:
        subject: The cell and its data.
        areas: By control, Retrain among them.

    Returns:
        By control, the fields of `Membership`.
    """
    groups, retrain = groups_of(subject), float(areas[REFERENCE].mean())
    members = len(groups[FORGOTTEN])
    others = min(members, len(groups[TEST]))
    return {name: asdict(read_area(float(values.mean()), members, others, retrain)) for name, values in areas.items()}


def parts_of_energy(matrix: Floats, count: int) -> Floats:
    """Give what each run of the first side adds to the energy statistic: their mean is the statistic.

    Args:
        matrix: [n, n], distances; the first `count` runs are the first side.
        count: At least 2, as is the size of the second side.

    Returns:
        [count].
    """
    across = matrix[:count, count:].mean(axis=1)
    within = matrix[:count, :count].sum(axis=1) / (count - 1)
    found: Floats = 2 * across - within - _floor(matrix, count)
    return found


def energy_of_twos(matrix: Floats, count: int) -> Floats:
    """Give the energy statistic of every two runs of the first side against all of the second.

    No run is in two values: given the second side they are independent.

    Args:
        matrix: [n, n], distances; the first `count` runs are the first side.
        count: At least 2; of an odd number the last run is left out.

    Returns:
        [count // 2].
    """
    first, second = np.arange(0, count - 1, 2), np.arange(1, count, 2)
    across = matrix[:count, count:].mean(axis=1)
    found: Floats = across[first] + across[second] - matrix[first, second] - _floor(matrix, count)
    return found


def _floor(matrix: Floats, count: int) -> float:
    others = matrix[count:, count:]
    return float(others.sum() / (len(others) * (len(others) - 1)))


def _areas(subject: Subject, runs: Mapping[str, Sequence[UnlearnedRun]]) -> dict[str, dict[str, Floats]]:
    """Give areas [R] by measure and control."""
    groups, graph = groups_of(subject), subject.graph
    at = _drawn(subject, len(groups[TEST]), len(groups[FORGOTTEN]))
    labels = {group: graph.y[graph.positions(ids)] for group, ids in groups.items() if group in (FORGOTTEN, TEST)}

    def area(members: Tensor, others: Tensor) -> float:
        return auc(members, others[at])

    def loss_area(run: UnlearnedRun) -> float:
        return area(*(loss_scores(run.unlearned[group], labels[group]) for group in (FORGOTTEN, TEST)))

    def shift_area(run: UnlearnedRun) -> float:
        return area(*(shift_scores(run.before[group], run.unlearned[group]) for group in (FORGOTTEN, TEST)))

    return {
        measure: {name: np.array([area_of(run) for run in mine]) for name, mine in runs.items()}
        for measure, area_of in ((LOSS, loss_area), (SHIFT, shift_area))
    }


def _drawn(subject: Subject, available: int, wanted: int) -> Tensor:
    """Draw which test nodes stand against the members, the same for every run."""
    cell = subject.cell
    rng = seeds.generator(cell.seed, "controls", "others", cell.dataset_identity, cell.repetition)
    return torch.randperm(available, generator=rng)[:wanted].sort().values


def _differ(noop: Floats, retrain: Floats, rng: np.random.Generator, permutations: int) -> float | None:
    """Test whether two controls' areas differ. Runs of one number have one seed and are never paired."""
    count = len(noop)
    both = np.concatenate([noop, retrain])
    pairs = np.kron(np.array([[0, 1], [1, 0]]), np.eye(count)).astype(bool)
    return permutation_test(np.abs(both[:, None] - both[None, :]), (count, count), rng, permutations, pairs).p
