"""The rules of metrics."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from unlearnbench.metrics.base import Metric
from unlearnbench.testing.graphs import ONE_CLASS, PLAIN, Toy
from unlearnbench.testing.rules.base import Case, Fault, Rule
from unlearnbench.testing.rules.purity import difference, reproducible


def _predictions(case: Case, toy: Toy) -> tuple[Tensor, Tensor]:
    """Make up labels [n] and log-probabilities [n, C], mostly of the right class."""
    num_classes = case.spec.cls.num_classes or toy.whole.num_classes
    labels = toy.whole.y % num_classes
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(len(labels), num_classes, generator=rng)
    scores[torch.arange(len(labels)), labels] += 1
    return labels.clone(), torch.log_softmax(scores, dim=1)


def _score(case: Case, labels: Tensor, log_probabilities: Tensor) -> float:
    metric: Metric = case.build()
    return float(metric.score(labels, log_probabilities))


def _gives_a_number(case: Case, toy: Toy) -> Iterator[Fault]:
    labels, log_probabilities = _predictions(case, toy)
    settings = {"some nodes": len(labels), "a single node": 1, "nodes of one class": 4}
    for what, count in settings.items():
        some = labels[:1].expand(count) if "class" in what else labels[:count]
        metric: Metric = case.build()
        value = metric.score(some.clone(), log_probabilities[:count].clone())
        try:
            number = float(value)  # as a run does: a tensor or an array of one number will do
        except (TypeError, ValueError, RuntimeError):
            yield Fault(f"score() of {what} gave {type(value).__name__} {value!r}.", "Return one number: float(...).")
            continue
        if case.spec.cls.needs_all_classes and len(some.unique()) < log_probabilities.shape[1]:
            if not math.isnan(number):
                yield Fault(f"score() of {what} gave {number}.", "Return NaN: the class declares it undefined.")
        elif not math.isfinite(number):
            yield Fault(f"score() of {what} gave {number}.", "Define it where a class does not occur.")


def _does_not_hide_nan(case: Case, toy: Toy) -> Iterator[Fault]:
    labels, log_probabilities = _predictions(case, toy)
    log_probabilities[0] = torch.nan
    try:
        value = _score(case, labels, log_probabilities)
    except Exception:  # refusing is right, too: the record has a note
        return
    if math.isfinite(value):
        yield Fault(
            f"Predictions with NaN are scored {value:g}.",
            "Return NaN if a prediction is NaN: a model that diverged has no score.",
        )


def _ignores_the_order(case: Case, toy: Toy) -> Iterator[Fault]:
    labels, log_probabilities = _predictions(case, toy)
    one, other = _score(case, labels, log_probabilities), _score(case, labels.flip(0), log_probabilities.flip(0))
    if not math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6):
        yield Fault(
            f"Nodes in another order are scored {other:g} instead of {one:g}.",
            "A score must not depend on the order of nodes.",
        )


def _score_of_toy(case: Case, toy: Toy) -> float:
    return _score(case, *_predictions(case, toy))


def _difference(one: float, other: float) -> str:
    return "" if one == other else f"{one:g} and {other:g}"


def _leaves_inputs_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    arguments = dict(zip(("labels", "log_probabilities"), _predictions(case, toy), strict=True))
    before = {name: value.clone() for name, value in arguments.items()}
    _score(case, *arguments.values())
    if differs := difference(before, arguments):
        yield Fault(
            f"score() changed its arguments: {differs}.", "The next metric gets the same tensors: clone() first."
        )


RULES = (
    Rule(
        "a-number",
        "score() returns one finite number, for a single node and for one class, too",
        _gives_a_number,
        (PLAIN, ONE_CLASS),
    ),
    Rule("nan", "predictions that are NaN are not scored as if they were valid", _does_not_hide_nan),
    Rule("any-order", "the order of nodes makes no difference", _ignores_the_order),
    *reproducible(
        "the same predictions give the same score",
        _score_of_toy,
        _difference,
        "The same predictions are scored {}.",
        "Use labels and predictions alone.",
    ),
    Rule("inputs-unchanged", "labels and predictions stay as they were", _leaves_inputs_alone),
)
