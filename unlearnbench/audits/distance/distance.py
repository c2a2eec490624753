"""The audit `distance`: whether a method's models are as far from retrained ones as these from each other."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field

from unlearnbench import seeds
from unlearnbench.audits.base import Audit, Finding, Score, State
from unlearnbench.audits.distance.measures import DISTANCES, Floats, equal_seeds, pairwise
from unlearnbench.audits.distance.node_groups import FORGOTTEN
from unlearnbench.audits.distance.runs import Answers, groups_of, retrained_run, stacked, unlearned_run
from unlearnbench.audits.gating import VERDICT_ALPHA
from unlearnbench.audits.subject import Subject
from unlearnbench.component import ComponentParams, Spec
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.statistics import ALPHA, Permutation, energy_statistic, holm, permutation_test
from unlearnbench.statistics.energy import block
from unlearnbench.task import View

CANNOT_TELL: State = "cannot tell"
VALID: State = "valid"
# The floors: the method's own pipeline without the forgotten nodes, and Retrain without them.
OWN, RETRAIN = "own", "retrain"
SIDES = ("unlearned", "noop", OWN, RETRAIN)
PRIMARY = ("js", FORGOTTEN, OWN)
# Significant decimals of a statistic; the rest is rounding error.
ROUNDED = 12
# With fewer, no p-value of three measures on six groups can be below .01 after adjustment.
LEAST_RUNS, LEAST_PERMUTATIONS = 8, 1999
ENOUGH_RUNS = 10

Key = tuple[str, str, str]


@dataclass(frozen=True)
class Comparison:
    """A measure on a group relative to a floor: the method against the retrainings, and `noop` against the same.

    Args:
        method: The test of the method.
        noop: The test of its pipeline before unlearning.
        ideal: The statistic of its own pipeline without the forgotten nodes; 0 where that is the floor itself.
        state: Whether the number is informative about forgetting.
        p_holm: p-value of the method, adjusted for all comparisons with the own floor.
    """

    method: Permutation
    noop: Permutation
    ideal: float | None
    state: State = ""
    p_holm: float | None = None

    @property
    def value(self) -> float | None:
        """The energy statistic of the method."""
        return _statistic(self.method)

    @property
    def control(self) -> float | None:
        """The energy statistic of `noop`."""
        return _statistic(self.noop)

    @property
    def effect(self) -> float | None:
        """The excess of the value over the ideal one in units of that of `noop`; None where `noop` is not rejected."""
        if self.state != VALID or self.value is None or self.control is None or self.ideal is None:
            return None
        return (self.value - self.ideal) / (self.control - self.ideal)


class Distance(Audit):
    """Compares runs of the method with retrainings, as two samples of models."""

    name = "distance"
    version = 1
    summary = "How far the method's models are from retrained ones, in units of a model that forgot nothing."
    reference = "Szekely and Rizzo, Energy statistics, Journal of Statistical Planning and Inference 143, 2013"
    question = "Can the method's models be told from models that never saw the forgotten nodes, and where?"
    order = 30

    class Params(ComponentParams):
        """Number of runs, permutations and view."""

        runs: int = Field(default=10, ge=LEAST_RUNS, description="Runs a side.")
        permutations: int = Field(default=9999, ge=LEAST_PERMUTATIONS, description="Relabellings of runs.")
        view: Literal["shard", "full"] = Field(default="shard", description="Which graph members pass messages over.")

    def effort(self, method: Spec) -> Mapping[str, float]:
        """Count the method's runs on both sides; a reference is trained but not unlearned: half of both."""
        runs = float(self.params.runs)
        if method.name == REFERENCE:
            return {method.label: 1.5 * runs}
        return {method.label: 2 * runs, REFERENCE: 0.5 * runs}

    def examine(self, subject: Subject) -> Finding:
        """Train, predict and compare."""
        runs, view = range(self.params.runs), View(self.params.view)
        method = subject.cell.method
        unlearned = [unlearned_run(subject, method, run, view) for run in runs]
        sides = {
            "unlearned": stacked([run.unlearned for run in unlearned]),
            "noop": stacked([run.noop for run in unlearned]),
            OWN: stacked([retrained_run(subject, method, run, view) for run in runs]),
            RETRAIN: stacked([retrained_run(subject, subject.reference, run, view) for run in runs]),
        }
        groups = {group: len(ids) for group, ids in groups_of(subject).items()}
        floors = [OWN] if _same(sides[OWN], sides[RETRAIN]) else [OWN, RETRAIN]
        comparisons: dict[Key, Comparison] = {}
        arrays: dict[str, NDArray[Any]] = {}
        for measure, distance in DISTANCES.items():
            for group in groups:
                matrix = pairwise(distance, torch.cat([answers[group] for answers in sides.values()]))
                arrays[f"distance/{measure}/{group.replace(' ', '_')}"] = matrix.astype(np.float32)
                own = self._compare(subject, matrix, (measure, group, OWN))
                for floor in floors:
                    key = (measure, group, floor)
                    comparisons[key] = own if floor == OWN else self._compare(subject, matrix, key, own)
        comparisons = _with_holm(comparisons)
        return Finding(
            verdict=verdict(comparisons),
            scores=tuple(self._score(key, one) for key, one in comparisons.items()),
            details=self._details(groups, floors, comparisons),
            notes=self._notes(floors, comparisons),
            arrays=arrays,
        )

    def _compare(self, subject: Subject, matrix: Floats, key: Key, own: Comparison | None = None) -> Comparison:
        """Test the method and `noop` against one floor.

        A sharded method differs from Retrain by its design, whatever it forgot, and so does its
        `noop`: the number is informative about forgetting only where `noop` is rejected against
        both floors and is farther from Retrain than the pipeline that never saw the request.
        """
        floor, count = key[2], self.params.runs
        at = {name: np.arange(count) + count * row for row, name in enumerate(SIDES)}

        def test(side: str) -> Permutation:
            seed = seeds.seed(subject.cell.seed, self.name, *key, side, subject.cell.repetition)
            runs, rng = block(matrix, at[side], at[floor]), np.random.default_rng(seed)
            return permutation_test(runs, (count, count), rng, self.params.permutations)

        method, noop = test("unlearned"), test("noop")
        if own is None:
            return Comparison(method, noop, 0.0, VALID if is_rejected(noop) else CANNOT_TELL)
        retrained, labels = block(matrix, at[OWN], at[RETRAIN]), np.repeat((0, 1), count)
        ideal = energy_statistic(retrained, labels, equal_seeds(count)).statistic
        farther = ideal is not None and noop.energy.statistic is not None and noop.energy.statistic > ideal
        valid = is_rejected(noop) and own.state == VALID and farther
        return Comparison(method, noop, ideal, VALID if valid else CANNOT_TELL)

    def _score(self, key: Key, one: Comparison) -> Score:
        measure, group, floor = key
        controls = {"noop": one.control}
        if floor == RETRAIN:
            controls["own pipeline without the request"] = one.ideal
        return Score(
            measure=measure,
            where=_where(group, floor),
            value=one.value,
            floor=one.method.energy.second,
            controls=controls,
            effect=one.effect,
            p=one.method.p,
            runs=self.params.runs,
            state=one.state,
            note=one.method.reason,
        )

    def _details(
        self, groups: dict[str, int], floors: list[str], comparisons: Mapping[Key, Comparison]
    ) -> dict[str, Any]:
        # What the scores do not say, in their order.
        found = comparisons.values()
        tests = {
            "across": [one.method.energy.across for one in found],
            "within": [one.method.energy.first for one in found],
            "p_holm": [one.p_holm for one in found],
            "noop_p": [one.noop.p for one in found],
        }
        return {"groups": groups, "floors": floors, "sides": list(SIDES), "primary": list(PRIMARY), "tests": tests}

    def _notes(self, floors: Sequence[str], comparisons: Mapping[Key, Comparison]) -> tuple[str, ...]:
        notes = []
        if self.params.runs < ENOUGH_RUNS:
            notes.append(f"{self.params.runs} runs a side: with fewer than {ENOUGH_RUNS} the tests have little power.")
        differing = [(*key[:2], one.p_holm) for key, one in comparisons.items() if _differs(one)]
        if differing:
            shown = ", ".join(f"{measure} on {group} (p {p:.2g})" for measure, group, p in differing)
            notes.append(f"Differs from its own pipeline without the request by {shown}; p after Holm's adjustment.")
        if comparisons[PRIMARY].state != VALID:
            notes.append(
                "On the forgotten nodes the untouched model cannot be distinguished from a retrained one:"
                " take a larger request."
            )
        if RETRAIN in floors:
            notes.append(
                "Against Retrain a method of another pipeline differs whatever it forgot; compare with what its own"
                " pipeline gives that never saw the request."
            )
        return tuple(notes)


def is_rejected(test: Permutation) -> bool:
    """Whether two sides differ at the .05 level."""
    return test.p is not None and test.p < ALPHA


def verdict(comparisons: Mapping[Key, Comparison]) -> str:
    """Judge by the method's own pipeline without the forgotten nodes, after Holm's adjustment.

    Any significant difference counts, whether or not `noop` differs. The absence of a difference
    is informative only where the primary measure rejects `noop`.

    Returns:
        `differs`, `as retrained` or `cannot tell`.
    """
    if any(_differs(one) for one in comparisons.values()):
        return "differs"
    primary = comparisons[PRIMARY]
    return "as retrained" if primary.state == VALID and primary.method.p is not None else CANNOT_TELL


def _where(group: str, floor: str) -> str:
    return f"{group}, {floor}"


def _statistic(test: Permutation) -> float | None:
    # Sums of equal distances in another order differ from 0 by rounding.
    statistic = test.energy.statistic
    return statistic if statistic is None else round(statistic, ROUNDED) + 0.0


def _differs(one: Comparison) -> bool:
    return one.p_holm is not None and one.p_holm < VERDICT_ALPHA


def _with_holm(comparisons: Mapping[Key, Comparison]) -> dict[Key, Comparison]:
    family = [key for key in comparisons if key[2] == OWN]
    adjusted = dict(zip(family, holm([comparisons[key].method.p for key in family]), strict=True))
    return {key: replace(one, p_holm=adjusted.get(key)) for key, one in comparisons.items()}


def _same(one: Answers, other: Answers) -> bool:
    return all(torch.equal(one[group], other[group]) for group in one)
