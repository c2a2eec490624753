"""CEU: its training and what is left of the gradient against PyG's modules, its step and its solver densely."""

import math
from dataclasses import replace

import pytest
import torch
from method_samples import CATALOGUE, fitted, same
from pyg_models import PygGCN, far
from torch.nn import functional

from unlearnbench.errors import RefusedError
from unlearnbench.protocol import Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Training
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning import InfluenceParams, add, conjugate, influence_step
from unlearnbench.unlearning.influence import Curvature, gradient
from unlearnbench_ceu.method import as_edges, epsilon_of

GRAPH = toy_graph(num_nodes=40, edges=60)
NODES, EDGES = Request(GRAPH.ids[[3, 20]]), Request(GRAPH.pairs()[[3, 20, 35]], "edge")


def task_of(graph=GRAPH, epochs=10):
    return toy_task(graph, "gcn[dropout=0]", epochs=epochs)


def updated(method, network, task, request):
    return method.update(network.copy(), task, request, task.without(request)).state(0)


def built(bracket):
    return resolve(CATALOGUE, "unlearner", bracket).build()


def test_conjugate_gradients_solve_the_damped_equations_and_refuse_a_direction_downwards():
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(9, 9, generator=rng, dtype=torch.float64)
    matrix, vector = rows @ rows.T - 2 * torch.eye(9), torch.randn(9, generator=rng, dtype=torch.float64)
    found = conjugate(matrix.mv, vector, 5, 0.6, 50)
    assert found.converged
    assert torch.allclose(found.value, torch.linalg.solve(matrix + 3 * torch.eye(9), vector), atol=1e-5)
    short = conjugate(matrix.mv, vector, 5, 0.6, 2)
    assert (short.iterations, short.converged) == (2, False)
    left = vector - (matrix + 3 * torch.eye(9)) @ short.value
    assert short.last == pytest.approx(float(left.norm() / vector.norm()))
    assert conjugate(matrix.mv, torch.zeros(9, dtype=torch.float64), 5, 0.6, 50).value.norm() == 0
    with pytest.raises(RefusedError, match="is not positive definite"):
        conjugate(matrix.mv, vector, 5, 0, 50)


def test_training_follows_the_loss_with_the_random_term():
    task = task_of(epochs=5)
    method = built("ceu[std=0.5]")
    method.fit(task)
    start = fitted("retrain", replace(task, training=replace(task.training, epochs=0)))._network.state(0)
    module = PygGCN(8, 3).take(start).eval()
    term = PygGCN(8, 3).take(blank_with(method._term(method._network, task), method._network))
    optimiser = torch.optim.Adam(module.parameters(), lr=task.training.lr, weight_decay=task.training.weight_decay)
    for _ in range(5):
        product = sum((own * p).sum() for own, p in zip(term.parameters(), module.parameters(), strict=True))
        loss = functional.cross_entropy(module(GRAPH.x, GRAPH.edge_index), GRAPH.y) + product / 40
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
    gap, moved = far(module, start, method._network.state(0))
    assert moved > 0.01
    assert gap < 0.05 * moved
    quiet, retrained = fitted("ceu[std=0]", task), fitted("retrain", task)
    gap, moved = far(PygGCN(8, 3).take(retrained._network.state(0)), start, quiet._network.state(0))
    assert gap < 0.05 * moved


def blank_with(parts, network):
    """Return parts of parameters as the state of a network."""
    held = network.copy()
    held.erase([0])
    add(held, parts)
    return held.state(0)


@pytest.mark.slow
def test_the_step_is_that_of_the_influence_of_the_edges_and_a_node_is_all_of_them():
    task = toy_task(GRAPH, "gcn[dropout=0,hidden=4]", epochs=10)
    network, method = fitted("retrain", task)._network, built("ceu[iterations=100]")
    edges = as_edges(task, NODES)
    cut = task.without(edges)
    reached = set(edges.ids.flatten().tolist())
    for _ in range(2):
        reached |= {end for pair in GRAPH.pairs().tolist() for end in pair if reached & set(pair)}
    near = torch.tensor(sorted(reached))
    change = sum(
        sign * torch.cat([part.flatten() for part in gradient(network, one.graph, near, 5e-4)])
        for sign, one in ((1, task), (-1, cut))
    )
    curvature = Curvature(network, cut.graph, 5e-4)
    hessian = torch.stack([curvature(row) for row in torch.eye(len(change))])
    step = influence_step(network, task, edges, cut, InfluenceParams(iterations=100), conjugate)
    solved = torch.linalg.solve(hessian + step.damp * step.scale * torch.eye(len(change)), change)
    assert torch.cat([part.flatten() for part in step.parts]) == pytest.approx(solved, abs=0.01 * float(solved.norm()))
    wanted = network.copy()
    add(wanted, step.parts)
    assert same(wanted.state(0), updated(method, network, task, NODES)) == []
    wanted = {tuple(pair) for pair in GRAPH.pairs().tolist() if set(pair) & set(NODES.ids.tolist())}
    assert {tuple(pair) for pair in as_edges(task, NODES).ids.tolist()} == wanted
    assert as_edges(task, EDGES) is EDGES


def test_what_is_left_of_the_gradient_and_the_epsilon_that_it_has():
    task = task_of()
    method = built("ceu[std=0.5]")
    method.fit(task)
    network = method._network
    module = PygGCN(8, 3).take(network.state(0)).eval()
    term = PygGCN(8, 3).take(blank_with(method._term(network, task), network))
    loss = functional.cross_entropy(module(GRAPH.x, GRAPH.edge_index), GRAPH.y, reduction="sum")
    for own, parameter in zip(term.parameters(), module.parameters(), strict=True):
        loss = loss + 40 * 5e-4 / 2 * parameter.square().sum() + (own.detach() * parameter).sum()
    loss.backward()
    norm = math.sqrt(sum(float(parameter.grad.square().sum()) for parameter in module.parameters()))
    assert method._remaining(network, task) == pytest.approx(norm, rel=1e-3)
    assert epsilon_of(0.3, 0.1, 1.5 / math.e**2) == pytest.approx(6)


def test_nodes_without_edges_change_nothing_and_batches_are_refused():
    task = task_of(GRAPH.unlinked(GRAPH.pairs()), epochs=2)
    network = fitted("retrain", task)._network
    assert same(network.state(0), updated(built("ceu"), network, task, NODES)) == []
    with pytest.raises(RefusedError, match="trains on the whole graph"):
        fitted("ceu", replace(task, training=Training(epochs=2, batch_size=8)))
