"""Models on edges with weights: as PyG's layers have it, or as so many edges; those that take none refuse."""

from dataclasses import replace

import pytest
import torch
from model_samples import drawn_stack, logits, with_features
from pyg_models import COUNTERPARTS
from torch import nn
from torch_geometric.nn import GCNConv
from weight_samples import weighted, weighted_toy

from unlearnbench.errors import RefusedError
from unlearnbench.gnn import Model, train_networks
from unlearnbench.gnn.layout import Ragged, Shared
from unlearnbench.gnn.matrices import Matrices
from unlearnbench.graph import Graph
from unlearnbench.testing.graphs import toy_graph, toy_task

WEIGHTED = ("gcn", "sage", "appnp", "gin", "sgc", "jknet")


def gradients(stack, rows):
    return torch.autograd.grad(rows.square().mean(), list(stack.parameters()))


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", ["gcn", "appnp", "sgc", "jknet"])
def test_models_with_weights_equal_pygs_layers_in_values_and_gradients(model, sparse):
    graph = with_features(toy_graph(30), 0.08 if sparse else 0.9)
    # An edge to itself, and one in one direction only.
    edges = torch.cat([graph.edge_index, torch.tensor([[3, 7], [3, 20]])], dim=1)
    graph = weighted(replace(graph, edge_index=edges))
    stack, layout = drawn_stack(model, 1, graph.num_features), Ragged([graph])
    module = COUNTERPARTS[model](graph.num_features, 3).take(stack.own(0)).eval()
    ours = logits(stack, layout)[:, :3]
    theirs = module.head(module.embed(graph.x, graph.edge_index, graph.edge_weight))
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
    assert not torch.allclose(ours, logits(stack, Ragged([replace(graph, edge_weight=None)]))[:, :3], atol=1e-3)
    theirs.square().mean().backward()
    grads = gradients(stack, ours)
    with torch.no_grad():
        for parameter, grad in zip(stack.parameters(), grads, strict=True):
            parameter.copy_(grad)
    for parameter, found in module.pairs(stack.own(0)):
        torch.testing.assert_close(found.reshape(parameter.shape), parameter.grad, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", [*WEIGHTED, "mlp"])
def test_an_edge_of_a_whole_weight_counts_as_so_many_edges(model):
    graphs = [weighted(graph, whole=True) for graph in (toy_graph(20), with_features(toy_graph(25, 3, 40), 0.08))]
    for graph in graphs:
        times = graph.edge_weight.long()
        several = replace(graph, edge_index=graph.edge_index.repeat_interleave(times, dim=1), edge_weight=None)
        stack = drawn_stack(model, 2, graph.num_features)
        for layouts in (
            [Ragged([each] * 2) for each in (graph, several)],
            [Shared(each, 2) for each in (graph, several)],
        ):
            one, other = (logits(stack, layout) for layout in layouts)
            torch.testing.assert_close(one, other, atol=1e-5, rtol=1e-5)
            for found, wanted in zip(gradients(stack, one), gradients(stack, other), strict=True):
                torch.testing.assert_close(found, wanted, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("batch_size", [0, 8])
@pytest.mark.parametrize("model", WEIGHTED)
def test_networks_trained_in_lockstep_on_weighted_graphs_have_the_bits_of_each_alone(model, batch_size):
    graphs = [weighted_toy(nodes, edges=3 * nodes, seed=nodes) for nodes in (17, 1, 30, 8)]
    task = toy_task(graphs[0], model=model, epochs=3)
    task = replace(task, training=replace(task.training, batch_size=batch_size))
    together = train_networks(task, graphs, range(4))
    for place in (0, 3):
        alone = train_networks(task, [graphs[place]], [place])
        unweighted = train_networks(task, [replace(graphs[place], edge_weight=None)], [place])
        for name, value in alone.state(0).items():
            assert torch.equal(value, together.state(place)[name])
        assert any(not torch.equal(value, unweighted.state(0)[name]) for name, value in alone.state(0).items())
        ((_, ragged),) = alone.predict([graphs[place]])
        _, shared = alone.predict_shared(graphs[place], torch.arange(graphs[place].num_nodes))
        torch.testing.assert_close(ragged, shared[0], atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", ["gat", "gatv2"])
def test_attention_refuses_weights(model):
    graph = weighted_toy()
    with pytest.raises(RefusedError, match=f"model '{model}' takes no edge weights"):
        train_networks(toy_task(graph, model=model), [graph], [0])
    with pytest.raises(RefusedError, match="Attention over edges takes no edge weights"):
        Matrices(graph.edge_index, 60, graph.edge_weight).edges(1)


class Weighing(nn.Module):
    def __init__(self, num_features, num_classes):
        super().__init__()
        self.conv, self.head = GCNConv(num_features, 8), nn.Linear(8, num_classes)

    def embed(self, x, edge_index, edge_weight=None):
        return self.conv(x, edge_index, edge_weight)


class Weighs(Model):
    name = "weighs"
    supports_edge_weight = True

    def build(self, num_features, num_classes, generator):
        return Weighing(num_features, num_classes)


def test_a_module_of_a_plugin_gets_the_weights():
    def trained(graph: Graph, cls: type[Model] = Weighs):
        task = toy_task(graph)
        return train_networks(replace(task, model=replace(task.model, cls=cls, name="weighs")), [graph], [0]).state(0)

    one, other = trained(weighted_toy()), trained(toy_graph())
    assert not torch.equal(one["conv.lin.weight"], other["conv.lin.weight"])
    with pytest.raises(RefusedError, match="takes no edge weights"):
        trained(weighted_toy(), type("Deaf", (Weighs,), {"supports_edge_weight": False}))
