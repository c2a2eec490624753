"""`smoothed`: any method, its full view smoothed over the retained graph, labels of retained nodes as anchors."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from cell_samples import CATALOGUE, GRAPH, cell, surroundings
from method_samples import fitted, setting

from unlearnbench.audits.leakage.leakage import PartitionLeakage
from unlearnbench.errors import UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.config import make_config
from unlearnbench.running.lookup import chosen_methods
from unlearnbench.running.plan import make_plan
from unlearnbench.running.runner import run_cell
from unlearnbench.task import View, make_query

INNER = ["retrain", "sisa[num_shards=5]", "sisa[num_shards=5,slices=3]", "gradient-ascent"]


def query(graph, task, view=View.FULL, last=9):
    return make_query(graph, task.graph.ids, graph.ids[torch.arange(150) % 10 == last], view, task.device)


def by_hand(graph, train, targets, answer, share, rounds):
    """Smooth with a dense matrix, in double precision."""
    nodes = torch.cat([train, targets])
    part = graph.induced(nodes)
    adjacency = torch.zeros(len(nodes), len(nodes), dtype=torch.float64)
    adjacency.index_put_((part.edge_index[1], part.edge_index[0]), torch.ones(()).double(), accumulate=True)
    scale = adjacency.sum(dim=1).clamp(min=1) ** -0.5
    truth = torch.cat([torch.eye(3)[graph.y[graph.positions(train)]], answer.exp()]).double()
    rows = truth
    for _ in range(rounds):
        rows = share * (scale[:, None] * adjacency * scale) @ rows + (1 - share) * truth
    return (rows / rows.sum(dim=1, keepdim=True))[len(train) :]


@pytest.mark.parametrize("inner", INNER)
def test_the_method_inside_has_the_bits_it_has_alone(inner):
    graph, task, request = setting()
    alone, wrapped = fitted(inner, task), fitted(f"smoothed[method={inner}]", task)
    retained = task.without(request)
    for now in (task, retained):
        if now is retained:
            alone.unlearn(request, retained)
            wrapped.unlearn(request, retained)
        state = wrapped.state()
        assert torch.equal(state.pop("anchors/ids"), now.graph.ids)
        assert torch.equal(state.pop("anchors/labels"), now.graph.y)
        assert state.keys() == alone.state().keys()
        assert all(torch.equal(value, state[name]) for name, value in alone.state().items())
        shard = query(graph, now, View.SHARD)
        assert torch.equal(alone.predict(shard), wrapped.predict(shard))
        assert not torch.equal(alone.predict(query(graph, now)), wrapped.predict(query(graph, now)))
    assert (alone.claim, alone.claim_reason, alone.forgets) == (wrapped.claim, wrapped.claim_reason, wrapped.forgets)
    assert alone.kept().keys() == wrapped.kept().keys()


@pytest.mark.parametrize(("share", "rounds"), [(0.5, 15), (0.9, 3), (0.25, 1)])
def test_the_full_view_is_smoothed_as_by_hand(share, rounds):
    graph, task, _ = setting()
    asked = query(graph, task)
    answer = fitted("retrain", task).predict(asked)
    method = fitted(f"smoothed[method=retrain,share={share},rounds={rounds}]", task)
    expected = by_hand(graph, task.graph.ids, asked.targets, answer, share, rounds)
    assert torch.allclose(method.predict(asked).double().exp(), expected, atol=1e-6)
    reordered = replace(asked, targets=asked.targets.flip(0))
    assert torch.allclose(method.predict(reordered).double().exp(), expected.flip(0), atol=1e-6)


@pytest.mark.parametrize("without", ["share=0", "rounds=0"])
def test_without_a_share_or_a_round_nothing_is_smoothed(without):
    graph, task, _ = setting()
    asked = query(graph, task)
    smoothed = fitted(f"smoothed[method=retrain,{without}]", task).predict(asked)
    assert torch.allclose(smoothed, fitted("retrain", task).predict(asked), atol=1e-5)


def test_a_class_of_probability_zero_stays_finite():
    graph, task, _ = setting()
    method = fitted("smoothed[method=retrain]", task)
    certain = torch.full((15, 3), -torch.inf)
    certain[:, 0] = 0
    method._method.predict = lambda query: certain
    lonely = replace(graph, edge_index=graph.edge_index[:, :0])
    answer = method.predict(query(lonely, task))
    assert bool(torch.isfinite(answer).all())
    assert torch.equal(answer.argmax(dim=1), torch.zeros(15, dtype=torch.int64))


def test_labels_of_test_and_validation_nodes_change_no_output_and_retained_ones_do():
    made = cell("smoothed[method=sisa[num_shards=5]]")
    _, arrays, state = run_cell(made, GRAPH, surroundings())

    def with_noise(*parts):
        y = GRAPH.y.clone()
        at = GRAPH.positions(torch.from_numpy(np.concatenate([arrays[part] for part in parts])))
        y[at] = torch.randint(3, (len(at),), generator=torch.Generator().manual_seed(9))
        record, others, changed = run_cell(made, Graph(GRAPH.x, y, GRAPH.edge_index, GRAPH.ids, 3), surroundings())
        assert record.status == "ok"
        return [name for name in arrays if not np.array_equal(arrays[name], others[name])], [
            name for name in state if not torch.equal(state[name], changed[name])
        ]

    assert with_noise("test", "val") == ([], [])
    outputs, parameters = with_noise("train")
    assert "after/test/full" in outputs
    assert "anchors/labels" in parameters


def test_a_forgotten_node_leaves_the_anchors_and_an_edge_leaves_the_graph():
    graph, task, request = setting()
    method, never = fitted("smoothed[method=retrain]", task), fitted("smoothed[method=retrain]", task.without(request))
    method.unlearn(request, task.without(request))
    assert not bool(torch.isin(request.ids, method.state()["anchors/ids"]).any())
    assert torch.equal(
        method.predict(query(graph, task.without(request))), never.predict(query(graph, task.without(request)))
    )
    pairs = Request(task.graph.pairs()[:7], "edge")
    retained = task.without(pairs)
    method, never = fitted("smoothed[method=retrain]", task), fitted("smoothed[method=retrain]", retained)
    before = method.predict(query(graph, task))
    method.unlearn(pairs, retained)
    asked = query(pairs.apply(graph), retained)
    assert torch.equal(method.predict(asked), never.predict(asked))
    assert not torch.equal(method.predict(asked), before)


def test_a_method_that_deletes_nothing_keeps_its_anchors():
    record, arrays, state = run_cell(cell("smoothed[method=noop-full]"), GRAPH, surroundings())
    assert record.status == "ok"
    assert record.claim["claim"] == "none"
    assert bool(torch.isin(torch.from_numpy(arrays["forgotten"]), state["anchors/ids"]).all())


def test_the_change_of_a_request_is_that_of_the_parameters():
    forget = Forget(None, count=3, kind="edge")
    alone, wrapped = (
        run_cell(cell(method, forget=forget), GRAPH, surroundings())[0]
        for method in ("retrain", "smoothed[method=retrain]")
    )
    assert alone.digests["relative_change"] == wrapped.digests["relative_change"] > 0
    assert alone.digests["members_changed"] == wrapped.digests["members_changed"]


def test_its_own_time_is_that_of_a_prediction_in_the_full_view():
    record, _, _ = run_cell(cell("smoothed[method=retrain]"), GRAPH, surroundings())
    (row,) = [phase for phase in record.phases if phase["name"] == "predict-full"]
    assert row["seconds"] > 0


@pytest.mark.parametrize(
    ("text", "label"),
    [
        ("smoothed", "smoothed[method=sisa]"),
        ("smoothed[num_shards=5]", "smoothed[method=sisa[num_shards=5]]"),
        ("smoothed[share=0.7,method=retrain,rounds=15]", "smoothed[method=retrain]"),
        ("smoothed[method=graphrevoker[preset=paper],share=0.3]",) * 2,
        (
            "smoothed[method=sharded[partitioner=bekm[slack=0]]]",
            "smoothed[method=sharded[partitioner=bekm[slack=0],aggregator=mean]]",
        ),
    ],
)
def test_its_name_says_what_is_smoothed_and_how(text, label):
    spec = resolve(CATALOGUE, "unlearner", text)
    assert spec.label == label
    assert resolve(CATALOGUE, "unlearner", label) == spec


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("smoothed[method=smoothed]", "^smoothed: the method is smoothed already"),
        ("smoothed[method=smoothed[method=retrain]]", "the method is smoothed already"),
        ("smoothed[method=hash]", "Unknown method 'hash'"),
        ("smoothed[share=1]", "less than 1"),
        ("smoothed[rounds=-1]", "greater than or equal to 0"),
    ],
)
def test_what_cannot_be_smoothed_is_refused(text, said):
    with pytest.raises(UsageError, match=said):
        resolve(CATALOGUE, "unlearner", text)


def labels(methods, **settings):
    return [spec.label for spec in chosen_methods(make_config({"methods": methods, **settings}), CATALOGUE)]


def test_retrain_with_the_same_smoothing_runs_along():
    assert labels(["gif", "smoothed[method=sisa]", "smoothed[method=gif,share=0.3,rounds=4]"]) == [
        "retrain",
        "smoothed[method=retrain]",
        "smoothed[method=retrain,rounds=4,share=0.3]",
        "gif",
        "smoothed[method=sisa]",
        "smoothed[method=gif,rounds=4,share=0.3]",
    ]
    assert labels(["smoothed[method=retrain]"]) == ["retrain", "smoothed[method=retrain]"]
    assert labels(["smoothed"], reference=False) == ["smoothed[method=sisa]"]


def test_a_number_of_shards_reaches_the_method_inside():
    assert labels(["smoothed"], num_shards=7)[-1] == "smoothed[method=sisa[num_shards=7]]"
    both = labels(["smoothed[method=sisa[num_shards=3]]", "sisa"], num_shards=7)
    assert both[-2:] == ["smoothed[method=sisa[num_shards=3]]", "sisa[num_shards=7]"]
    for method in ("smoothed[method=retrain]", "smoothed[method=sisa[num_shards=3]]", "smoothed[num_shards=3]"):
        with pytest.raises(UsageError, match="reaches no method"):
            labels([method], num_shards=7)


def plan(method, **settings):
    values = {"methods": [method], "datasets": ["digits"], "models": ["gcn"], "repetitions": 1, **settings}
    return make_plan(make_config(values), CATALOGUE)


@pytest.mark.parametrize(
    ("method", "settings", "said"),
    [
        ("smoothed[method=over-forget]", {"forget_kind": "edge"}, "does not forget edges"),
        ("smoothed[method=cgu]", {}, "cannot be used with the model gcn"),
        ("smoothed[method=sisa[num_shards=5000]]", {}, "5000 shards for the"),
    ],
)
def test_what_the_method_inside_cannot_do_stops_a_run_before_any_training(method, settings, said):
    with pytest.raises(UsageError, match=said):
        plan(method, **settings)


def test_requests_of_edges_are_those_of_the_method_inside():
    assert len(plan("smoothed[method=sisa]", forget_kind="edge").cells) == 3


def test_its_partition_is_audited_as_that_of_the_method_inside():
    audit = PartitionLeakage()
    for method in ("sisa", "retrain", "sisa[num_shards=1]"):
        inside, wrapped = (resolve(CATALOGUE, "unlearner", text) for text in (method, f"smoothed[method={method}]"))
        assert audit.unfit(inside) == audit.unfit(wrapped)
