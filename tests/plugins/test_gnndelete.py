"""GNNDelete: its losses, which rows its operators touch, and what it refuses."""

from dataclasses import replace

import pytest
import torch
from cell_samples import GRAPH, cell, surroundings
from hypothesis import given, settings
from hypothesis import strategies as st
from method_samples import fitted, same, setting
from plain_versions import PATH, distances, mask
from pyg_models import PygGCN
from task_samples import task_of

from unlearnbench.errors import RefusedError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.running.runner import run_cell
from unlearnbench.task import View, make_query
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning import hop_distance
from unlearnbench_gnndelete.losses import deleted_edge_consistency, neighbourhood_influence, side_by_side
from unlearnbench_gnndelete.method import GNNDelete, trained
from unlearnbench_gnndelete.neighbourhood import endpoints, incident, non_edges
from unlearnbench_gnndelete.operators import changes

MODELS = ["gcn", "gat", "sage", "gin", "gatv2", "jknet"]
MESSAGES = pytest.mark.parametrize("messages", ["enclosing", "retained"])


# Neighbourhoods


def test_a_path_by_hand():
    assert incident(PATH, mask(0)).tolist() == [True, True, *[False] * 6]
    assert endpoints(PATH[:, :2], 5).tolist() == mask(0, 1).tolist()
    for hops, reached in enumerate([(0,), (0, 1), (0, 1, 2), (0, 1, 2, 3)]):
        assert (hop_distance(PATH, mask(0), hops) <= hops).tolist() == mask(*reached).tolist()
    against_edges = hop_distance(PATH[:, ::2], mask(4), 2) <= 2
    assert against_edges.tolist() == mask(2, 3, 4).tolist()


def test_pairs_without_an_edge_are_drawn_from_the_nodes_named():
    pairs = non_edges(PATH[:, ::2], torch.tensor([0, 1, 2, 4]), 5, 200, torch.Generator().manual_seed(0))
    assert {tuple(pair) for pair in pairs.t().tolist()} == {
        (0, 2),
        (2, 0),
        (0, 4),
        (4, 0),
        (1, 4),
        (4, 1),
        (2, 4),
        (4, 2),
    }


def test_a_graph_without_such_pairs_is_refused():
    nodes = torch.arange(4)
    complete = torch.cartesian_prod(nodes, nodes).t()
    for among in (nodes, nodes[:1]):
        with pytest.raises(RefusedError, match="3 pairs"):
            non_edges(complete, among, 4, 3, torch.Generator())


@given(seed=st.integers(0, 1000), edges=st.integers(1, 60), hops=st.integers(0, 3))
@settings(max_examples=30, deadline=None)
def test_neighbourhoods_equal_a_search_node_by_node(seed, edges, hops):
    edge_index = torch.randint(20, (2, edges), generator=torch.Generator().manual_seed(seed))
    found = distances(edge_index, 20, [0, 7])
    expected = [min(found.get(node, 99), hops + 1) for node in range(20)]
    assert hop_distance(edge_index, mask(0, 7, size=20), hops).tolist() == expected


# Losses


def test_losses_by_hand():
    rows = torch.tensor([[1.0, 2.0], [3.0, 4.0], [5.0, 6.0]])
    deleted = torch.tensor([[0, 1], [1, 2]])
    assert side_by_side(rows, deleted).tolist() == [[1, 2, 3, 4], [3, 4, 5, 6]]
    strangers = torch.tensor([[1.0, 2.0, 3.0, 2.0], [0.0, 4.0, 5.0, 6.0]])
    assert float(deleted_edge_consistency(rows, deleted, strangers)) == pytest.approx((4 + 9) / 8)
    before = rows - torch.tensor([[1.0, 0.0], [9.0, 9.0], [0.0, 3.0]])
    assert float(neighbourhood_influence(rows, before, torch.tensor([0, 2]))) == pytest.approx((1 + 9) / 4)
    assert float(neighbourhood_influence(rows, before, torch.tensor([], dtype=torch.int64))) == 0


def slow_losses(module, task, request, weights, alpha, messages):
    """The losses of both layers of a GCN, edge by edge and node by node, with PyG's layers."""
    graph = task.graph
    n, edges = graph.num_nodes, graph.edge_index.t().tolist()
    if request.kind == "node":
        gone = set(graph.positions(request.ids).tolist())
        deleted = [edge for edge in edges if gone & set(edge)]
    else:
        gone, pairs = set(), request.ids.tolist()
        deleted = [edge for edge in edges if sorted(edge) in pairs]
    left = torch.tensor([edge for edge in edges if edge not in deleted]).t()
    ends = {node for edge in deleted for node in edge}
    hops = distances(graph.edge_index, n, sorted(ends))
    first = module.conv1(graph.x, left)
    before = [first, module.conv2(first.relu(), left)]
    kept = torch.tensor([node for node in range(n) if node not in gone])
    rng = task.without(request).generator("gnndelete", "pairs")
    pairs = non_edges(graph.edge_index, kept, n, len(deleted), rng).t().tolist()
    stage = left
    if messages == "enclosing":
        stage = torch.tensor([edge for edge in edges if all(hops.get(node, 99) <= 2 for node in edge)]).t()

    def changed(rows, layer):
        return torch.stack([rows[v] @ weights[layer] if hops.get(v, 99) <= layer + 1 else rows[v] for v in range(n)])

    first = changed(module.conv1(graph.x, stage).detach(), 0)
    second = changed(module.conv2(first.detach().relu(), stage).detach(), 1)
    losses = []
    for layer, rows in enumerate([first, second]):
        apart = [
            (rows[end] - before[layer][other]).square()
            for edge, pair in zip(deleted, pairs, strict=True)
            for end, other in zip(edge, pair, strict=True)
        ]
        near = [v for v in range(n) if 0 < hops.get(v, 99) <= layer + 1]
        moved = [(rows[v] - before[layer][v]).square() for v in near]
        losses.append(alpha * torch.stack(apart).mean() + (1 - alpha) * torch.stack(moved).mean())
    return losses


@MESSAGES
@pytest.mark.parametrize("kind", ["node", "edge"])
def test_losses_and_the_first_step_equal_those_made_node_by_node(messages, kind):
    graph = toy_graph(num_nodes=80, edges=110)
    task = toy_task(graph)
    request = Request(graph.ids[[3, 50]] if kind == "node" else graph.pairs()[[3, 50]], kind)
    params = GNNDelete.Params(epochs=1, lr=0.02, alpha=0.3, initial=0.01, messages=messages)
    network = fitted("retrain", task)._network
    module = PygGCN(graph.num_features, 3).take(network.state(0)).eval()
    found, (losses,) = trained(network, [], task, request, task.without(request), params)
    weights = [torch.full((64, 64), 0.01, requires_grad=True) for _ in range(2)]
    with torch.no_grad():
        module.requires_grad_(False)
    wanted = slow_losses(module, task, request, weights, 0.3, messages)
    assert list(losses.values()) == pytest.approx([float(loss.detach()) for loss in wanted], rel=1e-4)
    for operator, weight, loss in zip(found, weights, wanted, strict=True):
        (slope,) = torch.autograd.grad(loss, [weight])
        clear = slope.abs() > 1e-4
        assert int(clear.sum()) > 500
        # Adam's first step has the length of the learning rate, against the sign of the slope.
        torch.testing.assert_close(operator.weight[clear], (0.01 - 0.02 * slope.sign())[clear], atol=1e-5, rtol=0)


@MESSAGES
@pytest.mark.parametrize("model", MODELS)
def test_both_layers_losses_fall_and_the_network_stays_frozen(model, messages):
    graph = toy_graph(num_nodes=90, edges=150)
    task, request = task_of(graph, model), Request(graph.ids[[3, 70]])
    network = fitted("retrain", task)._network
    before = network.state(0)
    params = GNNDelete.Params(epochs=30, messages=messages)
    operators, losses = trained(network, [], task, request, task.without(request), params)
    assert [operator.layer for operator in operators] == list(losses[0]) == list(network.convolutions())
    for layer, first in losses[0].items():
        assert losses[-1][layer] < 0.8 * first
    assert same(before, network.state(0)) == []


# Which rows


@pytest.mark.parametrize("model", MODELS)
def test_operators_touch_only_the_rows_near_deleted_edges(model):
    graph, task, request = setting()
    task = replace(task, model=resolve(load_catalogue(), "model", model))
    retained = task.without(request)
    method, untouched = fitted("gnndelete[epochs=5]", task), fitted("noop", task)
    for each in (method, untouched):
        each.unlearn(request, retained)
    edges = task.graph.ids[task.graph.edge_index]
    deleted = edges[:, torch.isin(edges, request.ids).any(dim=0)]
    hops = distances(edges - int(graph.ids[0]), 150, sorted(set((deleted - graph.ids[0]).flatten().tolist())))
    targets = graph.ids[torch.arange(150) % 10 == 9]
    context = make_query(graph, retained.graph.ids, targets, View.FULL, task.device).context(retained.graph.ids)

    where = torch.tensor([hops.get(node, 99) for node in (context.ids - graph.ids[0]).tolist()])
    where[context.positions(targets)] = 99  # a test node has no operator, however near it is
    seen, after = layer_rows(method, context), layer_rows(untouched, context)
    touched = torch.zeros(context.num_nodes, dtype=torch.bool)
    links = context.edge_index
    for number, operator in enumerate(method._operators, start=1):
        near = where <= number
        assert sorted(operator.ids.tolist()) == sorted(context.ids[near].tolist())
        # Messages carry a change one hop on: a row is the same until one of an affected node reaches it.
        reached = hop_distance(links, touched, 1) <= 1
        same_rows = (seen[operator.layer] == after[operator.layer]).all(dim=1)
        assert bool(same_rows[~(near | reached)].all())
        assert not bool(same_rows[near].any())
        touched = near | reached
    assert 0 < int((~touched).sum()) < context.num_nodes
    ours, theirs = method.logits(context), untouched.logits(context)
    assert torch.equal(ours[~touched], theirs[~touched])
    assert not torch.equal(ours, theirs)


def layer_rows(method, graph):
    """What each layer passes on, operators applied."""
    rows = {}
    operators = getattr(method, "_operators", [])
    made = changes(method._network.convolutions(), operators, graph)
    watched = {
        layer: (lambda given, layer=layer, change=change: rows.setdefault(layer, change(given)))
        for layer, change in made.items()
    }
    with torch.no_grad():
        method._network.answers([graph], changes=watched)
    return rows


def test_a_second_request_stands_on_the_first_and_takes_its_nodes_from_it():
    _, task, request = setting()
    first = Request(request.ids[:2])
    method = fitted("gnndelete[epochs=5]", task)
    middle = task.without(first)
    method.unlearn(first, middle)
    earlier = method.state()
    second = Request(method._operators[1].ids[[0, 3]])
    method.unlearn(second, middle.without(second))
    later = method.state()
    assert sorted(later) == sorted(
        {*earlier, *(f"operators/00{n}/conv{n - 1}.{part}" for n in (2, 3) for part in ("weight", "nodes"))}
    )
    for name, value in earlier.items():
        wanted = value[~torch.isin(value, second.ids)] if name.endswith("nodes") else value
        assert torch.equal(later[name], wanted)
    assert not any(torch.isin(value, second.ids).any() for name, value in later.items() if name.endswith("nodes"))


def test_operators_of_forgotten_edges_stay_on_their_ends():
    _, task, _ = setting()
    method = fitted("gnndelete[epochs=2]", task)
    for pairs in task.graph.pairs()[[5, 40]].split(1):
        request = Request(pairs, "edge")
        task = task.without(request)
        method.unlearn(request, task)
        assert all(bool(torch.isin(pairs, operator.ids).all()) for operator in method._operators[-2:])
    assert len(method._operators) == 4


def test_nodes_without_edges_leave_nothing_to_delete():
    graph = toy_graph()
    alone = ~(graph.edge_index == 5).any(dim=0)
    graph = Graph(graph.x, graph.y, graph.edge_index[:, alone], graph.ids, 3)
    task, request = toy_task(graph), Request(graph.ids[[5]])
    method = fitted("gnndelete", task)
    before = method.state()
    method.unlearn(request, task.without(request))
    assert same(before, method.state()) == []


# Refused


@pytest.mark.parametrize("model", ["appnp", "sgc", "mlp", "plain"])
def test_models_without_such_layers_are_refused_before_anything_is_trained(model):
    task = task_of(toy_graph(), model)
    method = resolve(load_catalogue(), "unlearner", "gnndelete").build()
    with pytest.raises(RefusedError, match=f"gnndelete cannot be used with the model '{model}'.*\nUse gcn"):
        method.fit(task)
    assert not hasattr(method, "_network")


def test_the_record_of_a_refused_model_says_why():
    made = cell("gnndelete", model=resolve(load_catalogue(), "model", "appnp"))
    record, _, _ = run_cell(made, GRAPH, surroundings())
    assert record.status == "refused"
    assert any("'appnp'" in note for note in record.notes)
