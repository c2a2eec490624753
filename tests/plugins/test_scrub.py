"""SCRUB and gradient ascent: losses, steps, and where they lead."""

import math

import pytest
import torch
from method_samples import fitted
from pyg_models import PygGCN, far
from task_samples import task_of
from torch.nn import functional

from unlearnbench.protocol import Request
from unlearnbench.testing.graphs import toy_graph
from unlearnbench_scrub.ascent import GradientAscent, climb
from unlearnbench_scrub.losses import divergence, following
from unlearnbench_scrub.scrub import SCRUB, teach

GRAPH = toy_graph(num_nodes=80, edges=120)
REQUEST = Request(GRAPH.ids[[3, 20, 50]])
EDGES = Request(GRAPH.pairs()[[3, 20, 50]], "edge")


def trained(model="gcn", epochs=30, request=REQUEST):
    task = task_of(GRAPH, model, epochs)
    return fitted("retrain", task)._network, task, task.without(request)


def softened(row, temperature):
    powers = [math.exp(value / temperature) for value in row]
    return [power / sum(powers) for power in powers]


@pytest.mark.parametrize("temperature", [1.0, 4.0])
def test_losses_by_hand(temperature):
    teacher, student = [[2.0, 0.0, -1.0], [0.5, 2.0, 0.0]], [[0.0, 0.0, 3.0], [1.0, 1.0, -1.0]]
    apart = 0.0
    for t, s in zip(teacher, student, strict=True):
        pairs = zip(softened(t, temperature), softened(s, temperature), strict=True)
        apart += sum(p * math.log(p / q) for p, q in pairs) * temperature**2 / 2
    a, b, labels = torch.tensor(teacher), torch.tensor(student), torch.tensor([2, 0])
    assert float(divergence(a, b, temperature)) == pytest.approx(apart, rel=1e-5)
    task = -(math.log(softened(student[0], 1)[2]) + math.log(softened(student[1], 1)[0])) / 2
    assert float(following(a, b, labels, 0.3, 0.7, temperature)) == pytest.approx(0.3 * apart + 0.7 * task, rel=1e-5)


def slopes(loss, module):
    return torch.autograd.grad(loss, list(module.parameters()))


def adam(module, grads, lr, moments, step):
    """One step of Adam, from the formulas."""
    with torch.no_grad():
        for parameter, grad in zip(module.parameters(), grads, strict=True):
            m, v = moments.setdefault(parameter, (torch.zeros_like(parameter), torch.zeros_like(parameter)))
            m.mul_(0.9).add_(0.1 * grad)
            v.mul_(0.999).add_(0.001 * grad**2)
            parameter -= lr * (m / (1 - 0.9**step)) / ((v / (1 - 0.999**step)).sqrt() + 1e-8)


@pytest.mark.parametrize("request_", [REQUEST, EDGES], ids=["nodes", "edges"])
def test_steps_take_turns_on_both_graphs_and_equal_those_made_with_pygs_modules(request_):
    student, task, retained = trained("gcn[dropout=0]", request=request_)
    teacher = fitted("retrain", task_of(GRAPH, "gcn[dropout=0]", 10))._network
    # The ends of a forgotten edge are taught on both graphs.
    start, graph, at = student.state(0), retained.graph, request_.ids.flatten().unique()
    module = PygGCN(8, 3).take(teacher.state(0)).eval()
    with torch.no_grad():
        on_request, elsewhere = module(GRAPH.x, GRAPH.edge_index)[at], module(graph.x, graph.edge_index)
    module.take(start)
    wanted, moments, steps = [], {}, 0
    for epoch in range(3):
        away = None
        for way in ("up", "down")[epoch == 2 :]:
            if way == "up":
                loss = -divergence(on_request, module(GRAPH.x, GRAPH.edge_index)[at], 2)
                away = pytest.approx(-float(loss.detach()), rel=1e-3)
            else:
                loss = following(elsewhere, module(graph.x, graph.edge_index), graph.y, 0.4, 0.8, 2)
            steps += 1
            adam(module, slopes(loss, module), 0.01, moments, steps)
        wanted.append((away, pytest.approx(float(loss.detach()), rel=1e-3)))

    params = SCRUB.Params(epochs=3, max_steps=2, lr=0.01, alpha=0.4, gamma=0.8, temperature=2)
    losses = teach(teacher, student, task, request_, retained, params)
    assert losses == wanted
    assert losses[1][0] > losses[0][0] > 0.01
    gap, moved = far(module, start, student.state(0))
    assert gap < 0.05 * moved


@pytest.mark.parametrize("model", ["gcn", "gat", "plain"])
def test_the_student_leaves_its_teacher_on_the_request_further_than_elsewhere(model):
    network, task, retained = trained(model)
    teacher = network.copy()
    teach(network, network, task, REQUEST, retained, SCRUB.Params(epochs=20, max_steps=10, lr=0.005))
    on = [divergence(*(each.predict([GRAPH])[0][1][REQUEST.ids] for each in (teacher, network)), 1)]
    on += [divergence(*(each.predict([retained.graph])[0][1] for each in (teacher, network)), 1)]
    assert float(on[0]) > 2 * float(on[1])
    assert all(parameter.grad is None for parameter in network.parameters())


def test_climbing_once_is_a_step_of_adam_up_the_slope():
    network, task, retained = trained()
    start = network.state(0)
    module = PygGCN(8, 3).take(start).eval()
    loss = functional.cross_entropy(module(GRAPH.x, GRAPH.edge_index)[REQUEST.ids], GRAPH.y[REQUEST.ids])
    found = climb(network, task, REQUEST, retained, GradientAscent.Params(steps=1, lr=0.01))
    assert found == [pytest.approx(float(loss.detach()), rel=1e-4)]
    grads = slopes(loss, module)
    names = dict(zip(module.parameters(), grads, strict=True))
    moved = {name: value - start[name] for name, value in network.state(0).items()}
    for parameter, part in module.pairs(moved):
        clear = names[parameter].abs() > 1e-5
        torch.testing.assert_close(
            part.reshape(parameter.shape)[clear], 0.01 * names[parameter][clear].sign(), atol=1e-4, rtol=1e-2
        )


@pytest.mark.parametrize("model", ["gcn", "gat", "plain"])
def test_the_loss_of_the_request_rises(model):
    network, task, retained = trained(model)
    losses = climb(network, task, REQUEST, retained, GradientAscent.Params(steps=8))
    assert losses == sorted(losses)
    assert losses[-1] > 1.1 * losses[0]
    assert all(parameter.grad is None for parameter in network.parameters())
