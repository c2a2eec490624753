"""The two-sample test of `exactness`: networks that methods begin with are shared, and change no bit of it."""

from __future__ import annotations

import pytest
from audit_samples import toy_subject

from unlearnbench.audits.exactness.distribution import by_distribution
from unlearnbench.audits.exactness.trials import Trials
from unlearnbench.audits.subject import Subject
from unlearnbench.gnn import training


def test_networks_are_trained_for_the_first_method_and_change_no_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    subject, made = toy_subject("scrub", epochs=2, ratio=0.2), []
    original = training._train_all
    monkeypatch.setattr(training, "_train_all", lambda *given: made.append(1) or original(*given))
    trials = Trials(subject)
    trials.why_here = "so that trainings can be counted"
    found = by_distribution(trials, 5, 99)
    # A network a run and side.
    assert len(made) == 10
    assert by_distribution(trials, 5, 99) == found
    assert len(made) == 10
    monkeypatch.setattr(Subject, "begun", lambda self, method, task: task)
    assert by_distribution(trials, 5, 99) == found
    assert len(made) == 20
