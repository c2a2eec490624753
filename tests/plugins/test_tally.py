"""Tally: the head against slow references, and forgetting in streams, bit for bit."""

from dataclasses import replace

import pytest
import torch
from method_samples import fitted
from torch.nn import functional

from unlearnbench import UnlearnbenchError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.task import View, make_query
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task
from unlearnbench.testing.reach import reachable_tensors
from unlearnbench.unlearning import smooth
from unlearnbench_tally import solve
from unlearnbench_tally.features import make_features
from unlearnbench_tally.held import Held
from unlearnbench_tally.hops import GraphNeighbourhood, Hops
from unlearnbench_tally.regression import FromRows, FromSums
from unlearnbench_tally.tally import Tally

WAYS = [
    "tally",
    "tally[solver=rows]",
    "tally[hops=1]",
    "tally[hops=2,hops_mode=last]",
    "tally[hops=2,normalisation=sym]",
    "tally[hops=1,solver=rows]",
    "tally[class_weight=balanced,ridge=gcv]",
    "tally[class_weight=balanced,solver=rows]",
    "tally[random=relu,width=20]",
    "tally[random=fourier,width=20,hops=1]",
    "tally[random=projection,width=5]",
]


def whole_graph(seed=0):
    graph = toy_graph(num_nodes=300, edges=400, seed=seed)
    # Ids that share blocks, in no order.
    mixed = torch.randperm(300, generator=torch.Generator().manual_seed(seed)) * 64 + FIRST_ID
    return Graph(graph.x, graph.y, graph.edge_index, mixed, 3)


def setting(seed=0):
    graph = whole_graph(seed)
    return graph, toy_task(graph.induced(graph.ids[:240]))


def scores(method, graph, retained, view=View.FULL, targets=None):
    query = make_query(
        graph, retained.graph.ids, graph.ids[240:] if targets is None else targets, view, retained.device
    )
    return method.predict(query)


def assert_same(one, other):
    a, b = one.state(), other.state()
    assert a.keys() == b.keys()
    assert [name for name in a if not torch.equal(a[name], b[name])] == []


def direct(rows, labels, num_classes, ridge, weights=None):
    """Ridge regression with an intercept that is not penalised, from the normal equations of all unknowns."""
    hot = functional.one_hot(labels, num_classes).double()
    weights = torch.ones(len(rows), dtype=torch.float64) if weights is None else weights
    joined = torch.cat([rows, torch.ones_like(rows[:, :1])], dim=1)
    penalty = torch.diag(torch.tensor([ridge] * rows.shape[1] + [0.0], dtype=torch.float64))
    answer = torch.linalg.solve(joined.T @ (weights[:, None] * joined) + penalty, joined.T @ (weights[:, None] * hot))
    return answer[:-1], answer[-1]


@pytest.mark.parametrize("solver", ["sums", "rows"])
@pytest.mark.parametrize("weight", ["none", "balanced"])
def test_the_head_is_ridge_regression(solver, weight):
    _, task = setting()
    method = fitted(f"tally[solver={solver},class_weight={weight},ridge=0.3]", task)
    rows = make_features(task, 12, "none", 1, 1.0).dense(task.graph) / 2**12
    counts = torch.bincount(task.graph.y).double()
    weights = 240 / 3 / counts[task.graph.y] if weight == "balanced" else None
    slope, bias = direct(rows, task.graph.y, 3, 0.3, weights)
    head = method.state()
    tolerance = {"sums": 1e-9, "rows": 2e-4}[solver]
    torch.testing.assert_close(head["members/000/weight"], slope, atol=tolerance, rtol=0)
    torch.testing.assert_close(head["members/000/bias"], bias, atol=tolerance, rtol=0)


def test_the_variance_is_that_of_generalised_cross_validation():
    _, task = setting()
    rows = make_features(task, 12, "none", 1, 1.0).dense(task.graph) / 2**12
    centred, hot = rows - rows.mean(dim=0), functional.one_hot(task.graph.y, 3).double()
    hat = centred @ torch.linalg.solve(centred.T @ centred + torch.eye(8), centred.T)
    errors = hot - hot.mean(dim=0) - hat @ hot
    # Signs estimate the trace; with 8 columns, and a Gram matrix far from diagonal, only roughly.
    wanted = errors.square().sum() / (240 * 3) / (1 - (hat.trace() + 1) / 240) ** 2
    for solver in ("sums", "rows"):
        got = fitted(f"tally[solver={solver}]", task).state()["members/000/variance"]
        assert float(got) == pytest.approx(float(wanted), rel=0.01)


def test_cross_validation_chooses_the_penalty_with_the_least_criterion():
    _, task = setting()
    rows = make_features(task, 12, "none", 1, 1.0).dense(task.graph) / 2**12
    centred, hot = rows - rows.mean(dim=0), functional.one_hot(task.graph.y, 3).double()
    hot = hot - hot.mean(dim=0)

    def criterion(ridge):
        hat = centred @ torch.linalg.solve(centred.T @ centred + ridge * torch.eye(8), centred.T)
        return float((hot - hat @ hot).square().sum() / (1 - (hat.trace() + 1) / 240) ** 2)

    best = min(solve.GRID, key=criterion)
    chosen, given = fitted("tally[ridge=gcv]", task), fitted(f"tally[ridge={best}]", task)
    assert_same(chosen, given)


def test_hops_against_a_slow_reference():
    graph = whole_graph()
    features = make_features(toy_task(graph), 12, "none", 1, 1.0)
    source = GraphNeighbourhood(graph, features, 2)
    lists = [set() for _ in range(300)]
    for a, b in graph.edge_index.T.tolist():
        if a != b:
            lists[a].add(b)
            lists[b].add(a)
    own = features.dense(graph)
    for normalisation in ("random-walk", "sym"):
        rows, each = own, [own]
        for _ in range(2):
            new = []
            for node, near in enumerate(lists):
                total = torch.zeros(8, dtype=torch.float64)
                for other in [node, *near]:
                    factor = 1 if normalisation == "random-walk" else round(4096 / (len(lists[other]) + 1) ** 0.5)
                    total += factor * rows[other]
                new.append((total / total.norm() * 4096).round())
            rows = torch.stack(new)
            each.append(rows)
        hops = Hops(2, "all", normalisation, 12)
        some = torch.tensor([5, 250, 17])
        got = hops.rows(source, some)
        # Rounding of a length may differ by one unit from that of `norm`.
        assert (got - torch.cat(each, dim=1)[some]).abs().max() <= 2
        assert torch.equal(got, hops.rows(source, torch.arange(300))[some])


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_of_single_requests_equals_one_of_all_and_a_fresh_fit(way):
    graph, task = setting()
    count = 50 if way in WAYS[:3] else 10
    ids = task.graph.ids[torch.randperm(240, generator=torch.Generator().manual_seed(3))[:count]]
    one_by_one, at_once, fresh = fitted(way, task), fitted(way, task), fitted(way, task.without(Request(ids)))
    at_once.unlearn(Request(ids.sort().values), task.without(Request(ids)))
    retained = task
    for node in ids:
        request = Request(node.reshape(1))
        retained = retained.without(request)
        one_by_one.unlearn(request, retained)
    assert_same(one_by_one, fresh)
    assert_same(at_once, fresh)
    # A fresh fit may see its nodes in another order.
    turned = fitted(way, replace(retained, graph=retained.graph.induced(retained.graph.ids.flip(0))))
    for view in View:
        answer = scores(fresh, graph, retained, view)
        assert torch.equal(scores(one_by_one, graph, retained, view), answer)
        assert torch.equal(scores(at_once, graph, retained, view), answer)
        torch.testing.assert_close(scores(turned, graph, retained, view), answer, atol=1e-3, rtol=0)


@pytest.mark.parametrize("way", WAYS)
def test_a_stream_of_nodes_edges_and_features_equals_a_fresh_fit(way):
    _, task = setting()
    method, retained = fitted(way, task), task
    for number in range(12):
        if number % 3 == 2:
            request = Request.of_features(retained.graph.ids[number * 4 : number * 4 + 1 + number % 5].sort().values)
        elif number % 2:
            request = Request(retained.graph.pairs()[number * 5 : number * 5 + 1 + number % 3], "edge")
        else:
            request = Request(retained.graph.ids[number * 4 : number * 4 + 1 + number % 5].sort().values)
        retained = retained.without(request)
        method.unlearn(request, retained)
        assert_same(method, fitted(way, retained))


@pytest.mark.parametrize("way", ["tally", "tally[hops=1]"])
def test_after_a_request_it_holds_what_a_fresh_fit_does(way):
    _, task = setting()
    request = Request(task.graph.ids[[3, 50, 51]].sort().values)
    retained = task.without(request)
    method = fitted(way, task)
    method.unlearn(request, retained)

    def held(root):
        return sorted(tensor.numpy().tobytes() for tensor in reachable_tensors(root))

    assert held(method) == held(fitted(way, retained))


@pytest.mark.parametrize("way", ["tally", "tally[hops=2]"])
def test_rows_are_not_read_from_the_task_at_a_request(way):
    _, task = setting()
    request = Request(task.graph.ids[[3, 50]].sort().values)
    retained = task.without(request)
    method = fitted(way, task)
    task.graph.x.fill_(torch.nan)
    method.unlearn(request, replace(retained, graph=replace(retained.graph, x=retained.graph.x * torch.nan)))
    assert_same(method, fitted(way, retained))


def test_where_reach_is_most_of_the_graph_it_fits_again(monkeypatch):
    _, task = setting()
    fits = []
    monkeypatch.setattr(FromSums, "fit", lambda self, task, fit=FromSums.fit: (fits.append(1), fit(self, task)))
    method = fitted("tally[hops=2]", task)
    few, many = Request(task.graph.ids[:1]), Request(task.graph.ids[1:60].sort().values)
    retained = task.without(few)
    method.unlearn(few, retained)
    assert len(fits) == 1
    retained = retained.without(many)
    method.unlearn(many, retained)
    assert len(fits) == 2
    assert_same(method, fitted("tally[hops=2]", retained))


def test_a_task_that_does_not_fit_the_request_is_refused():
    _, task = setting()
    method = fitted("tally", task)
    with pytest.raises(UnlearnbenchError, match="239 nodes are left, the retained task has 240"):
        method.unlearn(Request(task.graph.ids[:1]), task)


def test_edges_have_no_part_in_a_head_without_hops():
    _, task = setting()
    method = fitted("tally", task)
    before = method.state()
    request = Request(task.graph.pairs()[:20], "edge")
    retained = task.without(request)
    method.unlearn(request, retained)
    after = method.state()
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert_same(method, fitted("tally", retained))


def test_answers_are_smoothed_scores():
    graph, task = setting()
    method = fitted("tally[smoothing=0.6,rounds=2]", task)
    head = method.state()
    rows = make_features(task, 12, "none", 1, 1.0).dense(graph) / 2**12
    raw = (rows @ head["members/000/weight"] + head["members/000/bias"]).clamp(min=1e-9)
    raw = raw / raw.sum(dim=1, keepdim=True)
    smoothed = smooth(raw, graph.edge_index, torch.arange(240), graph.y[:240], 0.6, 2)[240:]
    wanted = torch.log_softmax(smoothed / (2 * head["members/000/variance"]), dim=1)
    torch.testing.assert_close(scores(method, graph, task), wanted.float())
    plain = torch.log_softmax(raw[240:] / (2 * head["members/000/variance"]), dim=1)
    torch.testing.assert_close(scores(fitted("tally[smoothing=0]", task), graph, task), plain.float())


def test_targets_are_answered_in_their_order_and_repeated_ones_too():
    graph, task = setting()
    method = fitted("tally[hops=1]", task)
    every = scores(method, graph, task)
    query = make_query(graph, task.graph.ids, graph.ids[240:], View.FULL, task.device)
    turned = replace(query, targets=torch.cat([query.targets.flip(0), query.targets[:3]]))
    torch.testing.assert_close(method.predict(turned), torch.cat([every.flip(0), every[:3]]))


def test_the_solver_is_chosen_by_the_number_of_columns():
    def chosen(bracket, num_features=8):
        graph = toy_graph(num_features=num_features)
        return type(fitted(bracket, toy_task(graph))._regression)

    assert chosen("tally") is FromSums
    assert chosen("tally", 1025) is FromRows
    assert chosen("tally[random=relu,width=30]", 1025) is FromSums
    assert chosen("tally[hops=2]", 400) is FromRows
    assert chosen("tally[hops=2,hops_mode=last]", 400) is FromSums


def test_cross_validation_needs_sums():
    with pytest.raises(UsageError, match="`ridge` gcv"):
        fitted("tally[ridge=gcv,solver=rows]", toy_task())


def test_too_many_bits_for_the_nodes_are_refused_before_training(monkeypatch):
    monkeypatch.setattr("unlearnbench_tally.whole.LARGEST", 60 * 4**12 - 1)
    with pytest.raises(UsageError, match="Sums over 60 nodes of rows of 12 bits"):
        fitted("tally", toy_task())
    fitted("tally[bits=11]", toy_task())


def test_blocks_have_no_history():
    graph = whole_graph()
    features = make_features(toy_task(graph), 12, "none", 1, 1.0)
    held = Held(graph, features, with_neighbours=True)
    gone = graph.ids[torch.arange(0, 300, 7)]
    counts, members = held.lists(gone)
    stays = ~torch.isin(members, gone)
    held.unlink(members[stays], torch.repeat_interleave(gone, counts)[stays])
    held.drop(gone)
    fresh = Held(graph.without(gone), features, with_neighbours=True)
    for one, other in zip(held.blocks, fresh.blocks, strict=True):
        for name in ("ids", "labels", "rows", "starts", "adjacent"):
            assert torch.equal(getattr(one, name), getattr(other, name))


@pytest.mark.parametrize("x", [torch.zeros(60, 0), torch.zeros(60, 4), torch.full((60, 2), 1e38)])
@pytest.mark.parametrize("way", ["tally", "tally[hops=1]", "tally[solver=rows]", "tally[ridge=gcv]"])
def test_features_that_say_nothing_are_no_trouble(way, x):
    toy = toy_graph()
    graph = Graph(x, toy.y, toy.edge_index, toy.ids - 30, 3)
    task, request = toy_task(graph.induced(graph.ids[:50])), Request(graph.ids[:3])
    retained = task.without(request)
    method = fitted(way, task)
    method.unlearn(request, retained)
    assert_same(method, fitted(way, retained))
    answer = method.predict(make_query(graph, retained.graph.ids, graph.ids[50:], View.FULL, task.device))
    assert bool(torch.isfinite(answer).all())


def test_it_is_what_the_registry_has():
    assert Tally.claim.value == "exact"
    assert Tally.forgets == {"node", "edge", "feature"}
