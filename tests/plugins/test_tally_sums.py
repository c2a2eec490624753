"""Tally's whole numbers: rows that are the same in any batch, and sums that are the same in any order."""

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench import UsageError
from unlearnbench.graph.sparse_features import compressed
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench_tally.features import make_features
from unlearnbench_tally.sums import Sums, class_weights
from unlearnbench_tally.whole import LARGEST, check_bound, unit_rows, unit_sparse_rows

CPU = torch.device("cpu")


def drawn(n, width=6, num_classes=3, bits=12, seed=0):
    rng = torch.Generator().manual_seed(seed)
    rows = unit_rows(torch.randn(n, width, generator=rng), bits).to(torch.int16)
    return rows, torch.randint(num_classes, (n,), generator=rng)


def summed(rows, labels, bits=12, by_class=False):
    sums = Sums(rows.shape[1], 3, bits, by_class, CPU)
    sums.add(rows, labels)
    return sums


def test_unit_rows_by_hand():
    # (3, 4) has length 5: 16 * .6 = 9.6 and 16 * .8 = 12.8.
    got = unit_rows(torch.tensor([[3.0, -4.0], [0.0, 0.0], [1e-30, 0.0]]), bits=4)
    assert got.tolist() == [[10.0, -13.0], [0.0, 0.0], [16.0, 0.0]]


@given(st.integers(1, 40), st.integers(1, 300), st.sampled_from([4, 12, 20]), st.integers(0, 99))
@settings(deadline=None, max_examples=50)
def test_a_row_is_the_same_alone_in_a_batch_and_sparse(n, width, bits, seed):
    rng = torch.Generator().manual_seed(seed)
    x = torch.randn(n, width, generator=rng) * (torch.rand(n, width, generator=rng) < 0.3)
    together = unit_rows(x, bits)
    assert torch.equal(together, torch.cat([unit_rows(x[i : i + 1].clone(), bits) for i in range(n)]))
    assert torch.equal(together, unit_sparse_rows(compressed(x), bits).dense())
    assert together.abs().max() <= 2**bits
    assert torch.equal(together, together.round())


@pytest.mark.parametrize("random", ["none", "projection", "relu", "fourier"])
def test_features_of_a_node_depend_on_the_node_alone(random):
    graph = toy_graph(num_nodes=50, num_features=40)
    graph.x[torch.rand(graph.x.shape, generator=torch.Generator().manual_seed(1)) < 0.9] = 0
    features = make_features(toy_task(graph), 12, random, 17, 0.7)
    every = features.dense(graph)
    for at in ([3], [0, 1], list(range(49, -1, -1))):
        some = graph.induced(graph.ids[at])
        assert torch.equal(features.dense(some), every[at])
        assert torch.equal(features.dense(graph, torch.tensor(at)), every[at])
    dense = graph.with_edges(graph.edge_index)
    dense.__dict__["sparse_rows"] = None
    assert graph.sparse_rows is not None
    assert torch.equal(features.dense(dense), every)


def test_fourier_features_approximate_a_gaussian_kernel():
    graph = toy_graph(num_nodes=20)
    features = make_features(toy_task(graph), 12, "fourier", 20_000, 0.8)
    unit = torch.nn.functional.normalize(graph.x).double()
    wanted = torch.exp(-torch.cdist(unit, unit).square() / (2 * 0.8**2))
    rows = features.dense(graph) / 2**12
    torch.testing.assert_close(rows @ rows.T, wanted, atol=0.04, rtol=0)


def test_sums_by_hand():
    rows, labels = torch.tensor([[1, 2], [3, -1]], dtype=torch.int16), torch.tensor([0, 2])
    sums = summed(rows, labels, bits=4)
    assert sums.count == 2
    # Columns: two of rows, one of ones, three of labels.
    assert sums.matrices[0].tolist() == [
        [10, -1, 4, 1, 0, 3],
        [-1, 5, 1, 2, 0, -1],
        [4, 1, 2, 1, 0, 1],
        [1, 2, 1, 1, 0, 0],
        [0, 0, 0, 0, 0, 0],
        [3, -1, 1, 0, 0, 1],
    ]


@given(st.data())
@settings(deadline=None, max_examples=60)
def test_sums_are_those_of_what_is_left_in_any_order(data):
    n, bits = data.draw(st.integers(1, 60)), data.draw(st.sampled_from([4, 12, 20]))
    rows, labels = drawn(n, bits=min(bits, 14), seed=data.draw(st.integers(0, 99)))
    by_class = data.draw(st.booleans())
    gone = data.draw(st.lists(st.integers(0, n - 1), unique=True))
    order = torch.tensor(data.draw(st.permutations(range(n))))
    sums = summed(rows[order], labels[order], bits, by_class)
    while gone:  # in pieces of any size
        size = data.draw(st.integers(1, len(gone)))
        piece = torch.tensor(gone[:size])
        gone = gone[size:]
        sums.add(rows[piece], labels[piece], -1)
        order = order[~torch.isin(order, piece)]
    left = order.sort().values
    assert torch.equal(sums.matrices, summed(rows[left], labels[left], bits, by_class).matrices)
    # A slow reference in Python's own whole numbers.
    joined = [[*map(int, rows[i]), 1, *(int(labels[i] == label) for label in range(3))] for i in left.tolist()]
    exact = [[sum(row[j] * row[k] for row in joined) for k in range(10)] for j in range(10)]
    assert sums.matrices.sum(dim=0).tolist() == exact


def test_the_bound_is_sharp():
    largest = LARGEST >> 24
    check_bound(largest, 12)
    with pytest.raises(UsageError) as caught:
        check_bound(largest + 1, 12)
    assert caught.value.hint == "Set `bits` to 11 or less."
    check_bound(largest + 1, 11)
    # One more than the largest sum can no longer be counted.
    assert torch.tensor(float(LARGEST), dtype=torch.float64) + 1 == LARGEST


def test_a_sum_that_may_not_be_exact_is_refused_before_it_is_taken(monkeypatch):
    monkeypatch.setattr("unlearnbench_tally.whole.LARGEST", 5 * 4**12)
    rows, labels = drawn(6)
    sums = summed(rows[:5], labels[:5])
    before = sums.matrices.clone()
    with pytest.raises(UsageError, match="Sums over 6 nodes"):
        sums.add(rows[5:], labels[5:])
    assert torch.equal(sums.matrices, before)


def test_balanced_classes_have_equal_totals():
    weights = class_weights(torch.tensor([8.0, 2.0, 0.0]))
    assert weights.tolist() == [10 / 2 / 8, 10 / 2 / 2, 0]
    rows, labels = drawn(40)
    sums = summed(rows, labels, by_class=True)
    weighted = sums.weighted()
    counts = torch.bincount(labels).double()
    assert weighted[7:, 7:].diag().tolist() == pytest.approx([40 / 3] * 3)
    assert weighted[6, 6] == pytest.approx(40)
    scaled = rows.double() * (40 / 3 / counts[labels]).sqrt()[:, None]
    torch.testing.assert_close(weighted[:6, :6], scaled.T @ scaled)


def test_random_weights_hold_no_data():
    one, other = (make_features(toy_task(toy_graph(seed=seed)), 12, "relu", 8, 1.0) for seed in (0, 1))
    assert torch.equal(one.weights, other.weights)
    assert not torch.equal(one.weights, make_features(toy_task(seed=1), 12, "relu", 8, 1.0).weights)
    assert one.weights.abs().max() < 2**11
    assert math.isclose(float(one.weights.std()) / 256, 1, abs_tol=0.2)
