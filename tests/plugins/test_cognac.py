"""Cognac: affected nodes one by one, the contrastive loss by hand, and its steps against PyG's modules."""

import math

import pytest
import torch
from method_samples import CATALOGUE, fitted, same
from pyg_models import PygGCN, far
from torch.nn import functional
from weight_samples import weighted_toy

from unlearnbench.protocol import Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench_cognac.contrast import Pairs, affected, contrast

GRAPH = toy_graph(num_nodes=60, edges=90)
REQUESTS = [Request(GRAPH.ids[[3, 20, 50]]), Request(GRAPH.pairs()[[3, 20, 50]], "edge")]
EACH_KIND = pytest.mark.parametrize("request_", REQUESTS, ids=["nodes", "edges"])


def setting(request):
    task = toy_task(GRAPH, "gcn[dropout=0]", epochs=10)
    network = fitted("retrain", task)._network
    return network, task, task.without(request), PygGCN(8, 3).take(network.state(0)).eval()


def updated(bracket, network, task, request, retained):
    return resolve(CATALOGUE, "unlearner", bracket).build().update(network, task, request, retained).state(0)


def test_the_contrastive_loss_by_hand():
    rows = torch.tensor([[1.0, 2.0], [3.0, -1.0], [0.5, 0.0]])
    # v = 0 with neighbour 1 (product 1) and forgotten node 2 (product .5); v = 1 has no neighbour, product 1.5 with 2.
    pairs = tuple(torch.tensor(at) for at in ([0], [1], [0, 1], [2, 2]))
    s = [1 / (1 + math.exp(-value)) for value in (1, -0.5, -1.5)]
    assert float(contrast(rows, pairs)) == pytest.approx(-sum(map(math.log, s)) / 2)


def test_affected_are_the_nodes_nearby_whose_logits_change_most():
    network, _, _, module = setting(REQUESTS[0])
    forget = torch.zeros(60, dtype=torch.bool)
    forget[[3, 20]] = True
    x = GRAPH.x.clone()
    x[[3, 20]] = GRAPH.x.min() + GRAPH.x.max() - x[[3, 20]]
    with torch.no_grad():
        change = (module(x, GRAPH.edge_index) - module(GRAPH.x, GRAPH.edge_index)).square().sum(dim=1)
    reached, edges = {3, 20}, GRAPH.edge_index.t().tolist()
    for _ in range(2):
        reached |= {end for pair in edges for end in pair if reached & set(pair)}
    by_change = sorted(reached - {3, 20}, key=lambda node: -float(change[node]))
    assert len(by_change) > 4
    assert affected(network, GRAPH, forget, 2, 1).tolist() == by_change
    assert affected(network, GRAPH, forget, 2, 0.5).tolist() == by_change[: math.floor(len(by_change) / 2 + 0.5)]
    assert affected(network, GRAPH, forget, 2, 1e-6).tolist() == by_change[:1]
    assert affected(network, GRAPH.unlinked(GRAPH.pairs()), forget, 2, 1).tolist() == []


def test_pairs_are_drawn_from_neighbours_beyond_the_request_and_from_the_request():
    forget = torch.zeros(60, dtype=torch.bool)
    forget[:20] = True
    edges = {tuple(pair) for pair in GRAPH.edge_index.t().tolist()}
    wanted = {(v, p) for a, b in edges for v, p in ((a, b), (b, a)) if v != p and v >= 20 and p >= 20}
    nodes, pairs, near, away = torch.arange(20, 60), set(), set(), set()
    pairing, rng = Pairs(GRAPH, forget, nodes), torch.Generator().manual_seed(0)
    for _ in range(200):
        v, p, every, n = pairing.draw(rng)
        assert torch.equal(every, nodes)
        near |= set(v.tolist())
        away |= set(n.tolist())
        pairs |= set(zip(v.tolist(), p.tolist(), strict=True))
    assert pairs == wanted
    assert near == {v for v, _ in wanted}
    assert near < set(nodes.tolist())
    assert away == set(range(20))


@EACH_KIND
def test_each_round_takes_three_steps_of_three_optimisers(request_):
    network, task, retained, module = setting(request_)
    start, graph = network.state(0), retained.graph
    forget = torch.isin(GRAPH.ids, request_.nodes)
    pairs = Pairs(GRAPH, forget, affected(network, GRAPH, forget, 2, 0.5))
    rng = retained.generator("cognac", "pairs")
    with torch.no_grad():
        teacher = module(graph.x, graph.edge_index).softmax(dim=1)

    def push():
        return contrast(module.embed(GRAPH.x, GRAPH.edge_index), pairs.draw(rng))

    def climb():
        return -functional.cross_entropy(module(GRAPH.x, GRAPH.edge_index)[forget], GRAPH.y[forget])

    def keep():
        logits = module(graph.x, graph.edge_index)
        apart = (teacher * (teacher.log() - logits.log_softmax(dim=1))).sum(dim=1).mean()
        return functional.cross_entropy(logits, graph.y) + 0.5 * apart

    rates = {push: 0.01, climb: 0.02, keep: 0.03}
    optimisers = {loss: torch.optim.Adam(module.parameters(), lr=lr) for loss, lr in rates.items()}
    for _ in range(3):
        for loss, optimiser in optimisers.items():
            optimiser.zero_grad()
            loss().backward()
            optimiser.step()
    bracket = "cognac[epochs=3,contrast_lr=0.01,ascent_lr=0.02,descent_lr=0.03,distil=0.5,share=0.5]"
    gap, moved = far(module, start, updated(bracket, network, task, request_, retained))
    assert moved > 0.05
    assert gap < 0.05 * moved


def test_pairs_are_the_same_where_edges_have_weights():
    nodes, forget = torch.arange(20, 60), torch.arange(60) < 20
    drawn = [
        Pairs(graph, forget, nodes).draw(torch.Generator().manual_seed(0))
        for graph in (GRAPH, weighted_toy(60, edges=90))
    ]
    assert all(torch.equal(one, other) for one, other in zip(*drawn, strict=True))


def test_steps_without_a_learning_rate_are_not_taken_and_a_request_without_neighbours_is_served():
    request = REQUESTS[0]
    network, task, retained, _ = setting(request)
    start = network.state(0)
    still = "cognac[epochs=2,contrast_lr=0,ascent_lr=0,descent_lr=0]"
    assert same(start, updated(still, network, task, request, retained)) == []
    lonely = toy_task(GRAPH.unlinked(GRAPH.pairs()), "gcn[dropout=0]", epochs=2)
    only_pushed = "cognac[epochs=2,ascent_lr=0,descent_lr=0]"
    assert same(start, updated(only_pushed, network, lonely, request, lonely.without(request))) == []
    assert same(start, updated(only_pushed, network, task, request, retained)) != []
