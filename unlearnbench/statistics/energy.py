"""Energy tests: whether two groups of runs differ in distribution, from their pairwise distances alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from unlearnbench.errors import UsageError

Floats = NDArray[np.float64]
Indices = NDArray[np.int64]
# Sums of the same distances in another order differ by rounding; they count as equal.
_ROUNDING = 1e-12


@dataclass(frozen=True)
class Energy:
    """An energy statistic and its terms, in the unit of the distances; `reason`: why they are None, or empty.

    The statistic is 2 across - first - second, about 0 where both sides have one distribution:
    mean distances between runs of both sides, between different runs of the first, and of the
    second, which is the floor if its runs are retrainings.
    """

    statistic: float | None = None
    across: float | None = None
    first: float | None = None
    second: float | None = None
    reason: str = ""


@dataclass(frozen=True)
class Permutation:
    """A permutation test of an energy statistic: p = (1 + relabellings at least as extreme) / (1 + relabellings).

    `exact`: whether all other labellings that exist were evaluated; `reason`: why p is None, or empty.
    """

    energy: Energy
    p: float | None = None
    relabellings: int = 0
    exact: bool = False
    reason: str = ""


def energy_statistic(
    distance_matrix: ArrayLike, labels: ArrayLike, leave_out: NDArray[np.bool_] | None = None
) -> Energy:
    """Compare two groups of runs: 2 E m(A,G) - E m(A,A') - E m(G,G').

    Székely and Rizzo, Energy statistics, Journal of Statistical Planning and Inference 143, 2013;
    means over pairs of different runs (the U-statistic, so it may fall below 0).

    Args:
        distance_matrix: [n, n], symmetric; the diagonal is ignored.
        labels: n values: 0 for the first side (A), 1 for the second (G).
        leave_out: [n, n], symmetric; true for pairs to ignore, such as runs of equal seeds.

    Raises:
        UsageError: Shapes or labels do not fit.
    """
    distances, used = _checked(distance_matrix, leave_out)
    sides = np.asarray(labels)
    if sides.shape != (len(distances),) or not np.isin(sides, (0, 1)).all():
        raise UsageError(f"{sides.size} labels for {len(distances)} runs.", "One label a run is needed, 0 or 1.")
    if not np.isfinite(distances[used]).all():
        return Energy(reason="a distance is not a finite number")
    means = _means(distances, used, (sides == 0)[None])[:, 0]
    if np.isnan(means).any():
        return Energy(reason="a side, or the space between the sides, has no pair of runs")
    across, first, second = (float(value) for value in means)
    return Energy(2 * across - first - second, across, first, second)


def permutation_test(
    distance_matrix: ArrayLike,
    sizes: tuple[int, int],
    generator: np.random.Generator,
    permutations: int = 9999,
    leave_out: NDArray[np.bool_] | None = None,
) -> Permutation:
    """Test whether two groups of runs have one distribution, by exchanging the labels of runs.

    All relabellings are evaluated if there are no more than `permutations` others. The test is
    exact where all runs are independent. Pairs left out are left out under every relabelling; a
    relabelling that leaves a side without a pair does not count.

    Args:
        distance_matrix: [n, n], symmetric; the runs of the first side come first.
        sizes: Runs of the first and of the second side.
        generator: Draws relabellings; unused where all are evaluated.
        permutations: How many are drawn.
        leave_out: See `energy_statistic`.

    Raises:
        UsageError: Shapes or sizes do not fit.
    """
    distances, used = _checked(distance_matrix, leave_out)
    first, second = sizes
    if min(sizes) < 1 or first + second != len(distances) or permutations < 1:
        raise UsageError(
            f"{first} and {second} runs, {len(distances)} distances a run, {permutations} permutations.",
            "Both sides need a run, together as many as the matrix has rows; one permutation or more.",
        )
    labels = np.repeat((0, 1), sizes)
    energy = energy_statistic(distances, labels, leave_out)
    if energy.statistic is None:
        return Permutation(energy, reason=energy.reason)
    exact = math.comb(len(distances), first) - 1 <= permutations
    if exact:
        sides = _all_sides(len(distances), first)
    else:
        sides = generator.permuted(np.tile(labels == 0, (permutations, 1)), axis=1)
    across, within, others = _means(distances, used, sides)
    statistics = 2 * across - within - others
    statistics = statistics[~np.isnan(statistics)]
    scale = float(np.abs(distances[used]).max())
    extreme = int((statistics >= energy.statistic - _ROUNDING * scale).sum())
    return Permutation(energy, (1 + extreme) / (1 + len(statistics)), len(statistics), exact)


def _checked(distance_matrix: ArrayLike, leave_out: NDArray[np.bool_] | None) -> tuple[Floats, NDArray[np.bool_]]:
    """Return the distances and which pairs count."""
    distances = np.asarray(distance_matrix, dtype=np.float64)
    n = len(distances) if distances.ndim == 2 else 0
    if distances.shape != (n, n) or not np.allclose(distances, distances.T, rtol=1e-9, equal_nan=True):
        raise UsageError(f"Distances of shape {distances.shape}.", "A symmetric matrix is needed: shape [n, n].")
    used = ~np.eye(n, dtype=bool)
    if leave_out is not None:
        left = np.asarray(leave_out, dtype=bool)
        if left.shape != (n, n) or not np.array_equal(left, left.T):
            raise UsageError(f"A mask of pairs of shape {left.shape}.", f"It is symmetric, of shape [{n}, {n}].")
        used &= ~left
    return distances, used


def _means(distances: Floats, used: NDArray[np.bool_], sides: NDArray[np.bool_]) -> Floats:
    """Average across, within the first and within the second side of k labellings: [3, k], nan where there is no pair.

    `used` [n, n] is true for the pairs that count, `sides` [k, n] for the runs of the first side.
    """
    counts = used.astype(np.float64)
    weighed = np.where(used, distances, 0.0)
    first = sides.astype(np.float64)
    pairs = ((first, 1 - first), (first, first), (1 - first, 1 - first))
    means = np.full((3, len(sides)), np.nan)
    for row, (left, right) in zip(means, pairs, strict=True):
        sums, numbers = (np.einsum("kn,kn->k", left @ matrix, right) for matrix in (weighed, counts))
        np.divide(sums, numbers, out=row, where=numbers > 0)
    return means


def _all_sides(n: int, first: int) -> NDArray[np.bool_]:
    """Return every choice of the first side except the actual one, which comes first."""
    chosen = list(combinations(range(n), first))[1:]
    sides = np.zeros((len(chosen), n), dtype=bool)
    for row, members in zip(sides, chosen, strict=True):
        row[list(members)] = True
    return sides


def distances(probabilities: Floats) -> Floats:
    """Return the distances between runs: the root of the mean Jensen-Shannon divergence over nodes.

    The root is a metric of negative type, so that the energy statistic is zero for equal
    distributions alone.

    Args:
        probabilities: [R, n, C], predicted by R runs for n nodes.

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


def energy(matrix: Floats, one: Indices, other: Indices) -> float:
    """Return the energy statistic of two sets of runs, at least two each, given by indices into all runs."""
    statistic = energy_statistic(block(matrix, one, other), np.repeat((0, 1), (len(one), len(other)))).statistic
    assert statistic is not None
    return statistic


def differ_p(matrix: Floats, one: Indices, other: Indices, permutations: int, rng: np.random.Generator) -> float:
    """Return the p-value of the hypothesis that both sets have one distribution, by permuting run labels."""
    p = permutation_test(block(matrix, one, other), (len(one), len(other)), rng, permutations).p
    assert p is not None
    return p


def nearer_p(
    matrix: Floats, one: Indices, other: Indices, target: Indices, permutations: int, rng: np.random.Generator
) -> float:
    """Return the p-value of the hypothesis that `one` is no nearer to `target` than `other` is.

    Runs of `one` and `other` that have the same seed belong together: a permutation exchanges
    some of these pairs. Two runs with one seed are never compared.

    Args:
        matrix: [n, n], distances of all runs.
        one: Indices of the runs that the alternative holds to be nearer.
        other: Indices of the runs with the same seeds, in the same order.
        target: Indices of the runs to which the distance is taken.
        permutations: How many are drawn.
        rng: Draws them.
    """
    observed = energy(matrix, other, target) - energy(matrix, one, target)
    larger = 0
    for _ in range(permutations):
        swap = rng.random(len(one)) < 0.5
        left, right = np.where(swap, other, one), np.where(swap, one, other)
        swapped = energy(matrix, right, target) - energy(matrix, left, target)
        larger += swapped >= observed - _ROUNDING * matrix.max()
    return (larger + 1) / (permutations + 1)


def block(matrix: Floats, one: Indices, other: Indices) -> Floats:
    """Return the distances among the runs of two sets."""
    both = np.concatenate([one, other])
    among: Floats = matrix[np.ix_(both, both)]
    return among


def _entropy(probabilities: Floats) -> Floats:
    logarithm = np.log(probabilities, out=np.zeros_like(probabilities), where=probabilities > 0)
    entropy: Floats = -(probabilities * logarithm).sum(axis=-1)
    return entropy
