"""Scores the stored predictions of a cell with every metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor

from unlearnbench.component import Spec
from unlearnbench.metrics.base import Metric
from unlearnbench.metrics.wording import FAILED, ONE_CLASS

Scores = dict[str, dict[str, dict[str, float | None]]]


def score(
    answers: Mapping[tuple[str, str, str], Tensor], labels: Mapping[str, Tensor], metrics: Sequence[Spec]
) -> tuple[Scores, list[str]]:
    """Score predictions by moment, part and view.

    Args:
        answers: (`before`, `after`, ..., `test` or `val`, view) to log-probabilities [n, C].
        labels: `test` and `val` to int64 [n].
        metrics: The metrics.

    Returns:
        Metric (prefixed `val_` for validation nodes), view and moment to the score, None without validation
        nodes, without metrics that are not defined for this number of classes; and a note for each metric that
        failed and is left out, and where there are no validation nodes.
    """
    scores: Scores = {}
    has_validation = len(labels["val"]) > 0
    notes = [] if has_validation else ["There are no validation nodes: validation scores are empty."]
    for spec in metrics:
        scores_of_metric: Scores = {}
        try:
            metric: Metric = spec.build()
            for (moment, part, view), answer in answers.items():
                if metric.num_classes not in (None, answer.shape[1]):
                    continue
                name = spec.name if part == "test" else f"{part}_{spec.name}"
                # Copies: a metric that works in place must not change what the next one is given.
                value = float(metric.score(labels[part].clone(), answer.cpu().clone()))
                scores_of_metric.setdefault(name, {}).setdefault(view, {})[moment] = value
        # A plugin's metric may fail in any way; the other scores must not be lost.
        except (Exception, SystemExit) as error:
            notes.append(f"{FAILED} {spec.name} failed and is left out: {type(error).__name__}: {error}")
        else:
            if not has_validation and spec.name in scores_of_metric:
                views = scores_of_metric[spec.name].items()
                scores_of_metric[f"val_{spec.name}"] = {view: dict.fromkeys(moments) for view, moments in views}
            scores |= scores_of_metric
    return scores, notes


def class_accuracies(
    answers: Mapping[tuple[str, str, str], Tensor], labels: Mapping[str, Tensor], affected: Sequence[int]
) -> Scores:
    """Score nodes of manipulated classes apart from all others.

    Args:
        answers: As for `score`.
        labels: As for `score`.
        affected: The classes between which labels or edges were manipulated.

    Returns:
        `accuracy_affected` and `accuracy_remaining`, as `score` returns a metric; None where there are no such nodes.
    """
    scores: Scores = {}
    for (moment, part, view), answer in answers.items():
        inside = torch.isin(labels[part], torch.tensor(affected))
        is_right = answer.cpu().argmax(dim=1) == labels[part]
        for name, nodes in (("accuracy_affected", inside), ("accuracy_remaining", ~inside)):
            value = float(is_right[nodes].double().mean()) if bool(nodes.any()) else None
            name = name if part == "test" else f"{part}_{name}"
            scores.setdefault(name, {}).setdefault(view, {})[moment] = value
    return scores


def one_class_notes(answers: Mapping[tuple[str, str, str], Tensor], labels: Mapping[str, Tensor]) -> list[str]:
    """Report views in which all test nodes are predicted as one class after the request, though they have several."""
    if len(labels["test"].unique()) < 2:
        return []
    predicted = {
        view: answer.argmax(dim=1).unique()
        for (moment, part, view), answer in answers.items()
        if (moment, part) == ("after", "test")
    }
    return [
        f"{ONE_CLASS} every test node is predicted as class {int(classes)} in view {view}."
        for view, classes in predicted.items()
        if len(classes) == 1
    ]
