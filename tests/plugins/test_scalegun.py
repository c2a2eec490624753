"""ScaleGUN: lazy propagation against propagating anew, its error and its certificate against exact gradients."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from method_samples import CATALOGUE, fitted, same, setting

from unlearnbench.audits.exactness.reach import reachable_tensors
from unlearnbench.errors import RefusedError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning import Claim, logistic, propagated
from unlearnbench_scalegun.method import error_bound
from unlearnbench_scalegun.propagation import mean_row, propagate, update

# Whose requests fit into the budget, and whose do not.
WITHIN, BEYOND = "scalegun[std=1,lam=1]", "scalegun[epsilon=0.01]"
KINDS = pytest.mark.parametrize("kind", ["node", "edge", "feature"])


def requests_of(graph: Graph, kind: str) -> list[Request]:
    """Three requests of a kind, one after the other."""
    if kind == "edge":
        return [Request(part, "edge") for part in graph.pairs()[::40].split(1)][:3]
    nodes = graph.ids[::20].split(1)[:3]
    return [Request(part) if kind == "node" else Request.of_features(part) for part in nodes]


def setting_sgc() -> tuple[Graph, object, Request]:
    graph, task, request = setting()
    return graph, replace(task, model=resolve(CATALOGUE, "model", "sgc[steps=3]")), request


def exact_rows(graph: Graph) -> torch.Tensor:
    rows = propagated(graph, 3, "mean")
    return rows - rows.mean(dim=0)


@KINDS
@pytest.mark.parametrize("steps", [1, 2, 3])
@pytest.mark.parametrize("weighted", [False, True])
def test_without_a_threshold_features_are_those_propagated_anew(kind: str, steps: int, weighted: bool) -> None:
    graph = toy_graph(num_nodes=80, edges=90)
    if weighted:
        half = torch.rand(graph.num_edges // 2, generator=torch.Generator().manual_seed(1)) + 0.5
        graph = replace(graph, edge_weight=torch.cat([half, half]))
    known = propagate(graph, steps)
    torch.testing.assert_close(known.levels[-1], propagated(graph, steps, "mean"))
    for request in requests_of(graph, kind):
        after = request.apply(graph)
        former, known = known, update(known, graph, request, after, 0.0)
        torch.testing.assert_close(known.levels[-1], propagated(after, steps, "mean"))
        assert known.error == 0
        # What is not near the request is what it was, bit for bit.
        kept = torch.isin(graph.ids, after.ids)
        other = (known.levels[-1] != former.levels[-1][kept]).any(dim=1)
        assert 0 < int(other.sum()) == known.changed < after.num_nodes
        torch.testing.assert_close(mean_row(after, steps), known.levels[-1].mean(dim=0))
        graph = after


@KINDS
@pytest.mark.parametrize("threshold", [0.02, 0.1, 10.0])
def test_the_error_of_lazy_features_is_never_above_its_bound(kind: str, threshold: float) -> None:
    graph, found = toy_graph(num_nodes=80, edges=200), []
    known = propagate(graph, 3)
    for request in requests_of(graph, kind):
        after = request.apply(graph)
        known = update(known, graph, request, after, threshold)
        distance = (known.levels[-1] - propagated(after, 3, "mean")).norm(dim=1).max()
        assert float(distance) <= known.error + 1e-12
        found.append(known.error)
        graph = after
    assert all(0 < error <= 2 * threshold for error in found)


def test_a_change_that_was_left_out_is_passed_on_later() -> None:
    graph = toy_graph(num_nodes=80, edges=200)
    first, second = requests_of(graph, "node")[:2]
    middle = first.apply(graph)
    lazy = update(propagate(graph, 2), graph, first, middle, 10.0)
    after = second.apply(middle)
    # Without a threshold now; rows that only the first request changed are not looked at again.
    found = update(lazy, middle, second, after, 0.0)
    assert lazy.error >= found.error > 0
    distance = (found.levels[-1] - propagated(after, 2, "mean")).norm(dim=1).max()
    assert 0 < float(distance) <= found.error


def test_the_gradient_on_other_rows_is_within_its_bound_and_the_bound_by_hand() -> None:
    rng = torch.Generator().manual_seed(0)
    rows = torch.randn(30, 4, generator=rng, dtype=torch.float64)
    y = logistic.signs(torch.arange(30) % 3, 3)
    weights = torch.randn(4, 3, generator=rng, dtype=torch.float64)
    for error in (1e-6, 0.01, 1.0):
        moved = torch.randn(30, 4, generator=rng, dtype=torch.float64)
        moved = rows + error * moved / moved.norm(dim=1, keepdim=True)
        apart = logistic.gradient(weights, rows, y, 0.1) - logistic.gradient(weights, moved, y, 0.1)
        assert 0 < float(apart.norm()) <= error_bound(weights, rows, y, error)
    assert error_bound(weights, rows, y, 0.0) == 0
    # One node of length 2, score 0: a slope of 1/2, |w| = 3 at a right angle.
    one = error_bound(
        torch.tensor([[0.0], [3.0]]).double(), torch.tensor([[2.0, 0.0]]).double(), torch.ones(1, 1).double(), 0.1
    )
    assert one == pytest.approx(0.1 * (1 / 2 + 3 * (2 + 0.1) / 4))


@KINDS
def test_a_step_is_newtons_and_what_is_spent_is_never_below_the_gradient_on_exact_features(kind: str) -> None:
    _, task, _ = setting_sgc()
    method = fitted("scalegun[std=1,lam=1,threshold=0.001]", task)
    y = logistic.signs(task.graph.y, 3)
    noise = -logistic.gradient(method.state()["members/000/weight"], exact_rows(task.graph), y, 1.0)
    spent = [method._spent]
    for request in requests_of(task.graph, kind):
        before, former = method.state()["members/000/weight"], task
        task = task.without(request)
        method.unlearn(request, task)
        weights, rows = method.state()["members/000/weight"], exact_rows(task.graph)
        y = logistic.signs(task.graph.y, 3)
        left = logistic.gradient(weights, rows, y, 1.0) + noise
        lazy = method._propagation.levels[-1] - method.state()["members/000/centre"]
        bound = error_bound(weights, lazy, y, method._propagation.error)
        assert float(left.norm()) <= method._spent + bound <= method.budget
        spent.append(method._spent)
        old = logistic.gradient(before, exact_rows(former.graph), logistic.signs(former.graph.y, 3), 1.0)
        change = old - logistic.gradient(before, rows, y, 1.0)
        torch.testing.assert_close(weights - before, logistic.solve(before, rows, 1.0, change), rtol=0.1, atol=1e-3)
    assert method._trainings == 1
    assert all(b > a for a, b in pairwise(spent))


def test_a_budget_that_is_spent_is_answered_by_a_retrain_on_features_propagated_anew() -> None:
    _, task, request = setting_sgc()
    method = fitted(BEYOND, task)
    retained = task.without(request)
    method.unlearn(request, retained)
    assert method._trainings == 2
    assert method._propagation.error == 0
    assert torch.equal(method._propagation.levels[-1], propagate(retained.graph, 3).levels[-1])


@pytest.mark.parametrize("bracket", [WITHIN, BEYOND])
def test_nothing_of_the_request_is_held(bracket: str) -> None:
    _, task, request = setting_sgc()
    method = fitted(bracket, task)
    method.unlearn(request, task.without(request))
    constants = task.graph.induced(request.ids).x
    constants = constants[constants > 0].double()
    for tensor in reachable_tensors(method):
        assert not bool(torch.isin(tensor.double(), request.ids.double()).any())
        assert not bool(torch.isin(tensor.double(), constants).any())


def test_other_models_are_refused_and_the_claim_is_the_certificate() -> None:
    with pytest.raises(RefusedError, match="scalegun"):
        fitted("scalegun", toy_task(model="gcn"))
    with pytest.raises(RefusedError, match="at least once"):
        fitted("scalegun", toy_task(model="sgc[steps=0]"))
    method = resolve(CATALOGUE, "unlearner", "scalegun[epsilon=0.5]").build()
    assert (method.claim, method.claim_reason) == (Claim.CERTIFIED, "epsilon 0.5, delta 0.0001")
    assert method.budget == pytest.approx(0.1 * 0.5 / math.sqrt(2 * math.log(1.5e4)))


def test_two_runs_of_one_task_are_the_same() -> None:
    _, task, request = setting_sgc()
    states = []
    for _ in range(2):
        method = fitted("scalegun", task)
        method.unlearn(request, task.without(request))
        states.append(method.state())
    assert same(*states) == []
