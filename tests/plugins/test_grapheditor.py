"""GraphEditor: the inverse by hand and against a fresh one, and the method against a training without the request."""

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
from unlearnbench.unlearning import Claim, propagated
from unlearnbench_grapheditor import ridge

WEIGHT = "members/000/weight"
VARIANTS = [
    "graph-editor",
    "graph-editor[normalisation=mean]",
    "graph-editor[lam=0.001]",
    "graph-editor[finetune=3]",
]


def normal(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


# The inverse


def test_one_row_is_removed_by_hand():
    # Z'Z + I is diag(2, 5) with both rows, diag(2, 1) without (0, 2).
    rows = torch.tensor([[1.0, 0], [0, 2]], dtype=torch.float64)
    start = ridge.inverse(rows, 1.0)
    torch.testing.assert_close(start, torch.diag(torch.tensor([1 / 2, 1 / 5], dtype=torch.float64)))
    left = ridge.updated(start, rows[1:], -1)
    torch.testing.assert_close(left, torch.diag(torch.tensor([1 / 2, 1], dtype=torch.float64)))
    torch.testing.assert_close(ridge.updated(left, rows[1:], 1), start)


@given(
    seed=st.integers(0, 10**6),
    features=st.integers(1, 12),
    gone=st.integers(0, 30),
    come=st.integers(0, 30),
    lam=st.floats(1e-3, 10),
)
@settings(max_examples=60, deadline=None)
def test_an_exchanged_inverse_is_the_fresh_one(seed, features, gone, come, lam):
    rows, others = normal(40, features, seed=seed), normal(come, features, seed=seed + 1)
    after = ridge.exchanged(ridge.inverse(rows, lam), rows[:gone], others)
    fresh = torch.linalg.inv(
        rows[gone:].T @ rows[gone:] + others.T @ others + lam * torch.eye(features, dtype=torch.float64)
    )
    torch.testing.assert_close(after, fresh, rtol=1e-7, atol=1e-9)


def test_rows_that_are_not_in_it_cannot_be_removed():
    assert ridge.updated(ridge.inverse(normal(5, 3), 1.0), 100 * normal(2, 3, seed=1), -1) is None


def test_a_fresh_inverse_is_taken_where_it_is_cheaper():
    # 4 k F^2 against n F^2 + F^3.
    assert not ridge.is_cheaper_afresh(25, 60, 40)
    assert ridge.is_cheaper_afresh(26, 60, 40)


# The method


def large(model="sgc[steps=1]", **settings):
    """Enough nodes for a request to be served by an exchange of rows."""
    graph = toy_graph(400, edges=500, num_features=6)
    return toy_task(graph, model=model, **settings)


def counted(task):
    counts = {}

    class Counting(type(task.listener)):
        def count(self, **amounts):
            counts.update({name: counts.get(name, 0) + amount for name, amount in amounts.items()})

    return replace(task, listener=Counting()), counts


def serve(method, task, requests):
    for request in requests:
        task = task.without(request)
        method.unlearn(request, task)
    return task


def closed_form(task, lam):
    """Solve the ridge regression by least squares on the rows and sqrt(lam) times the unit rows."""
    rows = torch.nn.functional.pad(propagated(task.graph, task.model.params.steps, "symmetric"), (0, 1), value=1.0)
    width = rows.shape[1]
    y = torch.nn.functional.one_hot(task.graph.y, task.graph.num_classes).double()
    left = torch.cat([rows, lam**0.5 * torch.eye(width, dtype=torch.float64)])
    return torch.linalg.lstsq(left, torch.cat([y, torch.zeros(width, y.shape[1], dtype=torch.float64)])).solution


def test_it_is_trained_in_closed_form():
    task = large()
    torch.testing.assert_close(fitted("graph-editor", task).state()[WEIGHT], closed_form(task, 0.1))
    torch.testing.assert_close(fitted("graph-editor[lam=2]", task).state()[WEIGHT], closed_form(task, 2))


@pytest.mark.parametrize("bracket", VARIANTS[:3])
@pytest.mark.parametrize("kind", ["node", "edge"])
def test_a_stream_ends_where_a_training_without_it_ends(bracket, kind):
    task, counts = counted(large())
    graph = task.graph
    method = fitted(bracket, task)
    parts = graph.ids[100:140].split(2) if kind == "node" else graph.pairs()[::20].split(1)
    before = method.state()[WEIGHT]
    retained = serve(method, task, [Request(part, kind) for part in parts])
    fresh = fitted(bracket, retained)
    assert counts["solved_afresh"] == 0
    assert counts["rows_changed"] > 40
    torch.testing.assert_close(method.state()[WEIGHT], fresh.state()[WEIGHT], rtol=0, atol=1e-10)
    torch.testing.assert_close(method._inverse, fresh._inverse, rtol=0, atol=1e-8)
    assert float((before - method.state()[WEIGHT]).abs().max()) > 1e-3


def test_a_large_request_is_solved_afresh_with_the_bits_of_a_training():
    task, counts = counted(large())
    method = fitted("graph-editor", task)
    retained = serve(method, task, [Request(task.graph.ids[:200])])
    assert counts["solved_afresh"] == 1
    assert same(method.state(), fitted("graph-editor", retained).state()) == []


def test_an_inverse_that_rounding_spoiled_is_solved_afresh(monkeypatch):
    monkeypatch.setattr(ridge, "exchanged", lambda *_: None)
    task, counts = counted(large())
    method = fitted("graph-editor", task)
    retained = serve(method, task, [Request(task.graph.ids[:1])])
    assert counts["solved_afresh"] == 1
    assert same(method.state(), fitted("graph-editor", retained).state()) == []


def test_only_rows_in_reach_are_read():
    task = large()
    method = fitted("graph-editor[normalisation=mean]", task)
    request = Request(task.graph.ids[:1])
    retained = task.without(request)
    far = retained.graph.x.clone()
    near = torch.cat([one for one in task.graph.pairs() if 0 in one.tolist()])
    second = torch.cat([one for one in task.graph.pairs() if bool(torch.isin(one, near).any())])
    far[~torch.isin(retained.graph.ids, torch.cat([near, second]))] = torch.nan
    method.unlearn(request, replace(retained, graph=replace(retained.graph, x=far)))
    assert bool(torch.isfinite(method.state()[WEIGHT]).all())


def test_fine_tuning_lowers_the_cross_entropy_and_starts_from_the_closed_form():
    task = large()
    rows = torch.nn.functional.pad(propagated(task.graph, 1, "symmetric"), (0, 1), value=1.0)
    losses = [
        float(torch.nn.functional.cross_entropy(rows @ fitted(one, task).state()[WEIGHT], task.graph.y))
        for one in ("graph-editor", "graph-editor[finetune=1]", "graph-editor[finetune=20]")
    ]
    assert losses[0] > losses[1] > losses[2]
    # Tuned weights are not what the next request starts from.
    tuned, plain = fitted("graph-editor[finetune=3]", task), fitted("graph-editor", task)
    assert torch.equal(tuned._inverse @ tuned._products, plain.state()[WEIGHT])


@pytest.mark.parametrize("bracket", VARIANTS)
def test_nothing_of_the_request_is_held_and_predictions_are_log_probabilities(bracket):
    graph, task, request = setting()
    task = replace(task, model=resolve(load_catalogue(), "model", "sgc"))
    method = fitted(bracket, task)
    retained = serve(method, task, [request])
    check_nothing_is_held(method, task, request)
    check_predictions_are_pure(method, graph, retained)


def test_any_model_but_sgc_is_refused_before_training():
    check_any_model_but_sgc_is_refused("graph-editor")


@pytest.mark.parametrize("parameter", ["lam=0", "lam=-1", "lam=inf", "lam=nan", "finetune=-1", "normalisation=max"])
def test_parameters_out_of_range_are_refused(parameter):
    with pytest.raises(UsageError, match=parameter.split("=")[0]):
        resolve(load_catalogue(), "unlearner", f"graph-editor[{parameter}]")


def test_it_claims_what_the_audit_finds():
    plain, tuned = (resolve(load_catalogue(), "unlearner", one).build() for one in (VARIANTS[0], VARIANTS[3]))
    assert (plain.claim, plain.claim_reason) == (Claim.APPROXIMATE, "exact but for rounding")
    assert (tuned.claim, tuned.claim_reason) == (Claim.APPROXIMATE, "")


@pytest.mark.parametrize("kind", ["node", "edge"])
def test_it_runs_on_digits(kind, tmp_path):
    (record,) = run(
        methods="graph-editor",
        models="sgc",
        repetitions=1,
        out=tmp_path,
        device="cpu",
        reference=False,
        forget_kind=kind,
    )
    assert record.status == "ok"
    assert record.counts["rows_changed"] > 9
    assert record.metrics["f1_micro"]["full"]["after"] > 0.95
