"""The audit `controls`: which measures of forgetting can be trusted on a cell."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal

from pydantic import Field

from unlearnbench.audits.base import Audit, Finding, Score
from unlearnbench.audits.distance.control_scores import LOSS, MEASURES, ControlScores, read_areas, score_controls
from unlearnbench.audits.gating import LEAK, LEAKS, NOOP, OVER, failure_reason, is_trend, leak_trend
from unlearnbench.audits.subject import Subject
from unlearnbench.component import ComponentParams, Spec
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.statistics import ALPHA
from unlearnbench.task import View

OTHERS = ("noop-full", "random-init", OVER)
# Controls that Retrain must beat. A leak of nothing is Retrain itself, and a small one may be as good.
RIVALS = (NOOP, *OTHERS, LEAK)
OVERFITTED_EPOCHS = 200


class Controls(Audit):
    """Tests whether every measure of forgetting ranks methods of known rank correctly.

    The idea of controls follows Kolipaka et al., Sanity Checks for Evaluating Graph Unlearning.
    """

    name = "controls"
    version = 1
    summary = "Which measures of forgetting can be trusted here: they must tell control methods apart."
    reference = "Page, Ordered hypotheses for multiple treatments, JASA 58, 1963, for the trend"
    question = "Which measures of forgetting rank methods rightly whose place is known?"
    order = 20

    class Params(ComponentParams):
        """Number of runs, permutations and view."""

        runs: int = Field(default=10, ge=4, description="Runs of each control.")
        permutations: int = Field(default=9999, ge=199, description="Relabellings of runs that are drawn.")
        view: Literal["shard", "full"] = Field(default="shard", description="Which graph members pass messages over.")

    def unfit(self, method: Spec) -> str:
        """Apply to Retrain alone: the audit is about measures, not about methods."""
        return "" if method.name == REFERENCE else "the gate is asked of Retrain alone"

    def effort(self, method: Spec) -> Mapping[str, float]:
        """Count the runs of each control; the overfitted setting, of twice the default epochs, counts twice."""
        runs = float(self.params.runs)
        twice = {REFERENCE: 1.5 * 3 * runs, NOOP: 3 * runs}
        return twice | dict.fromkeys((*OTHERS, *LEAKS), runs)

    def examine(self, subject: Subject) -> Finding:
        """Train the controls on the cell and in the overfitted setting, and judge the measures."""
        runs, permutations, view = self.params.runs, self.params.permutations, View(self.params.view)
        here = score_controls(subject, [REFERENCE, NOOP, *OTHERS, *LEAKS], runs, permutations, view, "here")
        overfitted = score_controls(overfit(subject), [REFERENCE, NOOP], runs, permutations, view, "overfitted")
        details = {measure: gate(here[measure], overfitted[measure]) for measure in MEASURES}
        details[LOSS]["membership"] = read_areas(subject, here[LOSS].areas)
        valid = [measure for measure in MEASURES if details[measure]["valid"]]
        others = [measure for measure in MEASURES if measure not in valid]
        parts = [f"{word}: {', '.join(which)}" for word, which in (("valid", valid), ("cannot tell", others)) if which]
        return Finding(
            verdict="; ".join(parts),
            scores=tuple(self._score(measure, here[measure], details[measure]) for measure in MEASURES),
            details=details,
            notes=_notes(subject),
            arrays={
                f"controls/{_plain(measure)}/{_plain(name)}": scores
                for measure, control_scores in here.items()
                for name, scores in control_scores.scores.items()
            },
        )

    def _score(self, measure: str, control_scores: ControlScores, judgement: Mapping[str, Any]) -> Score:
        means = control_scores.means
        return Score(
            measure=measure,
            where="forgotten",
            value=means[REFERENCE],
            controls={name: value for name, value in means.items() if name != REFERENCE},
            p=control_scores.noop_p,
            runs=self.params.runs,
            state="valid" if judgement["valid"] else "cannot tell",
            note=judgement["reason"],
        )


def gate(here: ControlScores, overfitted: ControlScores) -> dict[str, Any]:
    """Judge one measure.

    Args:
        here: Scores of all controls on the cell.
        overfitted: Scores of Retrain and `noop` in the overfitted setting.

    Returns:
        `retrain_best`: its mean score is below every rival's. `capable`, `powered_here`: `noop`
        is worse than Retrain, p < .05, in the overfitted setting and on the cell. `follows_k`: the
        score grows with the leaked share, Page's p < .01. `valid`: all of these. Also the p-values,
        the mean scores and areas, and `reason`: which conditions fail.
    """
    means = here.means
    trend = leak_trend(here.blocks)
    passed = {
        "retrain_best": all(means[REFERENCE] < means[rival] for rival in RIVALS),
        "capable": _is_rejected(overfitted),
        "powered_here": _is_rejected(here),
        "follows_k": is_trend(trend),
    }
    reason = failure_reason(passed, FAILURES)
    return {
        **passed,
        "capable_p": overfitted.noop_p,
        "powered_p": here.noop_p,
        "page_p": trend.p,
        "valid": not reason,
        "reason": reason,
        "scores": means,
        "overfitted_scores": overfitted.means,
        "areas": {name: float(values.mean()) for name, values in here.areas.items()},
    }


FAILURES = {
    "retrain_best": "a control has a better score than Retrain",
    "capable": "noop is not found out even if overfitted",
    "powered_here": "noop is not found out here",
    "follows_k": "the score does not follow what leaked",
}


def overfit(subject: Subject) -> Subject:
    """Return the same data with a training that overfits: 200 epochs, neither dropout nor weight decay."""
    cell = subject.cell
    training = replace(cell.training, epochs=OVERFITTED_EPOCHS, weight_decay=0.0)
    model = cell.model
    if _has_dropout(model):
        model = replace(model, params=model.params.model_copy(update={"dropout": 0.0}))
    return replace(subject, cell=replace(cell, training=training, model=model))


def _has_dropout(model: Spec) -> bool:
    return "dropout" in type(model.params).model_fields


def _is_rejected(scores: ControlScores) -> bool:
    return scores.noop_is_worse and scores.noop_p is not None and scores.noop_p < ALPHA


def _notes(subject: Subject) -> tuple[str, ...]:
    model = subject.cell.model
    if _has_dropout(model):
        return ()
    return (f"{model.label} has no parameter `dropout`: the overfitted setting keeps what it drops.",)


def _plain(name: str) -> str:
    """Return a name in the form used for names of arrays."""
    return name.replace("-", "_").replace("[k=", "_").replace("]", "").replace(".", "_")
