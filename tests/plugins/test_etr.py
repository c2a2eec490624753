"""ETR: factors by hand, importances and gradients node by node, and the exact case of the estimated gradient."""

import math

import pytest
import torch
from method_samples import CATALOGUE, fitted, same
from pyg_models import PygGCN, far
from torch.nn import functional

from unlearnbench.protocol import Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench_etr.erasing import factors
from unlearnbench_etr.rectifying import retained_gradient

GRAPH = toy_graph(num_nodes=40, edges=60)
REQUESTS = [
    Request(GRAPH.ids[[3, 20, 35]]),
    Request(GRAPH.pairs()[[3, 20, 35]], "edge"),
    Request(torch.tensor([[int(GRAPH.ids[3]), -1], [int(GRAPH.ids[20]), 2]]), "feature"),
]
EACH_KIND = pytest.mark.parametrize("request_", REQUESTS, ids=["nodes", "edges", "features"])


def setting(request):
    task = toy_task(GRAPH, "gcn[dropout=0]", epochs=10)
    network = fitted("retrain", task)._network
    retained = task.without(request)
    return network, task, retained, PygGCN(8, 3).take(network.state(0)).eval()


def updated(bracket, network, task, request, retained):
    return resolve(CATALOGUE, "unlearner", bracket).build().update(network, task, request, retained).state(0)


def test_factors_by_hand():
    everywhere, forget, near = (torch.tensor(row) for row in ([1.0, 2, 3, 4, 0], [4.0, 4, 4, 1, 0], [1.0, 8, 3, 1, 5]))
    # b1 = .25, .5, .75, 4, which counts as 1; the fifth matters to none. Two of four are below .75.
    (first,) = factors([forget], None, [everywhere], 0.5)
    assert first.tolist() == pytest.approx([1 / 3, 2 / 3, 1, 1, 1])
    # b2 = .25, .125, .75, 16: one of four is below .25, and b1 is below .5 for the first alone.
    (both,) = factors([forget], [near], [everywhere], 0.25)
    assert both.tolist() == pytest.approx([0.5, 0.5, 1, 1, 1])
    assert torch.equal(factors([forget], [near], [everywhere], 0)[0], torch.ones(5))


def test_what_matters_no_more_to_the_request_than_to_all_is_never_edited():
    # b1 = .5, 2, 3, 9: the threshold is 1, not 9.
    (found,) = factors([torch.tensor([2.0, 1, 1, 1])], None, [torch.tensor([1.0, 2, 3, 9])], 0.75)
    assert found.tolist() == [0.5, 1, 1, 1]


def test_each_tensor_has_thresholds_of_its_own():
    parts = [torch.tensor([0.1, 0.9]), torch.tensor([[0.2], [0.8]])]
    ones = [torch.ones(2), torch.ones(2, 1)]
    first, second = factors(ones, None, parts, 0.5)
    assert first.tolist() == pytest.approx([1 / 9, 1])
    assert second.flatten().tolist() == pytest.approx([2 / 8, 1])


def test_the_gradient_of_what_is_retained_by_hand():
    # Five nodes with slopes 1 to 5; the first goes, the slope of the second becomes 10: the others' mean is 5.5.
    found = retained_gradient(*([torch.tensor([value])] for value in (3.0, 1.0, 2.0, 10.0)), (5, 1, 1))
    assert found[0].tolist() == [5.5]


@EACH_KIND
def test_with_a_neighbourhood_wide_enough_the_step_is_that_of_all_retained_nodes(request_):
    network, task, retained, module = setting(request_)
    start, graph = network.state(0), retained.graph
    after = updated("etr[ratio=0,hops=3,lr=0.5]", network, task, request_, retained)
    functional.cross_entropy(module(graph.x, graph.edge_index), graph.y).backward()
    with torch.no_grad():
        for parameter in module.parameters():
            parameter -= 0.5 * parameter.grad
    gap, moved = far(module, start, after)
    assert moved > 1e-3
    assert gap < 1e-5


def edited(module, request, retained, ratio):
    """Erase node by node; return the positions of the neighbourhood and of what goes."""
    forget = set(GRAPH.positions(request.nodes).tolist())
    edges = GRAPH.edge_index.t().tolist()
    reached = set(forget)
    for _ in range(2):
        reached |= {end for pair in edges for end in pair if reached & set(pair)}
    squares, losses = [], functional.cross_entropy(module(GRAPH.x, GRAPH.edge_index), GRAPH.y, reduction="none")
    for node in range(40):
        squares.append(
            [
                slope.square()
                for slope in torch.autograd.grad(losses[node], list(module.parameters()), retain_graph=True)
            ]
        )

    def shrunk(values, counted):
        values = values.clamp(max=1)
        threshold = values[counted].sort().values[round(ratio * int(counted.sum()))]
        return torch.where(values < threshold, values / threshold, 1)

    # Of nodes that stay there is one set: all that the request reaches.
    first, second = (forget, reached - forget) if request.kind == "node" else (reached, set())
    with torch.no_grad():
        for parameter, *of_nodes in zip(module.parameters(), *squares, strict=True):
            of_first, of_second, of_all = (
                torch.stack([of_nodes[node] for node in sorted(nodes)]).mean(dim=0) if nodes else None
                for nodes in (first, second, range(40))
            )
            ones = torch.where(of_first > 0, of_all / of_first, math.inf)
            by = shrunk(ones, of_all > 0)
            if second:
                twos = torch.where(of_second > 0, ones * of_all / of_second, math.inf)
                by = torch.where(by < 1, by, shrunk(twos, of_all > 0))
            parameter *= by
    gone = set(GRAPH.positions(request.removed).tolist())
    return sorted(reached - gone), sorted(gone)


@pytest.mark.parametrize(
    ("request_", "anchor"),
    list(zip(REQUESTS, ["trained", "erased", "trained"], strict=True)),
    ids=["nodes", "edges", "features"],
)
def test_erasing_and_rectifying_node_by_node(request_, anchor):
    network, task, retained, module = setting(request_)
    start, graph = network.state(0), retained.graph
    first = PygGCN(8, 3).take(start).eval()
    near, gone = edited(module, request_, retained, 0.1)

    def slopes(model, among, at):
        if not at:
            return [torch.zeros_like(p) for p in model.parameters()]
        loss = functional.cross_entropy(model(among.x, among.edge_index)[at], among.y[at], reduction="sum")
        return torch.autograd.grad(loss, list(model.parameters()))

    # Positions in the retained graph: the ids of toy graphs are not positions.
    at = graph.positions(GRAPH.ids[near]).tolist()
    parts = [
        slopes(first if anchor == "trained" else module, GRAPH, list(range(40))),
        slopes(first if anchor == "trained" else module, GRAPH, gone),
        slopes(first if anchor == "trained" else module, GRAPH, near),
        slopes(module, graph, at),
    ]
    with torch.no_grad():
        for parameter, whole, removed, before, after in zip(module.parameters(), *parts, strict=True):
            parameter -= 0.3 * (whole - removed - before + after) / graph.num_nodes
    found = updated(f"etr[ratio=0.1,batch_size=1,anchor={anchor}]", network, task, request_, retained)
    gap, moved = far(module, start, found)
    assert moved > 0.01
    assert gap < 1e-3


def test_what_erasing_did_to_forgotten_nodes_is_no_part_of_the_step():
    """Where the whole graph is near, the three gradients of before the request cancel, wherever they are taken."""
    graph = toy_graph(num_nodes=40, edges=200)
    request = Request(graph.ids[[3, 20, 35]])
    task = toy_task(graph, "gcn[dropout=0]", epochs=10)
    start = fitted("retrain", task)._network.state(0)
    one, other = (
        updated(
            f"etr[ratio=0.1,hops=40,anchor={anchor}]",
            fitted("retrain", task)._network,
            task,
            request,
            task.without(request),
        )
        for anchor in ("trained", "erased")
    )
    assert same(start, one) != []
    for name in one:
        assert torch.allclose(one[name], other[name], atol=1e-5)


def test_no_share_and_no_step_change_nothing_and_a_node_without_neighbours_is_served():
    request = REQUESTS[0]
    network, task, retained, _ = setting(request)
    start = network.state(0)
    assert same(start, updated("etr[ratio=0,lr=0]", network, task, request, retained)) == []
    alone = task.graph.unlinked(task.graph.pairs())
    lonely = toy_task(alone, "gcn[dropout=0]", epochs=2)
    found = updated("etr", network, lonely, request, lonely.without(request))
    assert same(start, found) != []
    assert all(bool(value.isfinite().all()) for value in found.values())
