"""MEGU: which nodes count as influenced, its losses, and a step of it."""

import math
from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_samples import fitted
from plain_versions import PATH, distances, mask
from pyg_models import PygGCN
from task_samples import task_of

from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning import hop_distance
from unlearnbench_megu.influence import flipped, influenced, similarity, threshold
from unlearnbench_megu.losses import distillation, forgetting, holding
from unlearnbench_megu.method import MEGU, drawn_operator, fine_tune

NONE = torch.empty(0, 3)
NO_LABEL = torch.empty(0, dtype=torch.int64)


# Influence


def test_features_are_mirrored_within_their_range():
    x = torch.tensor([[0.0, 1.0], [1.0, 1.0], [0.0, 0.0]])
    assert flipped(x, mask(1, 2, size=3)).tolist() == [[0, 1], [0, 0], [1, 1]]
    assert flipped(torch.tensor([[-2.0, 6.0], [1.0, 0.0]]), mask(1, size=2)).tolist() == [[-2, 6], [3, 4]]


@pytest.mark.parametrize(
    ("cosines", "wanted"),
    [
        ([0.05, 0.3, 0.35, 0.9], 0.05),  # nothing new between 0.1 and 0.2
        ([0.05, 0.15, 0.25, 0.9], 0.25),
        ([0.55, 0.95, 1.0], 0.55),
        ([1.0, 1.0], 1.0),
        ([1.0000001], 1.0000001),
        ([-0.5, 0.0], 0.0),
    ],
)
def test_the_threshold_rises_until_a_step_takes_in_nothing_new(cosines, wanted):
    assert threshold(torch.tensor(cosines)) == pytest.approx(wanted)


@given(st.lists(st.floats(-1, 1, width=32), min_size=1, max_size=20))
@settings(max_examples=50, deadline=None)
def test_the_threshold_is_a_cosine_behind_which_a_gap_of_a_step_follows(cosines):
    found = threshold(torch.tensor(cosines))
    assert found in torch.tensor(cosines).tolist()
    edge = 0.1 * max(1, math.ceil(found / 0.1 - 1e-4))
    assert not [value for value in cosines if edge + 1e-4 < value <= edge + 0.1 - 1e-4]


def test_messages_reach_along_edges_alone():
    assert (hop_distance(PATH, mask(0), 2, directed=True) <= 2).tolist() == mask(0, 1, 2).tolist()
    assert (hop_distance(PATH[:, ::2], mask(4), 2, directed=True) <= 2).tolist() == mask(4).tolist()


def test_influence_equals_dense_products():
    graph = toy_graph(num_nodes=60, edges=70)
    gone = torch.isin(torch.arange(60), torch.tensor([3, 41]))
    adjacency = torch.eye(60)
    adjacency[graph.edge_index[1], graph.edge_index[0]] = 1
    scale = adjacency.sum(dim=1).rsqrt()
    hat = scale[:, None] * adjacency * scale[None, :]
    other = graph.x.clone()
    other[gone] = graph.x.min() + graph.x.max() - graph.x[gone]
    a, b = hat @ hat @ graph.x, hat @ hat @ other
    wanted = (a * b).sum(dim=1) / (a.norm(dim=1) * b.norm(dim=1))
    found = similarity(graph.x, graph.edge_index, gone, 2)
    torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)
    limit, hops = threshold(found), distances(graph.edge_index, 60, [3, 41])
    near = [0 < hops.get(v, 99) <= 2 and float(wanted[v]) <= limit + 1e-6 for v in range(60)]
    assert influenced(graph.x, graph.edge_index, gone, 2).tolist() == near
    assert 0 < sum(near) < sum(0 < h <= 2 for h in hops.values())


# Losses


def plain(student, teacher):
    p, q = ([math.exp(v / 1.5) for v in row] for row in (teacher, student))
    p, q = [v / sum(p) for v in p], [v / sum(q) for v in q]
    return sum(a * math.log(a / b) for a, b in zip(p, q, strict=True))


def entropy(row, label):
    return math.log(sum(math.exp(v) for v in row)) - row[label]


def test_losses_by_hand():
    logits, operated = [[1.0, 0.0, -1.0], [0.5, 2.0, 0.0]], [[0.0, 0.0, 3.0], [1.0, 1.0, -1.0]]
    said = torch.tensor([0, 1])
    f, g = torch.tensor(logits), torch.tensor(operated)
    to_operator = sum(plain(a, b) for a, b in zip(logits, operated, strict=True)) / 2
    to_network = sum(plain(b, a) for a, b in zip(logits, operated, strict=True)) / 2
    assert float(distillation(f, g)) == pytest.approx(to_operator, rel=1e-5)
    assert float(distillation(f, f)) == pytest.approx(0, abs=1e-6)
    away = (entropy(operated[0], 0) + entropy(operated[1], 1)) / 2
    assert float(forgetting(f, g, said)) == pytest.approx(to_operator - away, rel=1e-5)
    held = (entropy(logits[0], 0) + entropy(logits[1], 1)) / 2
    assert float(holding(f, g, said)) == pytest.approx(to_network + held, rel=1e-5)
    assert float(forgetting(NONE, NONE, NO_LABEL)) == float(holding(NONE, NONE, NO_LABEL)) == 0


def test_no_slope_goes_into_the_teacher():
    f, g = torch.randn(4, 3, requires_grad=True), torch.randn(4, 3, requires_grad=True)
    distillation(f, g).backward()
    assert g.grad is None
    assert bool(f.grad.any())


# The method


@pytest.mark.parametrize("kind", ["node", "edge"])
def test_a_step_equals_one_made_with_pygs_modules(kind):
    graph = toy_graph(num_nodes=80, edges=120)
    task = toy_task(graph, model="gcn[dropout=0]", epochs=10)
    request = Request(graph.ids[[3, 50]] if kind == "node" else graph.pairs()[[3, 50]], kind)
    retained = task.without(request)
    network = fitted("retrain", task)._network
    start = network.state(0)
    module = PygGCN(graph.num_features, 3).take(start).eval()
    said = module(graph.x, graph.edge_index).argmax(dim=1)
    # The ends of a deleted edge are what is pushed away; they keep their other edges.
    gone = torch.isin(torch.arange(80), request.ids)
    near = influenced(graph.x, graph.edge_index, gone, 2)
    left = graph.edge_index[:, ~torch.isin(graph.edge_index, torch.tensor([3, 50])).any(dim=0)]
    if kind == "edge":
        pairs = {frozenset(pair) for pair in request.ids.tolist()}
        left = torch.tensor([edge for edge in graph.edge_index.t().tolist() if frozenset(edge) not in pairs]).t()
    operator = drawn_operator(3, retained.generator("megu", "operator"))
    logits = module(graph.x, left)
    operated = logits @ operator.weight.t() + operator.bias
    forget, hold = (
        forgetting(logits[gone], operated[gone], said[gone]),
        holding(logits[near], operated[near], said[near]),
    )
    (0.2 * forget + hold).backward()

    params = MEGU.Params(epochs=1, lr=0.1, kappa=0.2)
    ((found_forget, found_hold),) = fine_tune(network, task, request, retained, params)
    assert found_forget == pytest.approx(float(forget.detach()), rel=1e-4)
    assert found_hold == pytest.approx(float(hold.detach()), rel=1e-4)
    after = network.state(0)
    moved = {name: (start[name] - after[name]) / 0.1 for name in start}
    for parameter, part in module.pairs(moved):
        torch.testing.assert_close(part.reshape(parameter.shape), parameter.grad, atol=1e-5, rtol=1e-3)
    assert float(moved["mlp.linear2.weight"].abs().max()) > 0.01


def test_the_operator_is_trained_too_so_that_forgetting_goes_on():
    graph = toy_graph(num_nodes=80, edges=120)
    task, request = task_of(graph, epochs=30), Request(graph.ids[[1, 2]])
    network = fitted("retrain", task)._network
    losses = fine_tune(network, task, request, task.without(request), MEGU.Params(epochs=60, lr=0.1))
    first, last = (sum(hold for _, hold in part) for part in (losses[:10], losses[-10:]))
    assert 0 < last < 0.8 * first
    pushed = fitted("retrain", task)._network
    strong = fine_tune(pushed, task, request, task.without(request), MEGU.Params(epochs=60, kappa=0.3, lr=0.03))
    assert strong[-1][0] < strong[0][0]
    assert all(parameter.grad is None for parameter in network.parameters())


def test_a_request_without_neighbours_is_forgotten_all_the_same():
    graph = toy_graph()
    alone = ~(graph.edge_index == 5).any(dim=0)
    graph = Graph(graph.x, graph.y, graph.edge_index[:, alone], graph.ids, 3)
    task, request = toy_task(graph), Request(graph.ids[[5]])
    network = fitted("retrain", task)._network
    before = network.state(0)
    losses = fine_tune(network, task, request, task.without(request), MEGU.Params(epochs=2))
    assert [hold for _, hold in losses] == [0, 0]
    after = network.state(0)
    assert any(not torch.equal(before[name], after[name]) for name in before)
    assert all(bool(torch.isfinite(value).all()) for value in after.values())


def test_labels_are_not_looked_at():
    graph = toy_graph()
    found = []
    for y in (graph.y, graph.y.flip(0)):
        task, request = toy_task(graph), Request(graph.ids[[5, 6]])
        network = fitted("retrain", task)._network
        task = replace(task, graph=Graph(graph.x, y, graph.edge_index, graph.ids, 3))
        fine_tune(network, task, request, task.without(request), MEGU.Params(epochs=3))
        found.append(network.state(0))
    assert all(torch.equal(value, found[1][name]) for name, value in found[0].items())
