import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench_graphrevoker import losses

# Two triangles 0-1-2 and 3-4-5 joined by 2-3, both directions of each edge.
PAIRS = torch.tensor([[0, 0, 1, 3, 3, 4, 2], [1, 2, 2, 4, 5, 5, 3]])
EDGES = torch.cat([PAIRS, PAIRS.flip(0)], dim=1)
LABELS = torch.tensor([0, 0, 1, 1, 1, 0])


def one_hot(shard, num_shards=2):
    return torch.nn.functional.one_hot(torch.tensor(shard), num_shards).double()


def parts(assignment, edges=EDGES, labels=LABELS, num_classes=2):
    n = len(assignment)
    adjacency = losses.adjacency_matrix(edges, n, torch.float64)
    degree = torch.bincount(edges[0, edges[0] != edges[1]], minlength=n).double()
    return {
        "nodes": assignment.sum(dim=0),
        "edges": losses.expected_edges(assignment, adjacency),
        "volumes": losses.expected_volumes(assignment, degree),
        "entropies": losses.label_entropies(assignment, losses.label_matrix(labels, num_classes, torch.float64)),
    }


def time(found, form, num_nodes=6, num_edges=14):
    return losses.time_loss(found["nodes"], found["edges"], num_nodes, num_edges, form)


NEARLY_ALL = torch.tensor([[0.9995, 0.0005]], dtype=torch.float64).expand(6, 2)


@pytest.mark.parametrize(
    ("assignment", "nodes", "edges", "paper", "normalised", "released", "structure", "entropy"),
    [
        (one_hot([0, 0, 0, 1, 1, 1]), (3, 3), (6, 6), 6.0, 0.428571, 0.949914, 0.285714, 0.636514),
        (one_hot([0, 1, 1, 0, 0, 1]), (3, 3), (2, 2), 2.0, 0.142857, 0.658634, 1.428571, 0.636514),
        (torch.full((6, 2), 0.5).double(), (3, 3), (3.5, 3.5), 3.5, 0.25, 0.793701, 1.0, 0.693147),
        (NEARLY_ALL, (5.997, 0.003), (13.986, 0), 13.9790, 0.998501, 0.999373, 1.0, 0.693147),
    ],
)
def test_two_triangles(assignment, nodes, edges, paper, normalised, released, structure, entropy):
    found = parts(assignment)
    assert found["nodes"].tolist() == pytest.approx(nodes)
    assert found["edges"].tolist() == pytest.approx(edges, abs=1e-4)
    assert float(time(found, "paper")) == pytest.approx(paper, abs=5e-5)
    assert float(time(found, "normalised")) == pytest.approx(normalised, abs=5e-7)
    assert float(losses.structure_loss(found["edges"], found["volumes"])) == pytest.approx(structure, abs=5e-7)
    assert float(found["entropies"].mean()) == pytest.approx(entropy, abs=5e-7)
    assert float(time(found, "released")) == pytest.approx(released, abs=5e-7)


def test_semantic_forms():
    entropies = torch.tensor([0.2, 0.4, 0.9])
    assert float(losses.semantic_loss(entropies, 5, "paper", "mean")) == pytest.approx(0.5)
    assert float(losses.semantic_loss(entropies, 5, "intended", "mean")) == pytest.approx(-0.5)
    assert float(losses.semantic_loss(entropies, 5, "paper", "released")) == pytest.approx(0.3)
    assert float(losses.semantic_loss(entropies, 5, "intended", "released")) == pytest.approx(-0.3)


def dense_losses(p, edges, labels, num_classes):
    """The paper's matrix formulas with N x N matrices, for graphs without empty shards."""
    n, num_shards = p.shape
    a = torch.zeros(n, n, dtype=p.dtype)
    for source, target in edges.t().tolist():
        if source != target:
            a[source, target] += 1
    ones = torch.ones(n, 1, dtype=p.dtype)
    time = sum(p[:, i].sum() * ((p[:, i, None] @ p[None, :, i]) * a).sum() for i in range(num_shards)) / n
    degrees = torch.diag(a.sum(dim=1))
    structure = ((p @ torch.diag(1 / (ones.t() @ degrees @ p)[0]) @ (1 - p.t())) * a).sum()
    entropy = 0.0
    for i in range(num_shards):
        for c in range(num_classes):
            share = p[labels == c, i].sum() / p[:, i].sum()
            entropy = entropy - (share * share.log() if share > 0 else 0)
    return time, structure, entropy / num_shards


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.integers(2, 9), st.integers(1, 4), st.integers(1, 30))
def test_sparse_forms_equal_the_papers_matrix_formulas(seed, n, num_shards, num_edges):
    rng = torch.Generator().manual_seed(seed)
    edges = torch.randint(n, (2, num_edges), generator=rng)
    edges = torch.cat([edges, torch.tensor([[0], [1]])], dim=1)
    labels = torch.randint(3, (n,), generator=rng)
    p = torch.softmax(torch.randn(n, num_shards, generator=rng, dtype=torch.float64), dim=1)
    found = parts(p, edges, labels, 3)
    expected = dense_losses(p, edges, labels, 3)
    assert float(time(found, "paper", n)) == pytest.approx(float(expected[0]))
    assert float(losses.structure_loss(found["edges"], found["volumes"])) == pytest.approx(float(expected[1]), abs=1e-9)
    assert float(found["entropies"].mean()) == pytest.approx(float(expected[2]), abs=1e-6)


def every_loss(scores):
    found = parts(torch.softmax(scores, dim=1))
    values = [time(found, form) for form in ("paper", "normalised", "released")]
    values.append(losses.structure_loss(found["edges"], found["volumes"]))
    values += [
        losses.semantic_loss(found["entropies"], 2, sign, form)
        for sign in ("intended", "paper")
        for form in ("mean", "released")
    ]
    return torch.stack(values)


def test_gradients_equal_finite_differences():
    scores = torch.randn(6, 3, generator=torch.Generator().manual_seed(3), dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(every_loss, scores, eps=1e-6, atol=1e-7)


@pytest.mark.parametrize(
    "edges",
    [
        torch.empty(2, 0, dtype=torch.int64),
        torch.tensor([[0, 1, 2], [0, 1, 2]]),
        torch.tensor([[0, 0, 0, 5], [1, 1, 1, 5]]),
    ],
    ids=["no edges", "self-loops alone", "directed with duplicates"],
)
@pytest.mark.parametrize("sharpness", [0.0, 30.0, 1e4])
def test_values_and_gradients_are_finite_however_odd_the_graph(edges, sharpness):
    scores = (sharpness * one_hot([0, 0, 0, 0, 0, 1], 3)).float().requires_grad_()
    assignment = torch.softmax(scores, dim=1)
    adjacency = losses.adjacency_matrix(edges, 6)
    degree = torch.bincount(edges[0, edges[0] != edges[1]], minlength=6).float()
    e = losses.expected_edges(assignment, adjacency)
    entropies = losses.label_entropies(assignment, losses.label_matrix(LABELS, 2))
    total = losses.structure_loss(e, losses.expected_volumes(assignment, degree)) + entropies.mean()
    for form in ("paper", "normalised", "released"):
        total = total + losses.time_loss(assignment.sum(dim=0), e, 6, edges.shape[1], form)
    total.backward()
    assert torch.isfinite(total)
    assert torch.isfinite(scores.grad).all()


def test_a_graph_without_edges_has_nothing_to_cut():
    empty = torch.empty(2, 0, dtype=torch.int64)
    found = parts(torch.full((6, 2), 0.5).double(), empty)
    assert float(losses.structure_loss(found["edges"], found["volumes"])) == 0
    assert float(time(found, "normalised", 6, 0)) == 0


def test_self_loops_change_nothing_and_duplicates_count_twice():
    p = torch.softmax(torch.randn(6, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64), dim=1)
    loops = torch.arange(6).expand(2, 6)
    plain, looped, doubled = (
        parts(p, e) for e in (EDGES, torch.cat([EDGES, loops], dim=1), torch.cat([EDGES, EDGES], dim=1))
    )
    assert torch.equal(plain["edges"], looped["edges"])
    assert torch.equal(plain["volumes"], looped["volumes"])
    assert torch.allclose(2 * plain["edges"], doubled["edges"])


def test_unlabelled_nodes_do_not_count_in_the_entropy():
    p = torch.full((6, 2), 0.5).double()
    known = parts(p, labels=torch.tensor([0, 0, 1, -1, -1, -1]))
    expected = -(2 / 3 * math.log(2 / 3) + 1 / 3 * math.log(1 / 3))
    assert known["entropies"].tolist() == pytest.approx([expected, expected], abs=1e-6)


def test_uniform_probabilities_cut_all_but_one_share():
    found = parts(torch.full((6, 20), 1 / 20).double())
    assert float(losses.structure_loss(found["edges"], found["volumes"])) == pytest.approx(19.0)
