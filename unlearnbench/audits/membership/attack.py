"""Scores of the attacks on membership, and how much they reveal: area, rates, and a bound on epsilon."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import torch
from scipy.stats import beta
from scipy.stats import t as student
from torch import Tensor

from unlearnbench.audits.leakage.attack import CONFIDENCE, Rate, area, area_error, interval, rate_at
from unlearnbench.audits.membership.shadows import NEAR, OWN, Confidences

NODE, GRAPH, POPULATION = "node", "node and neighbours", "population (weak)"
ATTACKERS = (NODE, GRAPH, POPULATION)
RATES = (0.01, 0.001)
# The false positive rate at which the attacker of `epsilon_bound` guesses.
GUESSING = 0.01
# A pipeline that always predicts the same would have a density without bound.
_LEAST_VARIANCE = 1e-6


@dataclass(frozen=True)
class Attacked:
    """What an attacker learns about the nodes of a request.

    Args:
        area: Area under the ROC curve, over all pairs of a node and a pipeline.
        error: Its standard error.
        rates: True positive rates by false positive rate; without the rates that too few rows can show.
        epsilon: The bound below epsilon, at 95 % confidence.
        guesses: How many guesses it rests on, and how many are right.
    """

    area: float
    error: float
    rates: Mapping[float, Rate]
    epsilon: float
    guesses: tuple[int, int]

    @property
    def interval(self) -> tuple[float, float]:
        """The normal 95 % interval of the area."""
        return interval(self.area, self.error)


def attack(confidences: Confidences, present: Tensor) -> dict[str, Attacked]:
    """Attack every node in every pipeline.

    Args:
        confidences: float64 [W, m], by what the attacker sees.
        present: bool [W, m], which pipelines were trained with which nodes.

    Returns:
        What each attacker learns.
    """
    half = len(present) // 2
    result = {}
    for attacker in ATTACKERS:
        scores = attack_scores(attacker, confidences, present)
        fixed = attack_scores(attacker, confidences, present, half)
        guessing = threshold(scores_of_first(attacker, confidences, present, half), present[:half], GUESSING)
        guessed = fixed[half:] > guessing
        # Confidence as it is differs between nodes: only where all are present equally often does that cancel.
        rows = slice(half if attacker == POPULATION else None)
        right = int((guessed & present[half:]).sum())
        result[attacker] = measured(scores[rows], present[rows], int(guessed.sum()), right)
    return result


def attack_scores(attacker: str, confidences: Confidences, present: Tensor, references: int | None = None) -> Tensor:
    """Return how much speaks for each node's presence in each pipeline, float64 [W, m].

    Args:
        attacker: `node` sees a node's own prediction, `node and neighbours` those of its retained neighbours too;
            `population (weak)` has no shadows and takes the confidence as it is.
        confidences: float64 [W, m], by what is seen.
        present: bool [W, m].
        references: Number of first pipelines that serve as shadows; default: of each pipeline, all others.
    """
    if attacker == POPULATION:
        return confidences[OWN]
    seen = (OWN,) if attacker == NODE else (OWN, NEAR)
    return torch.stack([log_ratios(confidences[what], present, references) for what in seen]).sum(dim=0)


def scores_of_first(attacker: str, confidences: Confidences, present: Tensor, count: int) -> Tensor:
    """Return the scores of the first pipelines where no other is known, float64 [count, m]."""
    return attack_scores(attacker, {what: values[:count] for what, values in confidences.items()}, present[:count])


def log_ratios(values: Tensor, present: Tensor, references: int | None = None) -> Tensor:
    """Return the log-likelihood ratio of each value under the distributions with the node and without.

    LiRA (Carlini et al., S&P 2022, equation 4): both are normal, with means and variances of each node. As these are
    estimated from few references, the density of the next value is Student's t, whose tails keep a poor estimate
    from looking certain. Its shape is that of the side with fewer pipelines: numbers alone shall favour no side.

    Args:
        values: float64 [W, m].
        present: bool [W, m].
        references: Number of first pipelines that the normals are fitted on; default: for each pipeline all others.
            On each side every node needs at least two references.

    Returns:
        float64 [W, m].
    """
    centred = values - values.mean(dim=0)
    known = present[:references]
    fewest = torch.minimum(known.sum(dim=0), (~known).sum(dim=0)).double()

    def log_density(side: Tensor) -> Tensor:
        used = side.double()
        own = used if references is None else torch.zeros_like(used)
        count, total, squares = (
            (used[:references] * centred[:references] ** power).sum(dim=0) - own * centred**power for power in range(3)
        )
        mean = total / count
        variance = ((squares - count * mean**2) / (count - 1)).clamp(min=_LEAST_VARIANCE)
        scale = (variance * (1 + 1 / fewest)).sqrt()
        return torch.from_numpy(student.logpdf(centred.numpy(), (fewest - 1).numpy(), mean.numpy(), scale.numpy()))

    return log_density(present) - log_density(~present)


def measured(scores: Tensor, present: Tensor, guesses: int, right: int) -> Attacked:
    """Measure scores, float64 [W, m], against the truth, and how much some guesses prove."""
    rows, truth = scores.flatten(), present.flatten()
    node = torch.arange(scores.shape[1]).expand_as(scores).flatten()
    pipeline = torch.arange(len(scores))[:, None].expand_as(scores).flatten()
    others = int((~truth).sum())
    rates = {}
    for rate in RATES:
        if others * rate >= 1:
            rates[rate] = rate_at(rows, truth, rate)
    error = area_error(rows, truth, node, pipeline)
    return Attacked(area(rows, truth), error, rates, epsilon_bound(guesses, right), (guesses, right))


def threshold(scores: Tensor, present: Tensor, rate: float) -> float:
    """Return the score that a share `rate` of the rows without the node exceeds, rounded down."""
    others = scores[~present].sort(descending=True).values
    return float(others[int(rate * len(others))])


def epsilon_bound(guesses: int, right: int) -> float:
    """Return a lower bound on epsilon at 95 % confidence from guesses about independent fair coins.

    If presence changed the distribution of what is seen by no more than a factor of e^epsilon, the number of right
    guesses would be at most a binomial one with the probability e^epsilon / (1 + e^epsilon), in one run as in many
    (Steinke, Nasr and Jagielski, Privacy Auditing with One (1) Training Run, NeurIPS 2023; delta is 0).
    """
    if right == 0:
        return 0.0
    share = float(beta.ppf(1 - CONFIDENCE, right, guesses - right + 1))
    return max(0.0, math.log(share / (1 - share)))
