"""The audit `membership`: whether predictions reveal, node by node, that a forgotten node was trained on."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any, ClassVar, Literal

import torch
from pydantic import Field, field_validator

from unlearnbench.audits.base import Audit, Finding, Score, State
from unlearnbench.audits.gating import NOOP, VERDICT_ALPHA
from unlearnbench.audits.membership.attack import ATTACKERS, GRAPH, NODE, RATES, Attacked, attack, attack_scores
from unlearnbench.audits.membership.gate import TRAINED, detectable_area, gate, largest_bound, p_value
from unlearnbench.audits.membership.shadows import neighbours_of, presence, run_references, run_shadows
from unlearnbench.audits.subject import Subject
from unlearnbench.component import ComponentParams, Spec
from unlearnbench.running.lookup import REFERENCE
from unlearnbench.task import View

# The verdict rests on these; the third attacker is there for comparison.
JUDGES = (NODE, GRAPH)
# The method's own pipelines before the request, over the retained graph.
BEFORE = "before the request"
FEWEST_NODES = 8
# Where only a larger excess over Retrain's area can be detected, the audit recommends a larger request.
SMALL_AREA = 0.05


class Membership(Audit):
    """Attacks each forgotten node with a likelihood ratio from shadow pipelines (U-LiRA)."""

    name = "membership"
    version = 1
    summary = "Can an attacker tell, node by node, that a forgotten node was trained on?"
    reference = (
        "U-LiRA: Hayes et al., SaTML 2025; LiRA: Carlini et al., S&P 2022; epsilon: Steinke et al., NeurIPS 2023"
    )
    question: ClassVar[str] = "Can an attacker tell, node by node, that a forgotten node was trained on?"
    order: ClassVar[int] = 35

    class Params(ComponentParams):
        """Number of shadow pipelines and view."""

        shadows: int = Field(default=64, ge=16, description="Pipelines, each trained with half of the nodes; in fours.")
        view: Literal["shard", "full"] = Field(default="shard", description="Which graph members pass messages over.")

        @field_validator("shadows")
        @classmethod
        def _in_fours(cls, shadows: int) -> int:
            if shadows % 4:
                raise ValueError(f"{shadows} is not divisible by 4: half of a half is trained with each node")
            return shadows

    params: Params

    def effort(self, method: Spec) -> Mapping[str, float]:
        """Count the pipelines of the method, of Retrain and of the controls."""
        return dict.fromkeys((method.label, REFERENCE, *TRAINED), float(self.params.shadows))

    def examine(self, subject: Subject) -> Finding:
        """Run the pipelines of the method, of Retrain and of the controls, and attack all of them."""
        nodes, view = len(subject.request.ids), View(self.params.view)
        if nodes < FEWEST_NODES:
            note = f"Only {nodes} nodes are forgotten, {FEWEST_NODES} are needed: choose a larger request."
            return Finding("cannot tell", (Score("auc", NODE, None, note=note),), notes=(note,))
        method = subject.cell.method
        present = presence(subject, self.params.shadows)
        mine = None if subject.is_of_reference else run_shadows(subject, method, present, view)
        controls = run_references(subject, (REFERENCE, *TRAINED), present, view)
        mine = mine or controls[REFERENCE]
        outputs = {BEFORE: mine.noop, method.label: mine.unlearned, NOOP: controls[REFERENCE].noop}
        outputs |= {name: shadows.unlearned for name, shadows in controls.items()}
        blank = [label for label, seen in outputs.items() if any(bool(v.isnan().any()) for v in seen.values())]
        if blank:
            note = f"Predictions of {', '.join(blank)} are not numbers."
            return Finding("cannot tell", (Score("auc", NODE, None, note=note),), notes=(note,))
        attacked = {label: attack(seen, present) for label, seen in outputs.items()}
        gates = {one: gate({name: result[one] for name, result in attacked.items()}) for one in ATTACKERS}
        power = {one: detectable_area(attacked[REFERENCE][one], len(JUDGES)) for one in ATTACKERS}
        scores = [
            score
            for one in ATTACKERS
            for score in self._scores(
                one,
                attacked[method.label][one],
                None if method.label == REFERENCE else attacked[REFERENCE][one],
                attacked[BEFORE][one],
                {name: attacked[name][one].area for name in TRAINED},
                gates[one],
            )
        ]
        pairs, near = neighbours_of(subject)
        certified = largest_bound(int(present[len(present) // 2 :].sum()))
        details = {
            "nodes": nodes,
            "pipelines": len(present),
            "neighbours": len(near),
            "nodes with neighbours": len(torch.unique(pairs[0])),
            "gate": gates,
            "detectable_area": power,
            "largest_epsilon_bound": certified,
            # Retrain's record has those of Retrain and of the controls, noop among them.
            "attacks": {
                label: {one: _plain(result[one]) for one in ATTACKERS}
                for label, result in attacked.items()
                if subject.is_of_reference or label == method.label or (label == BEFORE and result != attacked[NOOP])
            },
        }
        arrays = {
            "membership/present": present.numpy(),
            "membership/confidence": mine.unlearned["own"].float().numpy(),
            "membership/node": attack_scores(NODE, mine.unlearned, present).float().numpy(),
        }
        return Finding(_verdict(scores), tuple(scores), details, self._notes(nodes, power, certified), arrays)

    def _scores(
        self,
        attacker: str,
        one: Attacked,
        retrain: Attacked | None,
        noop: Attacked,
        controls: Mapping[str, float],
        judgement: Mapping[str, Any],
    ) -> list[Score]:
        runs, note = self.params.shadows, judgement["reason"]
        state: State = "valid" if judgement["valid"] else "cannot tell"
        floor = 0.5 if retrain is None else retrain.area
        low, high = one.interval
        effect = (one.area - floor) / (noop.area - floor) if state == "valid" and noop.area > floor else None
        scores = [
            Score(
                "auc",
                attacker,
                one.area,
                low,
                high,
                floor=floor,
                controls={NOOP: noop.area, **controls},
                effect=effect,
                p=p_value(one, retrain),
                runs=runs,
                state=state,
                note=note,
            )
        ]
        for rate in RATES:
            where = f"{attacker}, {100 * rate:g}% false alarms"
            if rate not in one.rates:
                few = f"Fewer than {round(1 / rate)} pairs of a node and a pipeline without it."
                scores.append(Score("tpr", where, None, runs=runs, state=state, note=few))
                continue
            found, floor = one.rates[rate], rate if retrain is None else retrain.rates[rate].value
            at_noop = {NOOP: noop.rates[rate].value}
            scores.append(
                Score("tpr", where, found.value, found.low, found.high, floor, at_noop, runs=runs, state=state)
            )
        floor = 0.0 if retrain is None else retrain.epsilon
        at_noop = {NOOP: noop.epsilon}
        bound = Score("epsilon", attacker, one.epsilon, floor=floor, controls=at_noop, runs=runs, state=state)
        return [*scores, bound]

    def _notes(self, nodes: int, power: Mapping[str, float], certified: float) -> tuple[str, ...]:
        least = power[NODE]
        text = (
            f"Power with {nodes} nodes and {self.params.shadows} pipelines: an area of {least:.3f} would be called a"
            f" leak in four of five audits; no epsilon above {certified:.1f} could be shown."
        )
        if least > 0.5 + SMALL_AREA:
            text += " Choose a larger request or more shadows to see smaller leaks."
        return (text,)


def _verdict(scores: list[Score]) -> str:
    """Return `leaks` if an area is above Retrain's after Bonferroni's correction, by an attack that may be trusted."""
    areas = [score for score in scores if score.measure == "auc" and score.where in JUDGES and score.state == "valid"]
    if any(score.p is not None and score.p * len(JUDGES) < VERDICT_ALPHA for score in areas):
        return "leaks"
    return "no leak seen" if any(score.where == NODE for score in areas) else "cannot tell"


def _plain(one: Attacked) -> dict[str, Any]:
    values = asdict(one)
    return {
        **values,
        "rates": {f"{rate:g}": found for rate, found in values["rates"].items()},
        "guesses": list(one.guesses),
    }
