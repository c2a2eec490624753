"""CGU: the regressions against autograd and dense algebra, the certificate, the budget and the retrain."""

import math
from dataclasses import replace
from itertools import pairwise

import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from hypothesis import given, settings
from hypothesis import strategies as st
from method_samples import answers, fitted, same, setting
from torch_geometric.nn import SGConv

from unlearnbench.api.run import run
from unlearnbench.audits.exactness.reach import reachable_tensors
from unlearnbench.errors import RefusedError
from unlearnbench.protocol import Forget, Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.runner import run_cell, warm_up
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning import Claim, logistic, propagated

LAM = 0.02
# Whose requests fit into the budget, and whose do not.
WITHIN, BEYOND = "cgu[std=1,lam=1]", "cgu[epsilon=0.01]"


def seeded(seed=0):
    return torch.Generator().manual_seed(seed)


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=seeded(seed), dtype=torch.float64)


def problem(nodes=30, features=4, classes=3, seed=0):
    rows = torch.nn.functional.normalize(normal(nodes, features, seed=seed), dim=1)
    y = logistic.signs(torch.arange(nodes) % classes, classes)
    return rows, y, normal(features, classes, seed=seed + 1)


def setting_sgc(epochs=6):
    graph, task, request = setting()
    return graph, replace(task, model=resolve(load_catalogue(), "model", "sgc")), request


# The regressions


def test_gradient_and_product_are_autograds():
    rows, y, weights = problem()
    noise, direction = normal(4, 3, seed=5), normal(4, 3, seed=6)
    value, slope = torch.autograd.functional.vjp(lambda w: logistic.loss(w, rows, y, LAM, noise), weights)
    torch.testing.assert_close(logistic.gradient(weights, rows, y, LAM) + noise, slope)
    _, image = torch.autograd.functional.vhp(lambda w: logistic.loss(w, rows, y, LAM, noise), weights, direction)
    torch.testing.assert_close(logistic.product(weights, rows, LAM, direction), image)
    by_hand = sum(
        math.log1p(math.exp(-float(y[i, c] * (rows[i] @ weights[:, c])))) for i in range(30) for c in range(3)
    )
    by_hand += 30 * LAM / 2 * float(weights.square().sum()) + float((noise * weights).sum())
    assert float(value) == pytest.approx(by_hand)


def test_conjugate_gradients_give_the_dense_solution_column_by_column():
    rows, _, weights = problem()
    target = normal(4, 3, seed=7) * torch.tensor([1.0, 0.0, 1e6])
    found = logistic.solve(weights, rows, LAM, target)
    for column in range(3):
        probability = torch.sigmoid(rows @ weights[:, column])
        dense = rows.T @ ((probability * (1 - probability))[:, None] * rows) + 30 * LAM * torch.eye(
            4, dtype=torch.float64
        )
        torch.testing.assert_close(found[:, column], torch.linalg.solve(dense, target[:, column]), rtol=1e-6, atol=0)


def test_training_ends_at_the_optimum():
    rows, y, noise = problem()
    weights, steps = logistic.minimise(rows, y, LAM, noise)
    assert float((logistic.gradient(weights, rows, y, LAM) + noise).norm()) < 1e-6
    assert steps > 3


@given(seed=st.integers(0, 10**6), changed=st.integers(1, 10), lam=st.floats(1e-4, 0.1), noise=st.floats(0, 5))
@settings(max_examples=40, deadline=None)
def test_the_gradient_left_behind_is_never_above_its_bound(seed, changed, lam, noise):
    rows, y, drawn = problem(seed=seed)
    weights, _ = logistic.minimise(rows, y, lam, noise * drawn)
    spent = float((logistic.gradient(weights, rows, y, lam) + noise * drawn).norm())
    # Some nodes go, and as many others change.
    after = rows[changed:].clone()
    after[:changed] = torch.nn.functional.normalize(after[:changed] + normal(changed, 4, seed=seed + 9), dim=1)
    change = logistic.gradient(weights, rows, y, lam) - logistic.gradient(weights, after, y[changed:], lam)
    step = logistic.solve(weights, after, lam, change)
    left = float((change - logistic.product(weights, after, lam, step)).norm())
    found = float((logistic.gradient(weights + step, after, y[changed:], lam) + noise * drawn).norm())
    assert found <= spent + left + logistic.residual_bound(after, step, logistic.GAMMA["tight"]) + 1e-9


def test_the_bound_and_the_budget_by_hand():
    rows = torch.tensor([[3.0, 0], [0, 2]], dtype=torch.float64)
    step = torch.tensor([[1.0, 0], [0, 2]], dtype=torch.float64)
    # |Z| = 3, longest row 3; class 0: |s| 1, |Z s| 3; class 1: |s| 2, |Z s| 4.
    assert logistic.residual_bound(rows, step) == pytest.approx(0.25 * 3 * 3 * math.hypot(1 * 3, 2 * 4))
    assert logistic.residual_bound(rows.repeat(1, 3), step.repeat(3, 1) / 3) > 0
    # Of s (1 - s) the steepest slope, where s is 1/2 plus or minus 1 / sqrt 12.
    at = torch.linspace(-4, 4, 8001, dtype=torch.float64).sigmoid()
    slope = (at * (1 - at) * (1 - 2 * at)).abs().max()
    assert float(slope) == pytest.approx(logistic.GAMMA["tight"], rel=1e-6)
    spent = [unlearned(name)[2]._spent for name in ("cgu[constant=tight]", "cgu")]
    assert spent[0] < spent[1]
    assert logistic.budget(0.5, 2.0, 1.5 * math.exp(-8)) == pytest.approx(0.25)


@pytest.mark.parametrize("steps", [0, 1, 3])
def test_propagation_is_the_models_or_the_mean(steps):
    graph = toy_graph()
    rows = torch.nn.functional.normalize(graph.x.double(), dim=1)
    found = propagated(graph, steps, "symmetric")
    if steps:
        module = SGConv(8, 8, K=steps, bias=False).double()
        module.lin = torch.nn.Identity()
        torch.testing.assert_close(found, module(rows, graph.edge_index))
    dense = torch.eye(60, dtype=torch.float64)
    dense[graph.edge_index[1], graph.edge_index[0]] = 1
    dense = torch.linalg.matrix_power(dense / dense.sum(dim=1, keepdim=True), steps)
    torch.testing.assert_close(propagated(graph, steps, "mean"), dense @ rows)
    assert float(propagated(graph, steps, "mean").norm(dim=1).max()) <= 1 + 1e-12


def test_nodes_without_features_stay_at_zero():
    graph = toy_graph()
    assert not bool(propagated(replace(graph, x=torch.zeros_like(graph.x)), 2, "mean").any())


# The method


KINDS = pytest.mark.parametrize("kind", ["node", "edge"])


def to_forget(task, request, kind):
    return request.ids if kind == "node" else task.graph.pairs()[::50]


def unlearned(bracket, requests=1, kind="node"):
    graph, task, request = setting_sgc()
    method = fitted(bracket, task)
    first, trainings = method.state(), []
    for ids in to_forget(task, request, kind).chunk(requests):
        part = Request(ids, kind)
        task = task.without(part)
        method.unlearn(part, task)
        trainings.append(method._trainings)
    return graph, task, method, first, trainings


@KINDS
def test_a_step_within_the_budget_is_newtons_on_the_retained_loss(kind):
    _, task, _ = setting_sgc()
    _, retained, method, first, trainings = unlearned(WITHIN, kind=kind)
    assert trainings == [1]
    former, after = (propagated(each.graph, 2, "mean") for each in (task, retained))
    former, after = former - former.mean(dim=0), after - after.mean(dim=0)
    y, y_after = (logistic.signs(each.graph.y, 3) for each in (task, retained))
    weights = first["members/000/weight"]
    # At the optimum the random term is the gradient of the rest with the sign changed.
    noise = -logistic.gradient(weights, former, y, 1.0)
    for column in range(3):

        def loss(w, column=column):
            return logistic.loss(w[:, None], after, y_after[:, [column]], 1.0, noise[:, [column]])

        start = weights[:, column]
        step = torch.linalg.solve(
            torch.autograd.functional.hessian(loss, start), torch.autograd.functional.jacobian(loss, start)
        )
        torch.testing.assert_close(method.state()["members/000/weight"][:, column], start - step, rtol=1e-5, atol=1e-7)
    torch.testing.assert_close(method.state()["members/000/centre"], propagated(retained.graph, 2, "mean").mean(dim=0))


@KINDS
def test_what_is_spent_adds_up_and_is_never_below_the_gradient(kind):
    _, task, request = setting_sgc()
    method = fitted(WITHIN, task)
    noise = -method.gradient(task, method._centred(task)[0])
    spent = [method._spent]
    for ids in to_forget(task, request, kind).split(1):
        part = Request(ids, kind)
        task = task.without(part)
        method.unlearn(part, task)
        spent.append(method._spent)
        assert float((method.gradient(task, method._centred(task)[0]) + noise).norm()) <= method._spent
    assert method._trainings == 1
    assert all(b > a for a, b in pairwise(spent))


def test_a_budget_that_is_spent_is_answered_by_a_retrain_that_never_saw_the_request():
    _, retained, method, _, trainings = unlearned(BEYOND)
    assert trainings == [2]
    # The second training of a method that never held the request, with the second noise.
    never = fitted(BEYOND, retained)
    never.train(retained, never._centred(retained)[0])
    assert same(method.state(), never.state()) == []
    assert same(method.state(), fitted(BEYOND, retained).state()) != []


def test_the_budget_is_a_border():
    _, _, method, _, _ = unlearned(WITHIN)
    needed = method._spent / method.budget
    for share, trainings in ((1.05, [1]), (0.95, [2])):
        assert unlearned(f"cgu[std=1,lam=1,epsilon={needed * share}]")[4] == trainings


def test_a_retrain_gives_the_budget_back():
    # The budget is for two of the four requests.
    _, _, method, _, trainings = unlearned(WITHIN, requests=4)
    assert trainings == [1, 1, 1, 1]
    _, _, method, _, trainings = unlearned(f"cgu[std=1,lam=1,epsilon={0.6 * method._spent / method.budget}]", 4)
    assert trainings[0] == 1
    assert trainings[-1] == 2
    assert method._spent <= method.budget


def test_training_that_misses_the_budget_is_refused():
    with pytest.raises(RefusedError, match="Training stopped at a gradient of"):
        fitted("cgu[std=1e-12]", setting_sgc()[1])


@pytest.mark.parametrize("model", ["gcn", "mlp", "appnp"])
def test_any_model_but_sgc_is_refused_before_training(model):
    with pytest.raises(RefusedError, match=f"no use for the model '{model}'"):
        fitted("cgu", toy_task(model=model))


def test_a_refused_model_is_a_refused_record():
    record, _, _ = run_cell(cell("cgu"), GRAPH, surroundings())
    assert record.status == "refused"
    assert "gcn" in record.notes[0]
    assert "the model 'sgc'" in record.notes[0]


def test_the_number_of_propagations_is_the_models():
    states = [fitted("cgu", toy_task(model=model)).state()["members/000/weight"] for model in ("sgc", "sgc[steps=1]")]
    assert not torch.allclose(*states)


def test_predictions_are_log_probabilities_and_change_nothing():
    graph, retained, method, _, _ = unlearned("cgu")
    before = method.state()
    for answer in answers(method, graph, retained):
        assert answer.dtype is torch.float32
        torch.testing.assert_close(answer.exp().sum(dim=1), torch.ones(len(answer)))
    assert same(before, method.state()) == []


@pytest.mark.parametrize("bracket", [WITHIN, BEYOND, "cgu[std=1,lam=1,centre=false]"])
def test_nothing_of_the_request_is_held(bracket):
    _, task, request = setting_sgc()
    _, _, method, _, _ = unlearned(bracket)
    constants = task.graph.induced(request.ids).x
    constants = constants[constants > 0].double()
    for tensor in reachable_tensors(method):
        assert not bool(torch.isin(tensor.double(), request.ids.double()).any())
        assert not bool(torch.isin(tensor.double(), constants).any())


def sgc_cell(bracket, graph=GRAPH):
    return replace(cell(bracket, graph, Forget(0.02)), model=resolve(load_catalogue(), "model", "sgc"))


def test_labels_of_test_nodes_change_no_parameter():
    record, arrays, state = run_cell(sgc_cell("cgu"), GRAPH, surroundings())
    assert record.status == "ok"
    others = GRAPH.y.clone()
    unseen = GRAPH.positions(torch.from_numpy(arrays["test"]))
    others[unseen] = (others[unseen] + 1) % GRAPH.num_classes
    graph = replace(GRAPH, y=others)
    _, _, again = run_cell(sgc_cell("cgu", graph), graph, surroundings())
    assert same(state, again) == []


def test_it_claims_its_certificate():
    method = resolve(load_catalogue(), "unlearner", "cgu[epsilon=0.5]").build()
    assert method.claim is Claim.CERTIFIED
    assert method.claim_reason == "epsilon 0.5, delta 0.0001"


def test_it_warms_up():
    warm_up(sgc_cell("cgu"), torch.device("cpu"))


def test_it_runs_on_digits(tmp_path):
    records = run(methods=["cgu", BEYOND], models="sgc", repetitions=1, out=tmp_path, device="cpu", reference=False)
    assert [record.status for record in records] == ["ok", "ok"]
    assert [record.counts["retrained"] for record in records] == [0, 1]
    assert min(record.metrics["f1_micro"]["full"]["after"] for record in records) > 0.9
    assert records[0].claim == {"claim": "certified", "reason": "epsilon 1, delta 0.0001"}
