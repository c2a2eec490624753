"""Baselines: steps against PyG's modules, the divergence and the dampening by hand, and importances node by node."""

import math
from dataclasses import replace

import pytest
import torch
from method_samples import CATALOGUE, fitted, same
from pyg_models import PygGCN, far
from torch.nn import functional

from unlearnbench.gnn import train_networks
from unlearnbench.protocol import Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench_baselines.dampening import dampening, importance
from unlearnbench_baselines.teaching import divergence

GRAPH = toy_graph(num_nodes=80, edges=120)
EACH_KIND = pytest.mark.parametrize(
    "request_", [Request(GRAPH.ids[[3, 20, 50]]), Request(GRAPH.pairs()[[3, 20, 50]], "edge")], ids=["nodes", "edges"]
)


def setting(request):
    task = toy_task(GRAPH, "gcn[dropout=0]", epochs=10)
    network = fitted("retrain", task)._network
    retained = task.without(request)
    module = PygGCN(8, 3).take(network.state(0)).eval()
    return network, task, retained, module


def updated(bracket, network, task, request, retained):
    return resolve(CATALOGUE, "unlearner", bracket).build().update(network, task, request, retained).state(0)


def follow(module, loss, steps, lr, decay):
    """Train a module of PyG by Adam."""
    optimiser = torch.optim.Adam(module.parameters(), lr=lr, weight_decay=decay)
    for _ in range(steps):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()


def check_it_went_the_same_way(module, start, after):
    gap, moved = far(module, start, after)
    assert moved > 0.01
    assert gap < 0.05 * moved


@EACH_KIND
def test_finetune_is_further_training_on_what_is_retained(request_):
    network, task, retained, module = setting(request_)
    start, graph = network.state(0), retained.graph
    after = updated("finetune[epochs=4]", network, task, request_, retained)
    follow(module, lambda: functional.cross_entropy(module(graph.x, graph.edge_index), graph.y), 4, 0.01, 5e-4)
    check_it_went_the_same_way(module, start, after)
    assert same(start, updated("finetune[epochs=0]", network, task, request_, retained)) == []


def test_finetune_takes_the_trainings_learning_rate_unless_told_otherwise():
    request = Request(GRAPH.ids[[3]])
    network, task, retained, _ = setting(request)
    faster = replace(retained, training=replace(retained.training, lr=0.05))
    found = [
        updated(bracket, network, task, request, among)
        for bracket, among in (("finetune[epochs=2]", faster), ("finetune[epochs=2,lr=0.05]", retained))
    ]
    assert same(*found) == []
    assert same(found[0], updated("finetune[epochs=2]", network, task, request, retained)) != []


@EACH_KIND
def test_neggrad_plus_follows_the_combined_gradient_of_both_graphs(request_):
    network, task, retained, module = setting(request_)
    start, graph, at = network.state(0), retained.graph, request_.ids.flatten().unique()

    def loss():
        down = functional.cross_entropy(module(graph.x, graph.edge_index), graph.y)
        return 0.6 * down - 0.4 * functional.cross_entropy(module(GRAPH.x, GRAPH.edge_index)[at], GRAPH.y[at])

    after = updated("neggrad-plus[epochs=3,lr=0.01,beta=0.6]", network, task, request_, retained)
    follow(module, loss, 3, 0.01, 5e-4)
    check_it_went_the_same_way(module, start, after)


def test_the_divergence_from_the_teachers_by_hand():
    teachers, student = [[2.0, 0.0], [0.0, 0.0]], [[0.0, 0.0], [1.0, -1.0]]
    apart = 0.0
    for teacher, own in zip(teachers, student, strict=True):
        p, q = ([math.exp(one) / sum(map(math.exp, row)) for one in row] for row in (teacher, own))
        apart += sum(a * math.log(a / b) for a, b in zip(p, q, strict=True)) / 2
    assert float(divergence(torch.tensor(teachers), torch.tensor(student))) == pytest.approx(apart, rel=1e-5)


@EACH_KIND
def test_bad_teaching_follows_an_untrained_network_on_the_request_and_its_former_self_elsewhere(request_):
    network, task, retained, module = setting(request_)
    start, graph, at = network.state(0), retained.graph, request_.ids.flatten().unique()
    untrained = replace(retained, training=replace(retained.training, epochs=0))
    bad = PygGCN(8, 3).take(train_networks(untrained, [graph], [0], role="bad-teacher").state(0)).eval()
    with torch.no_grad():
        teachers = torch.cat([bad(GRAPH.x, GRAPH.edge_index)[at], module(graph.x, graph.edge_index)])

    def loss():
        taught = torch.cat([module(GRAPH.x, GRAPH.edge_index)[at], module(graph.x, graph.edge_index)])
        return (teachers.softmax(1) * (teachers.log_softmax(1) - taught.log_softmax(1))).sum() / len(taught)

    after = updated("bad-teacher[epochs=3,lr=0.01,share=1]", network, task, request_, retained)
    follow(module, loss, 3, 0.01, 5e-4)
    check_it_went_the_same_way(module, start, after)
    shared = updated("bad-teacher[epochs=3,lr=0.01]", network, task, request_, retained)
    assert same(after, shared) != []


def test_importance_and_dampening_of_a_linear_model_by_hand():
    weights, rows = torch.tensor([1.0, 2.0], requires_grad=True), torch.tensor([[1.0, 0.0], [0.0, 1.0], [1.0, 1.0]])
    losses = (rows @ weights - torch.tensor([3.0, 1.0, 3.5])).square() / 2
    # The slopes of the three losses: (-2, 0), (0, 1) and (-0.5, -0.5).
    (forget,) = importance(losses, (torch.tensor([0]),), [weights])
    (one_by_one,) = importance(losses, torch.arange(3).split(1), [weights])
    (together,) = importance(losses, (torch.arange(3),), [weights])
    assert forget.tolist() == [4, 0]
    assert one_by_one.tolist() == pytest.approx([4.25 / 3, 1.25 / 3])
    assert together.tolist() == pytest.approx([(2.5 / 3) ** 2, (0.5 / 3) ** 2])
    assert dampening(forget, one_by_one, 2, 1).tolist() == pytest.approx([4.25 / 12, 1])
    assert dampening(forget, one_by_one, 2, 0.5).tolist() == pytest.approx([4.25 / 24, 1])
    assert dampening(forget, one_by_one, 2, 100).tolist() == [1, 1]
    assert dampening(forget, one_by_one, 3, 1).tolist() == [1, 1]


@EACH_KIND
def test_dampened_is_what_stands_out_of_the_importances_node_by_node(request_):
    network, task, retained, module = setting(request_)
    start, at = network.state(0), request_.ids.flatten().unique().tolist()
    squares = []
    for node in range(80):
        loss = functional.cross_entropy(module(GRAPH.x, GRAPH.edge_index)[[node]], GRAPH.y[[node]])
        squares.append([slope.square() for slope in torch.autograd.grad(loss, list(module.parameters()))])
    with torch.no_grad():
        for number, parameter in enumerate(module.parameters()):
            of_request = torch.stack([squares[node][number] for node in at]).mean(dim=0)
            of_all = torch.stack([each[number] for each in squares]).mean(dim=0)
            parameter[of_request > 2 * of_all] *= (of_all / of_request)[of_request > 2 * of_all]
    after = updated("ssd[alpha=2,batch_size=1]", network, task, request_, retained)
    gap, moved = far(module, start, after)
    assert moved > 0.05
    assert gap < 1e-3
    assert same(after, updated("ssd[alpha=1e9]", network, task, request_, retained)) == []


def test_batches_of_both_importances_have_one_size(monkeypatch):
    from unlearnbench_baselines import dampening as module

    sizes = []

    def recording(losses, batches, parameters):
        sizes.append([len(batch) for batch in batches])
        return importance(losses, batches, parameters)

    monkeypatch.setattr(module, "importance", recording)
    request = Request(GRAPH.ids[::8])
    network, task, retained, _ = setting(request)
    updated("ssd[batch_size=5]", network, task, request, retained)
    assert sizes == [[5, 5], [5] * 16]
