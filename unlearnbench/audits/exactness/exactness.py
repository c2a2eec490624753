"""The audit `exactness`: whether a method's state after a request is that of a run that never saw the data."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

import torch
from pydantic import Field

from unlearnbench.audits.base import Audit, Finding, Score
from unlearnbench.audits.exactness import own_process
from unlearnbench.audits.exactness.counterfactuals import (
    Check,
    check_change,
    check_content,
    check_counterfactual,
    check_graphs,
    check_kept,
    check_memory,
    check_predict,
    check_repeats,
    make_check,
)
from unlearnbench.audits.exactness.distribution import by_distribution
from unlearnbench.audits.exactness.run import Run, attempted, outcome_of
from unlearnbench.audits.exactness.sequences import check_sequences
from unlearnbench.audits.exactness.taint import check_taint, digests_of
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.audits.exactness.verdicts import (
    APPROXIMATE,
    CANNOT_TELL,
    EXACT,
    GIVEN,
    NONE,
    RANKS,
    REFUTED,
    claims_exactness,
    contradiction,
)
from unlearnbench.audits.subject import Subject
from unlearnbench.component import ComponentParams, Spec
from unlearnbench.unlearning import Claim, Unlearner

_FOR_EXACT, _FOR_OTHERS = 11, 4


class Exactness(Audit):
    """Compares an unlearned method with runs that never saw the data: bit for bit, else in distribution."""

    name = "exactness"
    version = 2
    summary = "Is the state that of a run that never saw the data?"
    reference = "the definition of exact unlearning in Bourtoule et al., Machine Unlearning, IEEE S&P 2021; checks ours"
    question = "Is what is deployed after a request what would be deployed had the data never been there?"
    order = 10
    kinds = frozenset({"node", "edge", "feature"})

    class Params(ComponentParams):
        """Parameters of the two-sample test, for methods that are not exact."""

        runs: int = Field(default=20, ge=5, description="Runs a side of the two-sample test.")
        permutations: int = Field(default=999, ge=99, description="Permutations of each test.")

    def effort(self, method: Spec) -> Mapping[str, float]:
        """Count eleven runs for a claim of exactness, else four and those of the two-sample test."""
        built: Unlearner = method.build()
        runs = _FOR_EXACT if claims_exactness(built) else _FOR_OTHERS + 2 * self.params.runs
        return {method.label: runs}

    def ready(self) -> None:
        """Start the process that runs are forked from, so that no method seems to have left it running."""
        own_process.start()

    def examine(self, subject: Subject) -> Finding:
        """Make the run that never saw D first, then the others, each in a process of its own."""
        trials = Trials(subject)
        method: Unlearner = subject.cell.method.build()
        never, known = _counterfactual(trials, {})
        unlearned = trials.apart_unlearned(thorough=True)
        again = trials.apart(_unlearned_and_later)
        checks = [check_repeats(unlearned, Run.from_plain(again["run"])), check_change(unlearned)]
        if not checks[0].passed:
            note = "Two runs with one seed differ: nothing can be said of its exactness."
            return self._finding(method, CANNOT_TELL, trials, checks, (), [note])
        if trials.why_here:
            checks.append(Check("memory", None, f"no process of its own: {trials.why_here}"))
        else:
            later = again["later"]
            checks.append(check_memory(never, later if isinstance(later, str) else Run.from_plain(later)))
        verdict, scores, notes = self._verdict(method, unlearned, never, known, trials, checks)
        if claims_exactness(method) and RANKS[verdict] < RANKS[GIVEN]:
            verdict = f"{REFUTED} ({'distance unknown' if verdict == CANNOT_TELL else verdict})"
        return self._finding(method, verdict, trials, checks, scores, notes)

    def _verdict(
        self, method: Unlearner, unlearned: Run, never: Run | str, known: set[str], trials: Trials, checks: list[Check]
    ) -> tuple[str, Sequence[Score], list[str]]:
        kept, given = check_kept(unlearned.kept, trials.retained.ids, trials.request)
        own, counterfactual = outcome_of(never, unlearned), never
        if given and own:
            counterfactual, known = _counterfactual(trials, given)
        same = check_counterfactual(unlearned, counterfactual, trials)
        checks += [check_predict(unlearned), kept, same, check_graphs(unlearned, counterfactual, trials)]
        if same.passed or claims_exactness(method):
            partition = make_check("own partition", own)
            if not given:
                partition = Check("own partition", True, "nothing is kept: it is the run of the counterfactual")
            if not same.passed:
                partition = Check("own partition", None, "the counterfactual differs")
            checks += [partition, *self._thorough(method, unlearned, trials, known, bool(same.passed))]
        failed = {check.name for check in checks if check.passed is False}
        # Without some edges a method may rightly be what it was: two shards, and the edge between them. And a
        # forgotten feature may have been zero.
        if "change" in failed and (trials.request.kind == "node" or not same.passed):
            return NONE, (), ["Forgetting changed no parameter."]
        if not same.passed:
            return by_distribution(trials, self.params.runs, self.params.permutations)
        if failed - {"change", "own partition", "content"}:
            return APPROXIMATE, (), []
        if "own partition" in failed:
            of_ids = trials.request.kind == "node" and "content" not in failed
            return f"{GIVEN} ({'ids' if of_ids else 'content'})", (), []
        return (APPROXIMATE if "content" in failed else EXACT), (), []

    def _thorough(self, method: Unlearner, unlearned: Run, trials: Trials, known: set[str], exact: bool) -> list[Check]:
        trials.retained.contains(trials.gone)  # fills a cache, which then is known too
        known = known | digests_of(trials.retained)
        # A method that declares that its partition depends on the content of D need not be tested for which part.
        content = check_content(unlearned, trials, name_parts=method.claim_reason != "content")
        return [content, *check_sequences(unlearned, trials), check_taint(unlearned, trials, known, exact)]

    def _finding(
        self,
        method: Unlearner,
        verdict: str,
        trials: Trials,
        checks: list[Check],
        scores: Sequence[Score],
        notes: list[str],
    ) -> Finding:
        claim = method.claim.value + (f" ({method.claim_reason})" if method.claim_reason else "")
        holds: bool | None = RANKS[claim if claim in RANKS else method.claim.value] <= RANKS.get(verdict, 0)
        if verdict == CANNOT_TELL and not claims_exactness(method):
            holds = method.claim is Claim.NONE or None  # neither shown nor refuted
        failed = [f"{check.name}: {check.differs}" for check in checks if check.passed is False]
        if holds is False:
            notes = [f"{contradiction(claim, verdict)} {'. '.join(failed)}.", *notes]
        if trials.why_here:
            notes.append(f"Memory outside the method was not looked for: {trials.why_here}.")
        if method.claim is Claim.CERTIFIED:
            notes.append("Whether its bound holds is not tested here.")
        details = {"claim": claim, "claim_holds": holds, "checks": [asdict(check) for check in checks]}
        return Finding(verdict, tuple(scores), details, tuple(notes))


def _counterfactual(trials: Trials, given: Mapping[str, torch.Tensor]) -> tuple[Run | str, set[str]]:
    """Make a run that never saw D in a process of its own; return it with the digests of what it holds."""
    known = set[str]()

    def run() -> Run:
        ended = trials.apart(_run_with_digests, given)
        known.update(ended["digests"])
        return Run.from_plain(ended["run"])

    return attempted(run), known


def _run_with_digests(trials: Trials, given: Mapping[str, torch.Tensor]) -> dict[str, Any]:
    known = set[str]()
    run = trials.counterfactual(given, lambda built: known.update(digests_of(built)))
    return {"run": run.plain(), "digests": sorted(known)}


def _unlearned_and_later(trials: Trials) -> dict[str, Any]:
    """Make the unlearned run, and later, in the same process, one that never saw D."""
    run = trials.unlearned(thorough=True)
    later = attempted(lambda: trials.counterfactual({}))
    return {"run": run.plain(), "later": later if isinstance(later, str) else later.plain()}
