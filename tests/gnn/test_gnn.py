import pytest
import torch
from model_samples import shards, with_features
from torch import nn
from torch_geometric.nn import GCNConv

from unlearnbench.component import Spec
from unlearnbench.errors import RefusedError
from unlearnbench.gnn import Model, train_networks
from unlearnbench.gnn.dropout import Noise
from unlearnbench.gnn.layers import padded
from unlearnbench.gnn.layout import Ragged
from unlearnbench.gnn.networks import Networks
from unlearnbench.gnn.plain_module import global_random_state
from unlearnbench.gnn.ragged import owners, ragged_product, spread
from unlearnbench.gnn.sparse import from_dense, from_edges
from unlearnbench.gnn.zoo import GCN
from unlearnbench.graph import Graph
from unlearnbench.graph.sparse_features import is_sparse_enough
from unlearnbench.testing.graphs import toy_graph, toy_task


class PygGcn(nn.Module):
    def __init__(self, features, classes, hidden=64, dropout=0.5):
        super().__init__()
        self.conv1, self.conv2 = GCNConv(features, hidden), GCNConv(hidden, hidden)
        self.linear1, self.linear2 = nn.Linear(hidden, hidden), nn.Linear(hidden, classes)
        self.dropout = dropout

    def embed(self, x, edge_index):
        h = nn.functional.dropout(self.conv1(x, edge_index).relu(), self.dropout, self.training)
        return nn.functional.dropout(self.conv2(h, edge_index).relu(), self.dropout, self.training)

    def head(self, h):
        return self.linear2(nn.functional.dropout(self.linear1(h).relu(), self.dropout, self.training))

    def forward(self, x, edge_index):
        return self.head(self.embed(x, edge_index))

    def own(self, own):
        with torch.no_grad():
            for name in ("conv1", "conv2"):
                getattr(self, name).lin.weight.copy_(own[f"{name}.weight"].t())
                getattr(self, name).bias.copy_(own[f"{name}.bias"])
            for name in ("linear1", "linear2"):
                getattr(self, name).weight.copy_(own[f"mlp.{name}.weight"].t())
                getattr(self, name).bias.copy_(own[f"mlp.{name}.bias"])
        return self


def odd_graphs() -> list[Graph]:
    base = toy_graph(num_nodes=20)
    loops = torch.tensor([[0, 0, 1, 1, 5, 5], [0, 0, 2, 2, 5, 1]])
    return [
        base,
        Graph(base.x, base.y, torch.empty(2, 0, dtype=torch.int64), base.ids, 3),
        Graph(base.x[:1], base.y[:1], torch.empty(2, 0, dtype=torch.int64), base.ids[:1], 3),
        Graph(base.x, base.y, loops, base.ids, 3),
    ]


def drawn_gcn(count, features, classes, **params):
    stack = GCN(GCN.Params(**params)).stack(count, features, classes)
    stack.draw([torch.Generator().manual_seed(seed) for seed in range(count)])
    for layer in stack.layers().values():
        for network in range(count):
            bias = layer.own(network)["bias"]
            bias.copy_(torch.randn(bias.shape, generator=torch.Generator().manual_seed(network)))
    return stack


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("hidden", [64, 20])
def test_a_stack_of_one_equals_pyg_in_values_and_gradients(sparse, hidden):
    for graph in odd_graphs():
        graph = with_features(graph, 0.05) if sparse else graph
        stack = drawn_gcn(1, graph.num_features, 3, hidden=hidden).eval()
        module = PygGcn(graph.num_features, 3, hidden).own(stack.own(0)).eval()
        layout = Ragged([graph])
        ours = stack.head(stack.embed(layout), layout)[:, :3]
        theirs = module(graph.x, graph.edge_index)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        (grad,) = torch.autograd.grad(ours.square().sum(), [stack.conv1.weight], retain_graph=True)
        (wanted,) = torch.autograd.grad(theirs.square().sum(), [module.conv1.lin.weight], retain_graph=True)
        torch.testing.assert_close(grad[0, :, :hidden], wanted.t(), atol=1e-4, rtol=1e-5)
        (grad,) = torch.autograd.grad(ours.square().sum(), [stack.conv2.weight])
        (wanted,) = torch.autograd.grad(theirs.square().sum(), [module.conv2.lin.weight])
        torch.testing.assert_close(grad[0, :hidden, :hidden], wanted.t(), atol=1e-4, rtol=1e-5)


@pytest.mark.parametrize("sparse", [False, True])
def test_training_equals_a_plain_pyg_loop(sparse):
    graph = with_features(toy_graph(), 0.05) if sparse else toy_graph()
    task = toy_task(graph, model="gcn[dropout=0]", epochs=30)
    network = train_networks(task, [graph], [0])
    untrained = train_networks(toy_task(graph, model="gcn[dropout=0]", epochs=0), [graph], [0])
    module = PygGcn(graph.num_features, 3, dropout=0).own(untrained.state(0))
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(30):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module(graph.x, graph.edge_index), graph.y).backward()
        optimiser.step()
    ((_, logits),) = network.predict([graph])
    torch.testing.assert_close(logits, module(graph.x, graph.edge_index), atol=1e-3, rtol=1e-3)


def test_a_network_has_the_same_bits_among_networks_of_other_densities():
    """Sparse or dense is decided for each network by itself: the two products round differently."""
    task = toy_task(epochs=40)
    densities = (0.05, 0.3, 0.12, 0.9, 0.14, 0.16)
    parts = [with_features(part, density, 200) for part, density in zip(shards(6), densities, strict=True)]
    assert {is_sparse_enough(part.x) for part in parts} == {True, False}
    many = train_networks(task, parts, range(6))
    for network in range(6):
        alone = train_networks(task, [parts[network]], [network])
        for name, value in many.state(network).items():
            assert torch.equal(value, alone.state(0)[name]), name
        ((_, logits),) = alone.predict([parts[network]])
        torch.testing.assert_close(many.predict(parts)[network][1], logits)


def test_one_by_one_gives_the_bits_of_lockstep():
    from dataclasses import replace

    task = toy_task(epochs=10)
    parts = shards(5)
    alone = replace(task, training=replace(task.training, one_by_one=True))
    together, apart = train_networks(task, parts, range(5)), train_networks(alone, parts, range(5))
    for network in range(5):
        for name, value in together.state(network).items():
            assert torch.equal(value, apart.state(network)[name])


def test_odd_graphs_train_to_finite_output():
    graphs = odd_graphs()
    networks = train_networks(toy_task(epochs=20), graphs, range(len(graphs)))
    for (embedding, logits), graph in zip(networks.predict(graphs), graphs, strict=True):
        assert embedding.shape == (graph.num_nodes, 64)
        assert logits.shape == (graph.num_nodes, 3)
        assert bool(torch.isfinite(logits).all())


def test_padding_stays_zero_and_is_not_part_of_the_state():
    stack = drawn_gcn(2, 8, 3, hidden=20)
    assert stack.conv2.weight.shape == (2, padded(20), padded(20))
    assert stack.own(0)["conv2.weight"].shape == (20, 20)
    assert stack.own(1)["mlp.linear2.bias"].shape == (3,)
    weight = stack.conv2.weight.detach()
    assert not bool(weight[:, 20:].any())
    assert not bool(weight[:, :, 20:].any())


def test_the_shared_layout_equals_a_copy_of_the_graph_for_each_network():
    for graph in (toy_graph(), with_features(toy_graph(), 0.05)):
        networks = train_networks(toy_task(graph, epochs=5), [graph] * 3, range(3))
        embeddings, logits = networks.predict_shared(graph, torch.arange(60))
        for network, (embedding, own) in enumerate(networks.predict([graph] * 3)):
            torch.testing.assert_close(embeddings[network], embedding, atol=1e-5, rtol=1e-5)
            torch.testing.assert_close(logits[network], own, atol=1e-5, rtol=1e-5)


def test_the_padded_product_equals_the_ragged_one():
    graphs = shards(4)
    stack = drawn_gcn(4, 8, 3).eval()
    results = []
    for padding in (False, True):
        layout = Ragged(graphs, padded=padding)
        rows = stack.head(stack.embed(layout), layout)
        results.append((rows, *torch.autograd.grad(rows.square().sum(), list(stack.parameters()))))
    for ragged, batched in zip(*results, strict=True):
        torch.testing.assert_close(ragged, batched, atol=1e-4, rtol=1e-4)


def test_predicting_with_some_networks_equals_predicting_with_all():
    graphs = shards(4)
    networks = train_networks(toy_task(), graphs, range(4))
    everyone = networks.predict(graphs)
    for network, answer in zip([3, 1], networks.predict([graphs[3], graphs[1]], [3, 1]), strict=True):
        torch.testing.assert_close(answer[1], everyone[network][1])


def test_products_can_be_differentiated_twice():
    rng = torch.Generator().manual_seed(0)

    def drawn(*shape):
        return torch.randn(*shape, dtype=torch.float64, generator=rng, requires_grad=True)

    sizes = [2, 0, 3]
    dense = torch.where(torch.rand(4, 3, generator=rng) < 0.5, 1.5, 0.0).double()
    matrix = from_dense(dense)
    cases = [
        (lambda a, b: ragged_product(a, b, sizes), (drawn(5, 3), drawn(3, 3, 2))),
        (lambda a: spread(a, sizes, owners(sizes, a.device)), (drawn(3, 4),)),
        (lambda a: matrix @ a, (drawn(3, 2),)),
    ]
    for function, inputs in cases:
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


def test_dropout_keeps_the_share_it_should_and_scales_the_rest():
    for rate in (0.1, 0.5, 0.7):
        keep = Noise([1, 2], torch.device("cpu")).keep([300, 500], 64, rate)
        for part in keep.view(800, 16, 4).unbind(dim=2):
            assert abs(float(part.double().mean()) - (1 - rate)) < 0.02
    layout = Ragged([toy_graph()], Noise([5], torch.device("cpu")))
    dropped = layout.dropout(torch.ones(60, 64), 0.5)
    assert set(dropped.unique().tolist()) == {0.0, 2.0}
    assert not torch.equal(dropped, layout.dropout(torch.ones(60, 64), 0.5))


def test_sparse_matrices_equal_dense_ones():
    graph = toy_graph()
    adjacency = torch.zeros(60, 60)
    adjacency.index_put_((graph.edge_index[1], graph.edge_index[0]), torch.ones(graph.num_edges), accumulate=True)
    torch.testing.assert_close(from_edges(graph.edge_index, 60) @ graph.x, adjacency @ graph.x)
    torch.testing.assert_close(from_edges(graph.edge_index, 60).t() @ graph.x, adjacency.t() @ graph.x)
    assert is_sparse_enough(torch.eye(10))
    assert not is_sparse_enough(torch.ones(3, 3))


class PluginGcn(Model):
    name = "plugin-gcn"

    def build(self, num_features, num_classes, generator):
        return PygGcn(num_features, num_classes)


def test_a_plain_module_trains_through_the_same_loop_and_is_independent_of_its_neighbours():
    from dataclasses import replace

    spec = Spec("model", "plugin-gcn", 1, PluginGcn, PluginGcn.Params())
    task = replace(toy_task(epochs=60), model=spec)
    parts = shards(3)
    before = torch.random.get_rng_state()
    many = train_networks(task, parts, range(3))
    assert torch.equal(before, torch.random.get_rng_state())
    alone = train_networks(task, [parts[2]], [2])
    assert isinstance(many, Networks)
    for name, value in many.state(2).items():
        assert torch.equal(value, alone.state(0)[name])
    graph = toy_graph()
    whole = train_networks(task, [graph], [0])
    ((_, logits),) = whole.predict([graph])
    assert float((logits.argmax(1) == graph.y).double().mean()) > 0.8
    embeddings, shared = many.predict_shared(graph, torch.arange(60))
    assert embeddings.shape == (3, 60, 64)
    assert shared.shape == (3, 60, 3)


class Normalised(Model):
    name = "normalised"

    def build(self, num_features, num_classes, generator):
        from wrong_plugins import Normed

        return Normed(num_features, num_classes)


@pytest.mark.parametrize("batch_size", [None, 20])
def test_a_shard_of_one_node_that_cannot_be_normalised_is_named(batch_size):
    from dataclasses import replace

    spec = Spec("model", "normalised", 1, Normalised, Normalised.Params(), label="normalised")
    task = toy_task(epochs=2)
    task = replace(task, model=spec, training=replace(task.training, batch_size=batch_size))
    graph = toy_graph()
    one = graph.induced(graph.ids[:1])
    with pytest.raises(RefusedError, match="Shard 7 has 1 training node: normalised normalises over a batch") as caught:
        train_networks(task, [graph.induced(graph.ids[1:20]), one], [3, 7])
    assert "`num_shards`" in caught.value.hint
    with pytest.raises(RefusedError, match=r"Network 7 \(embedder\)"):
        train_networks(task, [one], [7], role="embedder")


class Einsum(nn.Module):
    """Gives its weight a gradient that lies in memory transposed."""

    def __init__(self, features, classes):
        super().__init__()
        self.weight = nn.Parameter(0.1 * torch.arange(classes * features).reshape(classes, features).cos())

    def embed(self, x, edge_index):
        return x

    def head(self, h):
        return torch.einsum("of,nf->no", self.weight, h)


class EinsumModel(Model):
    name = "einsum"

    def build(self, num_features, num_classes, generator):
        return Einsum(num_features, num_classes)


def test_a_gradient_that_lies_transposed_in_memory_trains_as_any_other():
    from dataclasses import replace

    graph = toy_graph()
    module = Einsum(8, 3)
    loss = nn.functional.cross_entropy(module.head(graph.x), graph.y)
    (gradient,) = torch.autograd.grad(loss, [module.weight])
    assert gradient.stride() != module.weight.stride()
    task = replace(toy_task(graph, epochs=10), model=Spec("model", "einsum", 1, EinsumModel, EinsumModel.Params()))
    found = train_networks(task, [graph], [0]).state(0)["weight"]
    optimiser = torch.optim.Adam(module.parameters(), lr=0.01, weight_decay=5e-4)
    for _ in range(10):
        optimiser.zero_grad()
        nn.functional.cross_entropy(module.head(graph.x), graph.y).backward()
        optimiser.step()
    torch.testing.assert_close(found, module.weight.detach(), atol=1e-5, rtol=1e-5)


def test_the_random_state_of_a_device_that_is_not_put_back_is_not_set(monkeypatch):
    def refuse(key):
        raise AssertionError("all GPUs were seeded")

    monkeypatch.setattr(torch.cuda, "manual_seed_all", refuse)
    before = torch.random.get_rng_state()
    with global_random_state(7, torch.device("cpu")):
        drawn = torch.rand(3)
    assert torch.equal(before, torch.random.get_rng_state())
    assert torch.equal(drawn, torch.rand(3, generator=torch.Generator().manual_seed(7)))


def test_on_one_graph_the_nodes_asked_about_get_the_same_answers_some_networks_at_a_time(monkeypatch):
    graph = toy_graph()
    networks = train_networks(toy_task(graph, epochs=5), [graph] * 3, range(3))
    whole = networks.predict_shared(graph, torch.arange(60))
    at = torch.tensor([7, 3, 59])
    monkeypatch.setattr("unlearnbench.gnn.networks._SHARED_NUMBERS", 2 * 64 * 60)
    for all_nodes, asked in zip(whole, networks.predict_shared(graph, at), strict=True):
        torch.testing.assert_close(asked, all_nodes[:, at], atol=1e-6, rtol=1e-5)
    embeddings, logits = networks.predict_shared(graph, at[:0])
    assert (embeddings.shape, logits.shape) == ((3, 0, 64), (3, 0, 3))


@pytest.mark.parametrize("densities", [(0.05, 0.9, 0.1, 0.5), (0.9, 0.5, 0.9, 1.0), (0.05, 0.1, 0.05, 0.1)])
def test_features_propagated_once_give_the_rows_of_propagated_products(densities):
    parts = [with_features(part, density, 40) for part, density in zip(shards(4), densities, strict=True)]
    weight = torch.randn(4, 40, 16, generator=torch.Generator().manual_seed(0))
    training = Ragged(parts, Noise(range(4), torch.device("cpu")))
    evaluation = Ragged(parts)
    found = training.propagated(training.features, weight, 2)
    expected = evaluation.gcn @ (evaluation.gcn @ evaluation.linear(evaluation.features, weight))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-5)
    assert torch.equal(evaluation.propagated(evaluation.features, weight, 2), expected)
    for density, one, other in zip(
        densities, training.split(found, None), evaluation.split(expected, None), strict=True
    ):
        # Sparse features are multiplied before they are propagated, in both.
        assert density > 0.15 or torch.equal(one, other)
