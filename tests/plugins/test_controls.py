"""The controls: what each keeps, what it changes, and the graph it is scored with."""

from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from hypothesis import given, settings
from hypothesis import strategies as st
from method_samples import answers, fitted, same, setting

from unlearnbench.api.run import run
from unlearnbench.audits.exactness.reach import reachable_tensors
from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.runner import run_cell, warm_up
from unlearnbench.task import View
from unlearnbench.testing.graphs import toy_task
from unlearnbench.unlearning import Claim
from unlearnbench_controls.damaged import loss
from unlearnbench_controls.leak import leaked

CONTROLS = ["noop", "utu", "noop-full", "random-init", "retrain-leak", "over-forget"]
MANY = Forget(0.1)


def forgotten(text):
    """The method before and after the request: its states and itself."""
    _, task, request = setting()
    retained = task.without(request)
    method = fitted(text, task)
    before = method.state()
    method.unlearn(request, retained)
    return before, method.state(), method


@pytest.mark.parametrize("text", CONTROLS)
def test_before_the_request_each_has_the_bits_of_retrain_and_claims_nothing(text):
    _, task, _ = setting()
    method = fitted(text, task)
    assert same(method.state(), fitted("retrain", task).state()) == []
    assert method.claim is Claim.NONE


@pytest.mark.parametrize("text", [name for name in CONTROLS if name != "noop-full"])
def test_each_but_one_lets_go_of_the_former_task(text):
    _, task, request = setting()
    constants = task.graph.induced(request.ids).x
    constants = constants[constants > 0].double()
    method = fitted(text, task)
    method.unlearn(request, task.without(request))
    for tensor in reachable_tensors(method):
        assert not bool(torch.isin(tensor.double(), request.ids.double()).any())
        assert not bool(torch.isin(tensor.double(), constants).any())


# Weights kept


@pytest.mark.parametrize("text", ["noop", "utu", "noop-full"])
def test_kept_weights_are_flagged_as_unchanged(text):
    record, _, _ = run_cell(cell(text, forget=MANY), GRAPH, surroundings())
    assert record.status == "ok"
    assert record.digests["before"] == record.digests["after"]
    assert record.digests["unchanged"]


def test_noop_and_noop_full_differ_only_by_the_graph_they_are_asked_with():
    kept = {text: run_cell(cell(text, forget=MANY), GRAPH, surroundings()) for text in ("noop", "noop-full")}
    (noop, first, state), (full, second, other) = kept["noop"], kept["noop-full"]
    assert same(state, other) == []
    for part in ("test/shard", "test/full", "val/shard", "val/full"):
        assert np.array_equal(first[f"before/{part}"], second[f"before/{part}"])
        assert np.array_equal(second[f"after/{part}"], second[f"before/{part}"])
        assert not np.array_equal(first[f"after/{part}"], second[f"after/{part}"])
    note = "scored with the graph as it was before the request."
    assert note in full.notes
    assert note not in noop.notes
    assert full.metrics["f1_micro"]["full"]["after"] == full.metrics["f1_micro"]["full"]["before"]


def test_noop_full_cannot_be_asked_with_the_retained_graph():
    graph, task, request = setting()
    retained = task.without(request)
    method = fitted("noop-full", task)
    method.unlearn(request, retained)
    with pytest.raises(RefusedError, match="4 nodes that are not retained"):
        answers(method, graph, retained)
    assert method.predict(task.query(request.ids, View.FULL)).shape == (4, 3)


def test_only_noop_full_is_scored_with_the_graph_from_before():
    catalogue = load_catalogue()
    ours = [entry for entry in catalogue.all("unlearner") if entry.distribution == "unlearnbench"]
    full = [entry.name for entry in ours if not catalogue.load(entry).deletes_at_inference]
    assert full == ["noop-full"]


# A leak


@pytest.mark.parametrize("k", [0, 1])
def test_a_leak_of_nothing_is_retrain_and_a_leak_of_all_is_the_network_from_before(k):
    before, after, method = forgotten(f"retrain-leak[k={k}]")
    _, retrained, _ = forgotten("retrain")
    assert same(after, before if k else retrained) == []
    assert same(after, retrained if k else before) != []
    assert method.claim is Claim.NONE


def test_a_leak_equals_a_run_that_never_saw_the_rest_of_the_request():
    _, task, request = setting()
    _, after, _ = forgotten("retrain-leak[k=0.25]")
    kept = leaked(request.ids, 0.25, task)
    assert len(kept) == 1
    never = task.without(Request(request.ids[request.ids != kept]))
    assert same(after, fitted("retrain", never).state()) == []


@given(
    shares=st.lists(st.floats(0, 1), min_size=2, max_size=2),
    ids=st.lists(st.integers(0, 10**12), min_size=1, max_size=40, unique=True),
    seed=st.integers(0, 2**40),
)
@settings(max_examples=50, deadline=None)
def test_a_smaller_leak_is_part_of_every_larger_one(shares, ids, seed):
    task = TASKS.setdefault("task", toy_task())
    task, ids = replace(task, seed=seed), torch.tensor(ids)
    small, large = (set(leaked(ids, k, task).tolist()) for k in sorted(shares))
    assert small <= large <= set(ids.tolist())
    assert abs(len(large) - max(shares) * len(ids)) <= 0.5 + 1e-9
    assert set(leaked(ids.flip(0), max(shares), task).tolist()) == large


TASKS = {}


def test_which_nodes_leak_depends_on_the_seed():
    ids = torch.arange(40)
    first, second = (set(leaked(ids, 0.5, toy_task(seed=seed)).tolist()) for seed in (0, 1))
    assert len(first) == len(second) == 20
    assert first != second


@pytest.mark.parametrize("k", [-0.1, 1.1])
def test_a_leak_is_a_share(k):
    with pytest.raises(UsageError, match="k"):
        resolve(load_catalogue(), "unlearner", f"retrain-leak[k={k}]")


def test_a_second_request_ends_the_leak_of_the_first():
    _, task, request = setting()
    first, second = Request(request.ids[:2]), Request(request.ids[2:])
    middle = task.without(first)
    method = fitted("retrain-leak[k=1]", task)
    method.unlearn(first, middle)
    method.unlearn(second, middle.without(second))
    assert same(method.state(), fitted("retrain", middle).state()) == []


# Too much forgotten


def test_a_network_drawn_anew_depends_on_no_data_and_is_not_retrains_start():
    _, task, request = setting()
    _, after, _ = forgotten("random-init")
    graph = task.graph
    other = Graph(graph.x + 1, graph.y.flip(0), graph.edge_index[:, :50], graph.ids, graph.num_classes)
    method = fitted("random-init", replace(task, graph=other))
    elsewhere = Request(graph.ids[5:9])
    method.unlearn(elsewhere, replace(task, graph=other).without(elsewhere))
    assert same(after, method.state()) == []
    start = fitted("retrain", replace(task, training=replace(task.training, epochs=0))).state()
    weights = [name for name in after if name.endswith("weight")]
    assert weights
    assert set(weights) <= set(same(after, start))
    method = fitted("random-init", replace(task, seed=task.seed + 1))
    method.unlearn(request, task.without(request))
    assert same(after, method.state()) == []  # the seed is that of the retained task


def losses_of_the_request(model, texts):
    _, task, request = setting()
    task = replace(task, model=resolve(load_catalogue(), "model", model), training=replace(task.training, epochs=60))
    losses = []
    for text in texts:
        method = fitted(text, task)
        method.unlearn(request, task.without(request))
        assert all(bool(torch.isfinite(value).all()) for value in method.state().values())
        losses.append(float(loss(method._network, task.graph, request.ids).detach()))
    return losses


@pytest.mark.slow
@pytest.mark.parametrize("model", ["gcn", "gat"])
def test_over_forgetting_raises_the_loss_of_the_request_the_more_the_further_it_goes(model):
    losses = losses_of_the_request(model, ["noop", "over-forget[steps=5]", "over-forget", "over-forget[lr=0.01]"])
    assert all(first < 0.5 * second for first, second in pairwise(losses))


def test_over_forgetting_drives_away_a_network_that_fits_the_request_perfectly():
    perfect, driven = losses_of_the_request("mlp", ["noop", "over-forget[lr=0.01]"])
    assert perfect == 0
    assert driven > 1


def test_over_forgetting_moves_no_parameter_further_than_its_steps_allow():
    before, after, method = forgotten("over-forget[steps=3,lr=0.02]")
    furthest = max(float((after[name] - before[name]).abs().max()) for name in before)
    assert 0.01 < furthest < 3 * 0.02 * 3.2
    # A gradient is made of the request.
    assert all(parameter.grad is None for parameter in method._network.parameters())


# The harness


@pytest.mark.parametrize("text", CONTROLS)
def test_every_control_warms_up(text):
    warm_up(cell(text), torch.device("cpu"))


def test_another_method_that_keeps_the_graph_is_noted_too():
    cls = type(resolve(load_catalogue(), "unlearner", "noop-full").build())
    mine = type("Mine", (cls,), {"name": "mine"})
    record, _, _ = run_cell(
        cell(Spec("unlearner", "mine", 1, mine, mine.Params(), label="mine")), GRAPH, surroundings()
    )
    assert any("as it was before the request" in note for note in record.notes)


@pytest.mark.slow
def test_all_controls_run_on_digits(tmp_path):
    methods = ["noop", "noop-full", "random-init", "retrain-leak[k=0.5]", "over-forget"]
    records = run(methods=methods, epochs=5, repetitions=1, out=tmp_path, device="cpu")
    assert [record.label for record in records] == [
        "retrain",
        "noop",
        "noop-full",
        "random-init",
        "retrain-leak",
        "over-forget",
    ]
    assert [record.status for record in records] == ["ok"] * 6
    assert [record.claim["claim"] for record in records] == ["exact", *["none"] * 5]
    assert [bool(record.digests["unchanged"]) for record in records] == [False, True, True, False, False, False]
    scores = {record.label: record.metrics["f1_micro"]["full"]["after"] for record in records}
    assert max(scores["random-init"], scores["over-forget"]) < min(scores["retrain"], scores["noop"])
    notes = [record.label for record in records if any("before the request" in note for note in record.notes)]
    assert notes == ["noop-full"]
