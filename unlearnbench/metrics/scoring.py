"""Scores the stored predictions of a cell with every metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from torch import Tensor

from unlearnbench.component import Spec
from unlearnbench.metrics.base import Metric

Scores = dict[str, dict[str, dict[str, float | None]]]


def score(
    answers: Mapping[tuple[str, str, str], Tensor], labels: Mapping[str, Tensor], metrics: Sequence[Spec]
) -> tuple[Scores, list[str]]:
    """Score predictions by moment, part and view.

    Args:
        answers: (`before` or `after`, `test` or `val`, view) to log-probabilities [n, C].
        labels: `test` and `val` to int64 [n].
        metrics: The metrics.

    Returns:
        Metric (prefixed `val_` for validation nodes), view and moment to the score, None without validation
        nodes; and a note on that, and for each metric that failed and is left out.
    """
    scores: Scores = {}
    has_validation = len(labels["val"]) > 0
    notes = [] if has_validation else ["There are no validation nodes: validation scores are empty."]
    for spec in metrics:
        scores_of_metric: Scores = {}
        try:
            metric: Metric = spec.build()
            for (moment, part, view), answer in answers.items():
                name = spec.name if part == "test" else f"{part}_{spec.name}"
                # Copies: a metric that works in place must not change what the next one is given.
                value = float(metric.score(labels[part].clone(), answer.cpu().clone()))
                scores_of_metric.setdefault(name, {}).setdefault(view, {})[moment] = value
        # A plugin's metric may fail in any way; the other scores must not be lost.
        except (Exception, SystemExit) as error:
            notes.append(f"The metric {spec.name} failed and is left out: {type(error).__name__}: {error}")
        else:
            if not has_validation:
                views = scores_of_metric.get(spec.name, {}).items()
                scores_of_metric[f"val_{spec.name}"] = {view: dict.fromkeys(moments) for view, moments in views}
            scores |= scores_of_metric
    return scores, notes
