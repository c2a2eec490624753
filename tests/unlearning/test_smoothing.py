"""Smoothing against values worked out by hand and a slow reference."""

import math

import pytest
import torch

from unlearnbench.unlearning import smooth


def _drawn(num_nodes=30, num_classes=3, num_edges=60, seed=0):
    rng = torch.Generator().manual_seed(seed)
    ends = torch.randint(num_nodes, (2, num_edges), generator=rng)
    edges = torch.cat([ends, ends.flip(0)], dim=1)
    rows = torch.rand(num_nodes, num_classes, generator=rng, dtype=torch.float64)
    anchors = torch.randperm(num_nodes, generator=rng)[: num_nodes // 2]
    labels = torch.randint(num_classes, (len(anchors),), generator=rng)
    return rows / rows.sum(dim=1, keepdim=True), edges, anchors, labels


def _slow(probabilities, edges, anchors, labels, share, rounds):
    n, num_classes = probabilities.shape
    count = [sum(int(target) == node for target in edges[1]) for node in range(n)]
    truth = probabilities.tolist()
    for anchor, label in zip(anchors.tolist(), labels.tolist(), strict=True):
        truth[anchor] = [float(c == label) for c in range(num_classes)]
    values = truth
    for _ in range(rounds):
        new = [[(1 - share) * entry for entry in row] for row in truth]
        for source, target in edges.T.tolist():
            weight = share / math.sqrt(max(count[source], 1) * count[target])
            new[target] = [a + weight * b for a, b in zip(new[target], values[source], strict=True)]
        values = new
    return torch.tensor([[entry / sum(row) for entry in row] for row in values], dtype=torch.float64)


def test_one_round_by_hand():
    # A path 0 - 1 - 2: the anchors 0 and 2 have classes 0 and 1, node 1 is undecided.
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    rows = torch.tensor([[0.5, 0.5], [0.5, 0.5], [0.5, 0.5]])
    got = smooth(rows, edges, torch.tensor([0, 2]), torch.tensor([0, 1]), share=0.5, rounds=1)
    # Node 0: .5 (1, 0) + .5 / sqrt(2) (.5, .5), then scaled to the sum 1.
    side = 0.5 / math.sqrt(2)
    assert got[0].tolist() == pytest.approx([(0.5 + side / 2) / (0.5 + side), (side / 2) / (0.5 + side)])
    assert got[1].tolist() == pytest.approx([0.5, 0.5])


@pytest.mark.parametrize("rounds", [0, 1, 3, 15])
def test_equals_a_slow_reference(rounds):
    rows, edges, anchors, labels = _drawn()
    got = smooth(rows, edges, anchors, labels, 0.7, rounds)
    torch.testing.assert_close(got, _slow(rows, edges, anchors, labels, 0.7, rounds))


@pytest.mark.parametrize("rounds", [0, 1, 2, 5])
def test_a_neighbourhood_gives_what_the_graph_does(rounds):
    rows, edges, anchors, labels = _drawn(num_nodes=200, num_edges=150)
    edges = edges[:, ::3]  # directed, too
    targets = torch.tensor([7, 3, 150])
    of_all = smooth(rows, edges, anchors, labels, 0.7, rounds)
    torch.testing.assert_close(smooth(rows, edges, anchors, labels, 0.7, rounds, targets), of_all[targets])


def test_what_lies_outside_the_neighbourhood_is_not_read():
    rows, edges, anchors, labels = _drawn(num_nodes=200, num_edges=100)
    targets = torch.tensor([7])
    near = torch.zeros(200, dtype=torch.bool)
    near[targets] = True
    for _ in range(2):
        near[edges[0][near[edges[1]]]] = True
    spoilt = torch.where(near[:, None], rows, torch.nan)
    got = smooth(spoilt, edges, anchors[near[anchors]], labels[near[anchors]], 0.7, 2, targets)
    assert bool(torch.isfinite(got).all())


def test_a_node_without_neighbours_keeps_its_row_and_an_anchor_its_label():
    rows = torch.tensor([[0.2, 0.8], [0.6, 0.4]])
    none = torch.empty(2, 0, dtype=torch.int64)
    got = smooth(rows, none, torch.tensor([1]), torch.tensor([1]), 0.9, 3)
    torch.testing.assert_close(got, torch.tensor([[0.2, 0.8], [0.0, 1.0]]))


def test_inputs_are_unchanged():
    rows, edges, anchors, labels = _drawn()
    copies = [part.clone() for part in (rows, edges, anchors, labels)]
    smooth(rows, edges, anchors, labels, 0.5, 3)
    assert all(torch.equal(one, other) for one, other in zip((rows, edges, anchors, labels), copies, strict=True))
