"""D2DGN: the distance from a teacher by hand, and its steps against PyG's modules."""

import math
from dataclasses import replace

import pytest
import torch
from method_samples import CATALOGUE, fitted
from pyg_models import PygGCN

from unlearnbench.gnn import train_networks
from unlearnbench.protocol import Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench_d2dgn.method import distance

GRAPH = toy_graph(num_nodes=40, edges=60)


def test_the_distance_from_a_teacher_by_hand():
    teacher = torch.tensor([[1.0, 2.0]]), torch.tensor([[2.0, 0.0]])
    student = torch.tensor([[0.0, 4.0]]), torch.tensor([[0.0, 0.0]])
    p = math.exp(2) / (math.exp(2) + 1)
    apart = p * math.log(p / 0.5) + (1 - p) * math.log((1 - p) / 0.5)
    found = [float(distance(teacher, student, kind)) for kind in ("response", "feature", "both")]
    assert found == pytest.approx([apart, 2.5, apart + 2.5])


@pytest.mark.parametrize(
    "request_", [Request(GRAPH.ids[[3, 20, 35]]), Request(GRAPH.pairs()[[3, 20, 35]], "edge")], ids=["nodes", "edges"]
)
def test_it_follows_its_former_self_on_what_is_retained_and_an_untrained_network_on_the_request(request_):
    task = toy_task(GRAPH, "gcn[dropout=0]", epochs=10)
    network = fitted("retrain", task)._network
    retained = task.without(request_)
    start, graph, at = network.state(0), retained.graph, GRAPH.positions(request_.nodes)
    module = PygGCN(8, 3).take(start).eval()
    untrained = replace(retained, training=replace(retained.training, epochs=0))
    bad = PygGCN(8, 3).take(train_networks(untrained, [graph], [0], role="d2dgn").state(0)).eval()

    def told(model, among, nodes):
        rows = model.embed(among.x, among.edge_index)
        return rows[nodes], model.head(rows)[nodes]

    everything = torch.arange(graph.num_nodes)
    with torch.no_grad():
        taught = told(module, graph, everything), told(bad, GRAPH, at)

    def loss():
        total = 0
        students = told(module, graph, everything), told(module, GRAPH, at)
        for weight, (rows, logits), (own_rows, own_logits) in zip((0.7, 0.3), taught, students, strict=True):
            apart = (logits.softmax(1) * (logits.log_softmax(1) - own_logits.log_softmax(1))).sum() / len(logits)
            total = total + weight * (apart + (rows - own_rows).square().mean())
        return total

    optimiser = torch.optim.Adam(module.parameters(), lr=0.01)
    for _ in range(3):
        optimiser.zero_grad()
        loss().backward()
        optimiser.step()
    method = resolve(CATALOGUE, "unlearner", "d2dgn[epochs=3,lr=0.01,alpha=0.7]").build()
    after = method.update(network, task, request_, retained).state(0)
    # By norms: Adam moves an entry whose gradient is rounding as far as any other.
    with torch.no_grad():
        gap = math.sqrt(sum(float((part.reshape(p.shape) - p).square().sum()) for p, part in module.pairs(after)))
    moved = math.sqrt(sum(float((after[name] - start[name]).square().sum()) for name in start))
    assert moved > 0.1
    assert gap < 0.05 * moved
