"""The audit `exactness`: whether a method's state after a request is that of a run that never saw the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from typing import Final

import numpy as np
import torch
from pydantic import Field

from unlearnbench import seeds
from unlearnbench.audits.base import Audit, Finding, Score
from unlearnbench.audits.exactness.bits import unequal
from unlearnbench.audits.exactness.counterfactuals import (
    Check,
    check_content,
    check_counterfactual,
    check_graphs,
    check_kept,
    check_order,
    check_predict,
    check_repeats,
    make_check,
)
from unlearnbench.audits.exactness.taint import check_taint, digests_of
from unlearnbench.audits.exactness.trials import Run, Trials, attempted, outcome
from unlearnbench.audits.subject import RetainedQuery, Subject
from unlearnbench.component import ComponentParams, Spec
from unlearnbench.statistics import energy
from unlearnbench.task import Query
from unlearnbench.unlearning import Claim, Unlearner

EXACT, GIVEN, APPROXIMATE, NONE = (claim.value for claim in Claim if claim is not Claim.CERTIFIED)
CANNOT_TELL = "cannot tell"
LEVEL = 0.05
# Strength of claims; a certificate is stronger than `approximate`, but no run can show it.
_RANKS: Final[Mapping[str, float]] = {
    EXACT: 4,
    f"{GIVEN} (ids)": 3.5,
    f"{GIVEN} (content)": 3,
    GIVEN: 3,
    Claim.CERTIFIED.value: 1,
    APPROXIMATE: 1,
    NONE: 0,
    CANNOT_TELL: 0,
}
_FOR_EXACT, _FOR_OTHERS = 8, 3


class Exactness(Audit):
    """Compares an unlearned method with runs that never saw the data: bit for bit, else in distribution."""

    name = "exactness"
    version = 1
    summary = "Is the state that of a run that never saw the data?"
    reference = "the definition of exact unlearning in Bourtoule et al., Machine Unlearning, IEEE S&P 2021; checks ours"
    question = "Is what is deployed after a request what would be deployed had the data never been there?"
    order = 10

    class Params(ComponentParams):
        """Parameters of the two-sample test, for methods that are not exact."""

        runs: int = Field(default=20, ge=5, description="Runs a side of the two-sample test.")
        permutations: int = Field(default=999, ge=99, description="Permutations of each test.")

    def effort(self, method: Spec) -> Mapping[str, float]:
        """Count eight runs for a claim of exactness, else three and those of the two-sample test."""
        built: Unlearner = method.build()
        runs = _FOR_EXACT if _claims_exactness(built) else _FOR_OTHERS + 2 * self.params.runs
        return {method.label: runs}

    def examine(self, subject: Subject) -> Finding:
        """Run the checks, the cheapest first."""
        trials = Trials(subject)
        method: Unlearner = subject.cell.method.build()
        unlearned = trials.unlearned(thorough=True)
        checks = [check_repeats(unlearned, trials.unlearned())]
        if not checks[0].passed:
            note = "Two runs with one seed differ: nothing can be said of its exactness."
            return self._finding(method, CANNOT_TELL, checks, (), [note])
        verdict, scores, notes = self._verdict(method, unlearned, trials, checks)
        return self._finding(method, verdict, checks, scores, notes)

    def _verdict(
        self, method: Unlearner, unlearned: Run, trials: Trials, checks: list[Check]
    ) -> tuple[str, Sequence[Score], list[str]]:
        kept, given = check_kept(unlearned.kept, trials.retained.ids, trials.request)
        known: set[str] = set()
        counterfactual = attempted(lambda: trials.counterfactual(given, lambda built: known.update(digests_of(built))))
        same = check_counterfactual(unlearned, counterfactual, trials)
        checks += [check_predict(unlearned), kept, same, check_graphs(unlearned, counterfactual, trials)]
        if same.passed or _claims_exactness(method):
            checks += self._thorough(method, unlearned, trials, given, known, bool(same.passed))
        if not same.passed:
            if not unequal(unlearned.before, unlearned.after_asking) and not unequal(unlearned.noop, unlearned.answers):
                return NONE, (), ["Forgetting changed no parameter."]
            return self._by_distribution(trials)
        failed = {check.name for check in checks if check.passed is False}
        if failed - {"own partition", "content"}:
            return APPROXIMATE, (), []
        if "own partition" in failed:
            return f"{GIVEN} ({'content' if 'content' in failed else 'ids'})", (), []
        return (APPROXIMATE if "content" in failed else EXACT), (), []

    def _thorough(
        self,
        method: Unlearner,
        unlearned: Run,
        trials: Trials,
        given: Mapping[str, torch.Tensor],
        known: set[str],
        exact: bool,
    ) -> list[Check]:
        trials.retained.contains(trials.request.ids)  # fills a cache, which then is known too
        known |= digests_of(trials.retained)
        # A method that declares that its partition depends on the content of D need not be tested for which part.
        content = check_content(unlearned, trials, name_parts=method.claim_reason != "content")
        checks = [content, check_order(unlearned, trials), check_taint(unlearned, trials, known, exact)]
        if not exact:
            partition = Check("own partition", None, "the counterfactual differs")
        elif not given:
            partition = Check("own partition", True, "nothing is kept: it is the run of the counterfactual")
        else:
            partition = make_check("own partition", outcome(lambda: trials.counterfactual({}), unlearned))
        return [partition, *checks]

    def _by_distribution(self, trials: Trials) -> tuple[str, Sequence[Score], list[str]]:
        """(d) Test over many seeds whether predictions on D are nearer to retrained models' than those of `noop`."""
        runs, permutations = self.params.runs, self.params.permutations
        query = trials.queries["forgotten"]
        noop = RetainedQuery(query.targets, query.view, query.graph, query.retained)
        answers: list[list[torch.Tensor]] = [[], [], []]
        for run in range(runs):
            task = trials.task(run=run, side="told")
            method = trials.subject.fit(trials.method, task)
            answers[1].append(_answer(method, noop))
            trials.subject.forget(method, task)
            answers[0].append(_answer(method, query))
            counterfactual = replace(trials.task(run=run, side="never"), graph=trials.retained)
            answers[2].append(_answer(trials.subject.fit(trials.method, counterfactual), query))
        table = torch.stack([answer for side in answers for answer in side]).double().exp().numpy()
        if not np.isfinite(table).all():
            return CANNOT_TELL, (), ["Some of its answers are not finite."]
        matrix = energy.distances(table)
        unlearned, noop, retrained = (np.arange(runs) + side * runs for side in range(3))
        rng = np.random.default_rng(seeds.seed(trials.task().seed, "audit", "permutations"))
        noop_p, p = (energy.differ_p(matrix, side, retrained, permutations, rng) for side in (noop, unlearned))
        nearer = energy.nearer_p(matrix, unlearned, noop, retrained, permutations, rng)
        of_noop, value = (energy.energy(matrix, side, retrained) for side in (noop, unlearned))
        rejected = noop_p < LEVEL
        score = Score(
            measure="energy",
            where="forgotten",
            value=value,
            floor=0.0,
            controls={"noop": of_noop},
            effect=value / of_noop if rejected and of_noop > 0 else None,
            p=p,
            runs=runs,
            state="valid" if rejected else "cannot tell",
            note=f"noop is rejected with p = {noop_p:.3g}; nearer than noop: p = {nearer:.3g}",
        )
        if not rejected:
            return CANNOT_TELL, (score,), ["The untouched model cannot be told from a retrained one here."]
        return (APPROXIMATE if nearer < LEVEL else NONE), (score,), []

    def _finding(
        self, method: Unlearner, verdict: str, checks: list[Check], scores: Sequence[Score], notes: list[str]
    ) -> Finding:
        claim = method.claim.value + (f" ({method.claim_reason})" if method.claim_reason else "")
        holds: bool | None = _RANKS[claim if claim in _RANKS else method.claim.value] <= _RANKS[verdict]
        if verdict == CANNOT_TELL and not _claims_exactness(method):
            holds = method.claim is Claim.NONE or None  # neither shown nor refuted
        failed = [f"{check.name}: {check.differs}" for check in checks if check.passed is False]
        if holds is False:
            notes = [f"It claims {claim} and shows {verdict}. {'. '.join(failed)}.", *notes]
        if method.claim is Claim.CERTIFIED:
            notes.append("Whether its bound holds is not tested here.")
        details = {"claim": claim, "claim_holds": holds, "checks": [asdict(check) for check in checks]}
        return Finding(verdict, tuple(scores), details, tuple(notes))


def _claims_exactness(method: Unlearner) -> bool:
    return method.claim in (Claim.EXACT, Claim.EXACT_GIVEN_PARTITION)


def _answer(method: Unlearner, query: Query) -> torch.Tensor:
    return method.predict(query).detach().cpu()
