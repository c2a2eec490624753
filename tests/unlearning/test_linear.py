"""What linear methods share: propagated rows of some nodes, which rows a request changes, softmax regression."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from unlearnbench.errors import RefusedError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task
from unlearnbench.unlearning import changed_rows, propagated, propagation_steps, softmax_regression

NORMALISATIONS = ("mean", "symmetric")


def directed_graph(seed=0, nodes=40, edges=50):
    """Directed edges, some of them doubled or loops."""
    rng = torch.Generator().manual_seed(seed)
    graph = toy_graph(nodes, seed=seed, first_id=FIRST_ID)
    drawn = torch.randint(nodes, (2, edges), generator=rng)
    return replace(graph, edge_index=torch.cat([drawn, drawn[:, :5], graph.edge_index[:, :20]], dim=1))


@pytest.mark.parametrize("normalisation", NORMALISATIONS)
@pytest.mark.parametrize("steps", [0, 1, 3])
@pytest.mark.parametrize("sparse", [False, True])
def test_rows_of_some_nodes_are_those_of_all(steps, normalisation, sparse):
    graph = directed_graph()
    if sparse:
        x = torch.zeros(40, 30)
        x[torch.arange(40), torch.arange(40) % 30] = 1 + torch.arange(40) / 8
        graph = replace(graph, x=x)
    at = torch.tensor([7, 3, 3, 39])
    torch.testing.assert_close(
        propagated(graph, steps, normalisation, at), propagated(graph, steps, normalisation)[at], rtol=1e-13, atol=0
    )
    assert propagated(graph, steps, normalisation, at[:0]).shape == (0, graph.num_features)


def test_propagation_by_hand():
    edges = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
    graph = Graph(torch.tensor([[2.0, 0], [0, 3], [0, 0]]), torch.zeros(3), edges, torch.arange(3), 2)
    third, half = 1 / 3, 1 / 2
    expected = torch.tensor([[half, half], [third, third], [0, half]], dtype=torch.float64)
    torch.testing.assert_close(propagated(graph, 1, "mean"), expected)
    root = 6**-0.5
    expected = torch.tensor([[half, root], [root, third], [0, root]], dtype=torch.float64)
    torch.testing.assert_close(propagated(graph, 1, "symmetric"), expected)


def requests(kind, nodes, pairs):
    return {"node": Request(nodes), "edge": Request(pairs, "edge"), "feature": Request.of_features(nodes)}[kind]


@given(
    seed=st.integers(0, 10**6),
    steps=st.integers(0, 3),
    normalisation=st.sampled_from(NORMALISATIONS),
    kind=st.sampled_from(["node", "edge", "feature"]),
)
@settings(max_examples=60, deadline=None)
def test_no_other_row_changes(seed, steps, normalisation, kind):
    graph = directed_graph(seed)
    request = requests(kind, graph.ids[[3, 17]], graph.pairs()[[0, 5]])
    retained = request.apply(graph)
    same = graph.ids[~changed_rows(graph, request, steps, normalisation)]
    assert bool(retained.contains(same).all())
    former, later = (propagated(one, steps, normalisation)[one.positions(same)] for one in (graph, retained))
    torch.testing.assert_close(former, later, rtol=1e-13, atol=0)


@pytest.mark.parametrize(
    ("kind", "normalisation", "steps", "reached"),
    [
        ("node", "mean", 0, [3]),
        ("node", "mean", 1, [2, 3, 4]),
        ("node", "mean", 2, [1, 2, 3, 4, 5]),
        ("node", "symmetric", 1, [1, 2, 3, 4, 5]),
        ("feature", "symmetric", 0, [3]),
        ("feature", "symmetric", 1, [2, 3, 4]),
        ("feature", "mean", 1, [2, 3, 4]),
        ("edge", "mean", 0, []),
        ("edge", "mean", 1, [3, 4]),
        ("edge", "mean", 2, [2, 3, 4, 5]),
        ("edge", "symmetric", 1, [2, 3, 4, 5]),
    ],
)
def test_rows_reached_on_a_path_by_hand(kind, normalisation, steps, reached):
    path = torch.stack([torch.arange(6), torch.arange(1, 7)])
    graph = Graph(torch.rand(7, 2), torch.zeros(7), torch.cat([path, path.flip(0)], dim=1), torch.arange(7), 2)
    request = requests(kind, torch.tensor([3]), torch.tensor([[3, 4]]))
    assert torch.nonzero(changed_rows(graph, request, steps, normalisation))[:, 0].tolist() == reached


def problem(nodes=30, features=6):
    rng = torch.Generator().manual_seed(0)
    return torch.randn(nodes, features, generator=rng, dtype=torch.float64), torch.arange(nodes) % 3


def test_softmax_regression_ends_where_gradient_descent_ends():
    rows, labels = problem()
    weights, steps = softmax_regression(rows, labels, torch.zeros(6, 3, dtype=torch.float64), 0.1, 1000)
    slow = torch.zeros(6, 3, dtype=torch.float64)
    onehot = torch.nn.functional.one_hot(labels, 3).double()
    for _ in range(3000):
        slow -= 0.5 * (rows.T @ (torch.softmax(rows @ slow, dim=1) - onehot) / 30 + 0.1 * slow)
    torch.testing.assert_close(weights, slow, rtol=0, atol=1e-7)
    assert 3 < steps < 100


def test_weights_stay_in_the_span_of_the_rows():
    rows, labels = problem(nodes=5, features=12)
    start = rows.T @ torch.ones(5, 3, dtype=torch.float64)
    weights, steps = softmax_regression(rows, labels, start, 1e-3, 7)
    assert steps == 7
    torch.testing.assert_close(rows.T @ torch.linalg.pinv(rows.T) @ weights, weights)
    assert not torch.equal(weights, start)


def test_steps_are_those_of_the_model_and_other_models_are_refused():
    assert propagation_steps(toy_task(model="sgc[steps=3]"), "one") == 3
    with pytest.raises(RefusedError, match=r"one trains a linear model .* no use for the model 'gcn'"):
        propagation_steps(toy_task(), "one")
