"""Are two sets of runs draws of one distribution? And which of two lies nearer to a third?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Numbers = NDArray[np.float64]
Places = NDArray[np.int64]


def distances(probabilities: Numbers) -> Numbers:
    """Measure how far runs are apart: the root of the mean Jensen-Shannon divergence over nodes.

    The root is a metric of negative type, so that the energy statistic is zero for equal
    distributions alone.

    Args:
        probabilities: [R, n, C]: of R runs, for n nodes.

    Returns:
        [R, R], roots of nats, symmetric, zero on the diagonal.
    """
    entropy = _entropy(probabilities)
    result = np.zeros((len(probabilities), len(probabilities)))
    for one in range(len(probabilities)):
        middle = _entropy((probabilities[one] + probabilities[one:]) / 2)
        divergence = middle - (entropy[one] + entropy[one:]) / 2
        result[one, one:] = result[one:, one] = np.sqrt(np.clip(divergence.mean(axis=1), 0, None))
    np.fill_diagonal(result, 0)
    return result


def energy(matrix: Numbers, one: Places, other: Places) -> float:
    """Compute 2 E d(A, G) - E d(A, A') - E d(G, G'), of different runs (Szekely and Rizzo, 2013).

    Args:
        matrix: Distances of all runs.
        one: Places of A's runs, at least two.
        other: Places of G's.
    """
    return float(2 * matrix[np.ix_(one, other)].mean() - _within(matrix, one) - _within(matrix, other))


def differ_p(matrix: Numbers, one: Places, other: Places, permutations: int, chance: np.random.Generator) -> float:
    """Give the p of the hypothesis that both sets are draws of one distribution, by permuting run labels."""
    pooled = np.concatenate([one, other])
    seen = energy(matrix, one, other)
    larger = 0
    for _ in range(permutations):
        shuffled = chance.permutation(pooled)
        larger += energy(matrix, shuffled[: len(one)], shuffled[len(one) :]) >= seen
    return (larger + 1) / (permutations + 1)


def nearer_p(
    matrix: Numbers, one: Places, other: Places, target: Places, permutations: int, chance: np.random.Generator
) -> float:
    """Give the p of the hypothesis that `one` is no nearer to `target` than `other` is.

    Runs of `one` and `other` that have the same seed belong together: a permutation exchanges
    some of these pairs. Two runs with one seed are never compared.

    Args:
        matrix: Distances of all runs.
        one: Places of the runs that are said to be nearer.
        other: Places of the runs with the same seeds, in the same order.
        target: Places of the runs they are near to.
        permutations: How many.
        chance: Where permutations come from.
    """
    seen = energy(matrix, other, target) - energy(matrix, one, target)
    larger = 0
    for _ in range(permutations):
        swap = chance.random(len(one)) < 0.5
        left, right = np.where(swap, other, one), np.where(swap, one, other)
        larger += energy(matrix, right, target) - energy(matrix, left, target) >= seen
    return (larger + 1) / (permutations + 1)


def _within(matrix: Numbers, places: Places) -> float:
    count = len(places)
    return float(matrix[np.ix_(places, places)].sum() / (count * (count - 1)))


def _entropy(probabilities: Numbers) -> Numbers:
    logarithm = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    entropy: Numbers = -(probabilities * logarithm).sum(axis=-1)
    return entropy
