"""What a metric must keep to."""

from __future__ import annotations

import math
from collections.abc import Iterator

import torch
from torch import Tensor

from unlearnbench.metrics.base import Metric
from unlearnbench.testing.graphs import ONE_CLASS, PLAIN, Toy
from unlearnbench.testing.rules.base import UNEQUAL, Case, Fault, Rule
from unlearnbench.testing.rules.purity import check_chance, difference, same_chance


def _predictions(toy: Toy) -> tuple[Tensor, Tensor]:
    """Make up labels [n] and log-probabilities [n, C], most of them right."""
    labels = toy.whole.y
    rng = torch.Generator().manual_seed(0)
    scores = torch.randn(len(labels), toy.whole.num_classes, generator=rng)
    scores[torch.arange(len(labels)), labels] += 1
    return labels.clone(), torch.log_softmax(scores, dim=1)


def _score(case: Case, labels: Tensor, said: Tensor) -> float:
    metric: Metric = case.build()
    return float(metric.score(labels, said))


def _gives_a_number(case: Case, toy: Toy) -> Iterator[Fault]:
    labels, said = _predictions(toy)
    settings = {"some nodes": len(labels), "a single node": 1, "nodes of one class": 4}
    for what, count in settings.items():
        some = labels[:1].expand(count) if "class" in what else labels[:count]
        metric: Metric = case.build()
        value = metric.score(some.clone(), said[:count].clone())
        if (isinstance(value, Tensor) and value.numel() != 1) or not isinstance(value, Tensor | int | float):
            yield Fault(f"score() of {what} gave {type(value).__name__} {value!r}.", "Give one number: float(...).")
        elif not math.isfinite(float(value)):
            yield Fault(f"score() of {what} gave {float(value)}.", "Say what it is where a class does not occur.")


def _does_not_hide_nan(case: Case, toy: Toy) -> Iterator[Fault]:
    labels, said = _predictions(toy)
    said[0] = torch.nan
    try:
        value = _score(case, labels, said)
    except Exception:  # to refuse is right, too: the record has a note
        return
    if math.isfinite(value):
        yield Fault(
            f"Predictions with NaN are scored {value:g}.",
            "Give NaN where a prediction is: a model that diverged has no score.",
        )


def _ignores_the_order(case: Case, toy: Toy) -> Iterator[Fault]:
    labels, said = _predictions(toy)
    one, other = _score(case, labels, said), _score(case, labels.flip(0), said.flip(0))
    if not math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-6):
        yield Fault(
            f"Nodes in another order are scored {other:g} instead of {one:g}.", "A score is one of a set of nodes."
        )


def _gives_the_same_answer(case: Case, toy: Toy) -> Iterator[Fault]:
    labels, said = _predictions(toy)
    values = []
    for _ in range(2):
        with same_chance(0):
            values.append(_score(case, labels.clone(), said.clone()))
    if values[0] != values[1]:
        case.memory[UNEQUAL] = True
        yield Fault(
            f"The same predictions are scored {values[0]:g} and {values[1]:g}.", "Use labels and predictions alone."
        )


def _leaves_chance_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    def run(seed: int) -> tuple[float, list[str]]:
        with same_chance(seed) as used:
            value = _score(case, *_predictions(toy))
        return value, used

    yield from check_chance(case, run, lambda one, other: "" if one == other else f"{one:g} and {other:g}")


def _leaves_inputs_alone(case: Case, toy: Toy) -> Iterator[Fault]:
    told = dict(zip(("labels", "log_probabilities"), _predictions(toy), strict=True))
    before = {name: value.clone() for name, value in told.items()}
    _score(case, *told.values())
    differs = difference(before, told)
    if differs:
        yield Fault(
            f"score() changed its arguments: {differs}.", "The next metric gets the same tensors: clone() first."
        )


RULES = (
    Rule(
        "a-number",
        "score() gives one finite number, of a single node and of one class, too",
        _gives_a_number,
        (PLAIN, ONE_CLASS),
    ),
    Rule("nan", "predictions that are NaN are not scored as if they were none", _does_not_hide_nan),
    Rule("any-order", "the order of nodes makes no difference", _ignores_the_order),
    Rule("same-answer", "the same predictions give the same score", _gives_the_same_answer),
    Rule("own-chance", "the global random generators are neither read nor changed", _leaves_chance_alone),
    Rule("inputs-unchanged", "labels and predictions stay as they were", _leaves_inputs_alone),
)
