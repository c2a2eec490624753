"""The audit `relearning`: whether a method's networks relearn the forgotten nodes faster than retrained ones."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any, ClassVar

import numpy as np
import torch
from numpy.typing import NDArray
from pydantic import Field
from torch import Tensor

from unlearnbench.audits.base import Audit, Finding, Score, State
from unlearnbench.audits.gating import LEAKS, NOOP, OVER, VERDICT_ALPHA
from unlearnbench.audits.leakage.attack import mean_interval
from unlearnbench.audits.relearning.comparison import Floats, gate, is_faster, paired, ratio
from unlearnbench.audits.relearning.curves import Curves, Known, Recipe
from unlearnbench.audits.relearning.runs import (
    OTHER_SEED,
    SAME_SEED,
    NoNetworksError,
    Relearned,
    UnlearnedRun,
    reference_runs,
    retrained_run,
    unlearned_run,
)
from unlearnbench.audits.subject import Subject
from unlearnbench.component import ComponentParams, Spec
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.statistics import detectable_difference, holm

UNLEARNED, RETRAINED, OTHER = "unlearned", "retrained", "other_seed"
AREA, STEPS = "area", "steps"
MEASURES = (AREA, STEPS)
RATIO = "relearning ratio"
# Trained beside Retrain; without any leak they are Retrain, with all of it `noop`.
TRAINED = (*LEAKS[1:-1], OVER)
FASTER, SLOWER, SAME, CANNOT_TELL, UNFIT = "faster", "slower", "as retrained", "cannot tell", "unfit"
OWN = "own pipeline without the request"
OWN_FAILURE = "The method's own networks before the request are not faster than its retrained ones."

Values = Mapping[str, Floats]


class Relearning(Audit):
    """Trains the unlearned networks on the forgotten nodes again, beside retrained ones."""

    name = "relearning"
    version = 1
    summary = "Does the unlearned model relearn the forgotten nodes faster than a retrained one?"
    reference = (
        "Golatkar et al., Eternal Sunshine of the Spotless Net, CVPR 2020;"
        " Tarun et al., Fast Yet Effective Machine Unlearning, TNNLS 2024"
    )
    question: ClassVar[str] = "Does the unlearned model relearn the forgotten nodes faster than a retrained one?"
    order: ClassVar[int] = 36

    class Params(ComponentParams):
        """Number of runs, and how networks are trained on the forgotten nodes."""

        runs: int = Field(default=10, ge=4, description="Runs, each with a seed of its own.")
        steps: int = Field(default=50, ge=1, description="Steps on the forgotten nodes.")
        lr: float = Field(default=0.001, gt=0, description="Learning rate of these steps.")

    def effort(self, method: Spec) -> Mapping[str, float]:
        """Count the runs of the method and the controls; two trainings without D and four curves count twice more."""
        runs = float(self.params.runs)
        return {**dict.fromkeys((REFERENCE, *TRAINED), 1.5 * runs), method.label: 3 * runs}

    def examine(self, subject: Subject) -> Finding:
        """Train, unlearn, relearn and compare."""
        known = [Known(remember=subject.remembered_plain) for _ in range(self.params.runs)]
        try:
            runs, sides = self._sides(subject, known)
        except NoNetworksError as error:
            return _without_scores(UNFIT, error.message)
        references = reference_runs(subject, (REFERENCE, *TRAINED), self._recipe, known)
        targets = [run.target for run in runs]
        values = {
            measure: {side: _values(measure, curves, targets) for side, curves in sides.items()} for measure in MEASURES
        }
        controls = {measure: _of_controls(measure, references) for measure in MEASURES}
        numbers = [*values[AREA].values(), *controls[AREA].values()]
        if not np.isfinite(numbers).all():
            return _without_scores(CANNOT_TELL, "Losses on the forgotten nodes are not numbers.")
        gates = {measure: _judged(values[measure], controls[measure]) for measure in MEASURES}
        details = {
            "forgotten": len(subject.request.ids),
            "networks": [len(run.shards) for run in runs],
            "retired": [run.retired for run in runs],
            "gate": gates,
            "means": {measure: _means(of_measure) for measure, of_measure in values.items()},
            "unreached": {side: _unreached(curves, targets) for side, curves in sides.items()},
            "other_seed_p": {measure: paired(of[OTHER], of[RETRAINED]).p for measure, of in values.items()},
        }
        return Finding(
            verdict(values, gates),
            tuple(chain(*(_scores(name, values[name], controls[name], gates[name]) for name in MEASURES))),
            details,
            tuple(_notes(values[AREA], runs)),
            {f"relearning/{side}/{name}": array for side, curves in sides.items() for name, array in _plain(curves)},
        )

    def _sides(self, subject: Subject, known: Sequence[Known]) -> tuple[list[UnlearnedRun], dict[str, list[Curves]]]:
        method, runs = subject.cell.method, list[UnlearnedRun]()
        sides: dict[str, list[Curves]] = {side: [] for side in (UNLEARNED, NOOP, RETRAINED, OTHER)}
        for number, of_run in enumerate(known):
            run = unlearned_run(subject, method, number, self._recipe, of_run)
            runs.append(run)
            sides[UNLEARNED].append(run.unlearned)
            sides[NOOP].append(run.noop)
            for side, seed in ((RETRAINED, SAME_SEED), (OTHER, OTHER_SEED)):
                sides[side].append(retrained_run(subject, method, number, seed, self._recipe, run, of_run))
            # Only Retrain's networks are of use to the controls.
            if not subject.is_of_reference:
                of_run.trained.clear()
        return runs, sides

    @property
    def _recipe(self) -> Recipe:
        return Recipe(self.params.steps, self.params.lr)


def verdict(values: Mapping[str, Values], gates: Mapping[str, Mapping[str, Any]]) -> str:
    """Judge by the measures that rank the controls rightly, after Holm's adjustment.

    Returns:
        `faster`: one of them is below Retrain's; otherwise `slower`: one is above; otherwise `as retrained`, or
        `cannot tell` where the area may not be trusted.
    """
    tests = [paired(values[name][UNLEARNED], values[name][RETRAINED]) for name in MEASURES if gates[name]["valid"]]
    adjusted = holm([test.p for test in tests])
    means = [test.mean for test, p in zip(tests, adjusted, strict=True) if p is not None and p < VERDICT_ALPHA]
    if means:
        return FASTER if any(mean is not None and mean < 0 for mean in means) else SLOWER
    return SAME if gates[AREA]["valid"] else CANNOT_TELL


def _without_scores(result: str, note: str) -> Finding:
    return Finding(result, (Score(AREA, "forgotten", None, note=note),), notes=(note,))


def _values(measure: str, curves: Sequence[Curves], targets: Sequence[Tensor]) -> Floats:
    """Return the mean over the networks of each run, [R]."""
    pairs = zip(curves, targets, strict=True)
    return np.array([float((each.area if measure == AREA else each.steps_to(target)).mean()) for each, target in pairs])


def _of_controls(measure: str, references: Mapping[str, Sequence[Relearned]]) -> dict[str, Floats]:
    targets = {name: [run.target for run in runs] for name, runs in references.items()}
    values = {
        name: _values(measure, [run.unlearned for run in runs], targets[name]) for name, runs in references.items()
    }
    return values | {NOOP: _values(measure, [run.noop for run in references[REFERENCE]], targets[REFERENCE])}


def _judged(values: Values, controls: Values) -> dict[str, Any]:
    """Judge a measure by the controls, and by the method's own networks before the request."""
    judgement, own = gate(controls), is_faster(paired(values[NOOP], values[RETRAINED]))
    reason = judgement["reason"] if own else f"{judgement['reason']} {OWN_FAILURE}".strip()
    return {**judgement, "own_noop_detected": own, "valid": not reason, "reason": reason}


def _scores(measure: str, values: Values, controls: Values, judgement: Mapping[str, Any]) -> tuple[Score, Score]:
    state: State = "valid" if judgement["valid"] else "cannot tell"
    means, own = _means(values), values[UNLEARNED]
    low, high = mean_interval(torch.from_numpy(own))
    score = Score(
        measure,
        "forgotten",
        means[UNLEARNED],
        low if low is None else max(0.0, low),
        high,
        floor=means[OTHER],
        controls={**_means(controls), NOOP: means[NOOP], OWN: means[RETRAINED]},
        effect=(means[RETRAINED] - means[UNLEARNED]) / (means[RETRAINED] - means[NOOP]) if state == "valid" else None,
        p=paired(own, values[RETRAINED]).p,
        runs=len(own),
        state=state,
        note=judgement["reason"],
    )
    value, low, high = ratio(own, values[RETRAINED])
    floor, noop = (ratio(values[side], values[RETRAINED])[0] for side in (OTHER, NOOP))
    as_ratio = replace(
        score, measure=RATIO, where=measure, value=value, low=low, high=high, floor=floor, controls={NOOP: noop}
    )
    return score, as_ratio


def _means(values: Values) -> dict[str, float]:
    return {name: float(numbers.mean()) for name, numbers in values.items()}


def _unreached(curves: Sequence[Curves], targets: Sequence[Tensor]) -> int:
    """Return how many networks never have a loss as low as before the request."""
    return sum(int((each.loss > target).all(dim=0).sum()) for each, target in zip(curves, targets, strict=True))


def _notes(areas: Values, runs: Sequence[UnlearnedRun]) -> Iterator[str]:
    test, retrained = paired(areas[OTHER], areas[RETRAINED]), float(areas[RETRAINED].mean())
    if test.standard_error is not None and test.degrees_of_freedom:
        # The smaller of two p-values is doubled.
        gap = detectable_difference(test.standard_error, test.degrees_of_freedom, alpha=VERDICT_ALPHA / len(MEASURES))
        yield (
            f"Power with {len(runs)} runs: with the variation between seeds, a relearning ratio that differs from 1 by"
            f" {gap / retrained:.2f} would be noticed in four of five audits."
        )
    others = sorted({name for run in runs for name in run.others})
    if others:
        yield f"The networks alone relearn, without what else is deployed: {', '.join(others)}."


def _plain(curves: Sequence[Curves]) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield loss and accuracy, the mean over the networks of each run, float32 [R, T + 1]."""
    for name in ("loss", "accuracy"):
        yield name, torch.stack([getattr(each, name).mean(dim=1) for each in curves]).float().numpy()
