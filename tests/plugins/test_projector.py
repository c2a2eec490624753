"""Projector: the projection by hand and against the pseudo-inverse, and what is left of a request in the weights."""

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from method_samples import (
    check_any_model_but_sgc_is_refused,
    check_nothing_is_held,
    check_predictions_are_pure,
    fitted,
    same,
    setting,
)

from unlearnbench.api.run import run
from unlearnbench.errors import UsageError
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning import Claim
from unlearnbench_projector import projection

WEIGHT = "members/000/weight"


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# The projection


def test_a_projection_by_hand():
    features = torch.tensor([[1.0, 1, 0], [2, 2, 0]], dtype=torch.float64)
    basis = projection.basis(features)
    assert len(basis) == 1
    found = projection.projected(torch.tensor([[1.0], [0], [5]], dtype=torch.float64), basis)
    torch.testing.assert_close(found, torch.tensor([[0.5], [0.5], [0]], dtype=torch.float64))


@given(
    seed=st.integers(0, 10**6),
    nodes=st.integers(1, 20),
    features=st.integers(1, 20),
    rank=st.integers(0, 20),
    sparse=st.booleans(),
)
@settings(max_examples=80, deadline=None)
def test_projections_are_the_pseudo_inverses_and_lie_in_the_span(seed, nodes, features, rank, sparse):
    rows = normal(nodes, rank, seed=seed) @ normal(rank, features, seed=seed + 1)
    if sparse:
        rows = rows * (torch.arange(features) % 8 == 0)
    weights = normal(features, 3, seed=seed + 2)
    basis = projection.basis(rows)
    assert len(basis) == int(torch.linalg.matrix_rank(rows))
    found = projection.projected(weights, basis)
    onto = torch.linalg.pinv(rows) @ rows
    torch.testing.assert_close(found, onto @ weights, rtol=0, atol=1e-6)
    # In the span, a projection (done twice it is the same), and what was removed is orthogonal to every row.
    combination = torch.linalg.lstsq(rows.T, found, driver="gelsd").solution
    torch.testing.assert_close(rows.T @ combination, found, rtol=0, atol=1e-6)
    torch.testing.assert_close(projection.projected(found, basis), found, rtol=0, atol=1e-6)
    torch.testing.assert_close(rows @ (weights - found), torch.zeros(nodes, 3, dtype=torch.float64), rtol=0, atol=1e-6)


@pytest.mark.parametrize("shape", [(4, 9), (9, 4)])
def test_features_of_zeros_span_nothing(shape):
    basis = projection.basis(torch.zeros(*shape, dtype=torch.float64))
    assert basis.shape == (0, shape[1])
    assert not bool(projection.projected(normal(shape[1], 2), basis).any())


# The method


def wide(num_nodes=40, **settings):
    """Fewer nodes than features, so that every node has a direction of its own."""
    return toy_task(toy_graph(num_nodes, num_features=60), model="sgc", **settings)


def served(bracket, task, requests):
    method = fitted(bracket, task)
    for request in requests:
        task = task.without(request)
        method.unlearn(request, task)
    return method, task


def outside(weights, graph):
    """Return the norm of the part of the weights outside the span of a graph's features."""
    x = graph.x.double()
    return float((weights - torch.linalg.pinv(x) @ x @ weights).norm() / weights.norm())


def test_trained_weights_lie_in_the_span_of_the_training_features():
    task = wide()
    assert outside(fitted("projector", task).state()[WEIGHT], task.graph) < 1e-9


@pytest.mark.parametrize("finetune", [0, 5])
@pytest.mark.parametrize("normalisation", ["mean", "symmetric"])
def test_after_a_stream_weights_lie_in_the_span_of_the_remaining_features(finetune, normalisation):
    task = wide()
    bracket = f"projector[finetune={finetune},normalisation={normalisation}]"
    requests = [Request(part) for part in task.graph.ids[5:15].split(3)]
    former = fitted(bracket, task).state()[WEIGHT]
    method, retained = served(bracket, task, requests)
    assert outside(former, retained.graph) > 0.1
    assert outside(method.state()[WEIGHT], retained.graph) < 1e-9
    if not finetune:
        x = retained.graph.x.double()
        torch.testing.assert_close(method.state()[WEIGHT], torch.linalg.pinv(x) @ x @ former)


def test_a_feature_that_only_the_forgotten_have_gets_no_weight():
    # The experiment of the paper: a feature that marks the nodes to be forgotten.
    task = toy_task(toy_graph(200, edges=500), model="sgc")
    marked = torch.zeros(200, 1)
    marked[:20] = 3
    task = replace(task, graph=replace(task.graph, x=torch.cat([task.graph.x, marked], dim=1)))
    method = fitted("projector", task)
    assert float(method.state()[WEIGHT][-1].norm()) > 0.1
    request = Request(task.graph.ids[:20])
    method.unlearn(request, task.without(request))
    assert float(method.state()[WEIGHT][-1].norm()) == 0


def test_where_the_span_stays_the_projection_alone_changes_no_bit():
    task = toy_task(model="sgc")
    request = Request(task.graph.ids[:5])
    method, _ = served("projector[finetune=0]", task, [request])
    assert same(method.state(), fitted("projector", task).state()) == []
    tuned, retained = served("projector", task, [request])
    assert same(method.state(), tuned.state()) != []
    # Fine-tuned for long, it is the optimum on the retained nodes, which training ends at.
    tuned, _ = served("projector[finetune=1000,lam=0.01]", task, [request])
    fresh = fitted("projector[lam=0.01]", retained)
    torch.testing.assert_close(tuned.state()[WEIGHT], fresh.state()[WEIGHT], rtol=0, atol=1e-5)


@pytest.mark.parametrize("bracket", ["projector", "projector[finetune=0]"])
def test_nothing_of_the_request_is_held_and_predictions_are_log_probabilities(bracket):
    graph, task, request = setting()
    task = replace(task, model=resolve(load_catalogue(), "model", "sgc"))
    method, retained = served(bracket, task, [request])
    check_nothing_is_held(method, task, request)
    check_predictions_are_pure(method, graph, retained)


def test_any_model_but_sgc_is_refused_before_training():
    check_any_model_but_sgc_is_refused("projector")


@pytest.mark.parametrize("parameter", ["lam=-1", "lam=inf", "lam=nan", "finetune=-1", "normalisation=max"])
def test_parameters_out_of_range_are_refused(parameter):
    with pytest.raises(UsageError, match=parameter.split("=")[0]):
        resolve(load_catalogue(), "unlearner", f"projector[{parameter}]")


def test_it_claims_no_more_than_features():
    method = resolve(load_catalogue(), "unlearner", "projector").build()
    assert (method.claim, method.claim_reason) == (Claim.APPROXIMATE, "features only")
    assert method.forgets == {"node"}


@pytest.mark.slow
def test_it_runs_on_digits(tmp_path):
    records = run(
        methods=["projector", "projector[finetune=0]"],
        models="sgc",
        repetitions=1,
        out=tmp_path,
        device="cpu",
        reference=False,
    )
    assert [record.status for record in records] == ["ok", "ok"]
    # 61 of 64 pixels vary, and 1,257 training nodes span them all.
    assert [record.counts["dimensions_lost"] for record in records] == [0, 0]
    assert [record.digests["unchanged"] for record in records] == [False, True]
    assert min(record.metrics["f1_micro"]["full"]["after"] for record in records) > 0.95
