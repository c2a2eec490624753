"""The rules of audits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import Any

import numpy as np

from unlearnbench.audits.base import Audit, Finding, Score
from unlearnbench.audits.subject import Subject
from unlearnbench.component import Spec
from unlearnbench.errors import UsageError
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import Toy
from unlearnbench.testing.rules.base import Case, Fault, Rule, Skipped
from unlearnbench.testing.rules.lifecycle import recorded, small_subject
from unlearnbench.testing.rules.purity import changed, copies, reproducible, seeded_answer

_METHODS = ("retrain", "sharded[num_shards=4]")


def _subject(case: Case) -> Subject:
    """Make a cell with the last method of the list that suits the audit."""
    methods = [resolve(case.catalogue, "unlearner", method) for method in _METHODS]
    fit = [method for method in methods if not case.build().unfit(method)]
    if not fit:
        raise Skipped(f"it does not apply to {' and '.join(_METHODS)}")
    return small_subject(case, fit[-1])


def _examine(case: Case, toy: Toy) -> Any:
    """Examine a method, and keep the faults of the audit's inputs for their rule."""
    subject = _subject(case)
    graphs = {"subject.graph": subject.graph, "subject.train_graph": subject.train_graph}
    before = copies(*graphs.values())
    finding = case.build().examine(subject)
    case.memory["faults of inputs"] = list(changed(graphs, before, "examine()"))
    return finding


def _states_its_question(case: Case, toy: Toy) -> Iterator[Fault]:
    audit: Audit = case.build()
    if not audit.question.strip().endswith("?"):
        yield Fault(f"Its question is {audit.question!r}.", "Ask one question, with a question mark.")
    for method in (resolve(case.catalogue, "unlearner", name) for name in _METHODS):
        reason = audit.unfit(method)
        if not isinstance(reason, str):
            yield Fault(f"unfit() gave {reason!r}.", "Return text: why the audit does not apply, empty if it does.")
        elif not reason:
            yield from _faults_of_effort(case, audit, method)


def _faults_of_effort(case: Case, audit: Audit, method: Spec) -> Iterator[Fault]:
    for label, times in audit.effort(method).items():
        if not isinstance(times, int | float | np.number) or not times >= 0:
            yield Fault(f"effort() counts {label} {times!r} times.", "Return how often it is trained, a number.")
        try:
            if label != method.label:
                resolve(case.catalogue, "unlearner", label)
        except UsageError as error:
            yield Fault(f"effort() names {label}: {error.message}", "Name the method's own label or a control's.")


def _finds(case: Case, toy: Toy) -> Iterator[Fault]:
    finding, _ = seeded_answer(case, toy, _examine)
    if not isinstance(finding, Finding):
        yield Fault(f"examine() gave a {type(finding).__name__}.", "Return unlearnbench.Finding.")
        return
    if not isinstance(finding.verdict, str) or not finding.verdict.strip():
        yield Fault(f"Its verdict is {finding.verdict!r}.", "Use one or a few words.")
    for score in finding.scores:
        if not isinstance(score, Score):
            yield Fault(f"A score is a {type(score).__name__}.", "Use unlearnbench.Score.")
        elif score.value is None and not score.note:
            yield Fault(
                f"The score {score.measure} has neither value nor note.", "Explain in the note why there is none."
            )
    try:
        json.dumps([dict(finding.details), [asdict(score) for score in finding.scores]], allow_nan=False)
    except (TypeError, ValueError) as error:
        yield Fault(
            f"Its finding cannot be stored as JSON: {error}.",
            "Use plain numbers and text; None, with a note, for NaN.",
        )


def _is_stored(case: Case, toy: Toy) -> Iterator[Fault]:
    finding, _ = seeded_answer(case, toy, _examine)
    # Reuse the finding: examining again would double the time.
    given = type(case.spec.cls.__name__, (case.spec.cls,), {"examine": lambda audit, subject: finding})
    subject = _subject(case)
    cell = replace(subject.cell, audit=replace(case.spec, cls=given))
    record, reason = recorded(case, Audit.auditor(case.catalogue), cell, subject.graph)
    if record.status != "ok":
        yield Fault(f"Its record has status {record.status}: {reason}.", "See the message.")


def _leaves_inputs_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    seeded_answer(case, toy, _examine)
    yield from case.memory["faults of inputs"]


def _difference(one: Any, other: Any) -> str:
    return "" if _content(one) == _content(other) else "another finding"


def _content(finding: Any) -> str:
    if not isinstance(finding, Finding):
        return repr(finding)
    return repr((finding.verdict, finding.scores, dict(finding.details), finding.notes))


RULES = (
    Rule("question", "it asks one question and estimates the cost of the answer", _states_its_question),
    Rule("finding", "it returns a verdict and scores that can be stored", _finds),
    *reproducible(
        "the same cell gives the same finding",
        _examine,
        _difference,
        "The same cell gives another finding.",
        "Draw from subject.task(run).generator(...) alone.",
        other_seed_first=True,
    ),
    Rule("inputs-unchanged", "the graph stays as it was", _leaves_inputs_alone),
    Rule("record", "the harness stores its findings as records", _is_stored),
)
