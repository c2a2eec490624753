"""Are two sets of runs draws of one distribution? And which of two lies nearer to a third?"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from unlearnbench.statistics.energy import energy_statistic, permutation_test

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
    """Give the energy statistic of two sets of runs.

    Args:
        matrix: Distances of all runs.
        one: Places of A's runs, at least two.
        other: Places of G's.
    """
    sides, labels = _sides(matrix, one, other)
    statistic = energy_statistic(sides, labels).statistic
    assert statistic is not None
    return statistic


def differ_p(matrix: Numbers, one: Places, other: Places, permutations: int, chance: np.random.Generator) -> float:
    """Give the p of the hypothesis that both sets are draws of one distribution, by permuting run labels."""
    sides, _ = _sides(matrix, one, other)
    p = permutation_test(sides, (len(one), len(other)), chance, permutations).p
    assert p is not None
    return p


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
        # Sums of the same distances in another order differ by rounding; they count as equal.
        larger += energy(matrix, right, target) - energy(matrix, left, target) >= seen - 1e-12 * matrix.max()
    return (larger + 1) / (permutations + 1)


def _sides(matrix: Numbers, one: Places, other: Places) -> tuple[Numbers, list[int]]:
    both = np.concatenate([one, other])
    return matrix[np.ix_(both, both)], [0] * len(one) + [1] * len(other)


def _entropy(probabilities: Numbers) -> Numbers:
    logarithm = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    entropy: Numbers = -(probabilities * logarithm).sum(axis=-1)
    return entropy
