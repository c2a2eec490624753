import math

import pytest
import torch
from model_samples import MODELS, NO_EDGES, drawn_stack, logits, odd_graphs, seeded, shards, with_edges, with_features
from pyg_models import COUNTERPARTS
from torch.nn import functional

from unlearnbench.errors import UsageError
from unlearnbench.gnn import train_networks
from unlearnbench.gnn.edges import Edges, attention_edges
from unlearnbench.gnn.functional import elu, pagerank
from unlearnbench.gnn.layers import VECTOR, StackedLayer
from unlearnbench.gnn.layout import Ragged, Shared
from unlearnbench.gnn.sparse import SparseMatrix, from_entries
from unlearnbench.graph import Graph
from unlearnbench.graph.sparse_features import is_sparse_enough
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task


@pytest.mark.parametrize("hidden", [64, 20])
@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", COUNTERPARTS)
def test_a_stack_of_one_equals_pyg_in_values_and_in_the_gradient_of_every_weight(model, sparse, hidden):
    for kind, graph in odd_graphs().items():
        graph = with_features(graph, 0.08 if sparse else 0.9)
        assert is_sparse_enough(graph.x) is sparse
        stack = drawn_stack(model, 1, graph.num_features, arguments=f"hidden={hidden}")
        module = COUNTERPARTS[model](graph.num_features, 3, hidden).take(stack.own(0)).eval()
        layout = Ragged([graph])
        rows = stack.embed(layout)
        theirs = module.embed(graph.x, graph.edge_index)
        torch.testing.assert_close(rows[:, :hidden], theirs, atol=1e-5, rtol=1e-5, msg=kind)
        ours, theirs = stack.head(rows, layout)[:, :3], module.head(theirs)
        torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-5)
        theirs.square().mean().backward()
        parameters = dict(stack.named_parameters())
        grads = torch.autograd.grad(ours.square().mean(), list(parameters.values()))
        with torch.no_grad():
            for parameter, grad in zip(parameters.values(), grads, strict=True):
                parameter.copy_(grad)
        pairs = module.pairs(stack.own(0))
        assert len(pairs) == len(list(module.parameters()))
        for parameter, found in pairs:
            torch.testing.assert_close(found.reshape(parameter.shape), parameter.grad, atol=1e-5, rtol=1e-5, msg=kind)


@pytest.mark.parametrize("model", COUNTERPARTS)
def test_padding_gets_no_gradient(model):
    """Padding that stays zero in values and gradients stays zero in training."""
    graph = toy_graph(num_nodes=20)
    stack = drawn_stack(model, 2, graph.num_features, arguments="hidden=20")
    layout = Ragged([graph, graph])
    grads = torch.autograd.grad(logits(stack, layout)[:, :3].square().sum(), list(stack.parameters()))
    with torch.no_grad():
        for parameter, grad in zip(stack.parameters(), grads, strict=True):
            parameter.copy_(grad)
        for network in range(2):
            for view in stack.own(network).values():
                view.zero_()
    for name, parameter in stack.named_parameters():
        assert not parameter.any(), name
        assert parameter[0].numel() % VECTOR == 0, name


@pytest.mark.parametrize("model", COUNTERPARTS)
def test_initial_values_are_spread_as_pyg_spreads_them(model):
    """Every draw lies within the range of PyG's, and fills it; what starts at zero there does here."""
    width, hidden = 300, 64
    spec = resolve(load_catalogue(), "model", model)
    stack = spec.build().stack(1, width, 50)
    stack.draw([seeded()])
    torch.manual_seed(0)
    module = COUNTERPARTS[model](width, 50, hidden)
    for parameter, found in module.pairs(stack.own(0)):
        if not parameter.any():
            assert not found.any()
            continue
        wanted, reached = float(parameter.detach().abs().max()), float(found.abs().max())
        assert reached == pytest.approx(wanted, rel=0.2)
        if found.numel() > 1000:
            assert reached == pytest.approx(wanted, rel=0.01)
            assert float(found.std()) == pytest.approx(wanted / math.sqrt(3), rel=0.05)


@pytest.mark.parametrize("arguments", ["", "hidden=20"])
@pytest.mark.parametrize("model", MODELS)
def test_the_shared_layout_equals_a_copy_of_the_graph_for_each_network(model, arguments):
    if arguments and model in ("gat", "gatv2"):
        arguments += ",heads=4"
    for kind, graph in odd_graphs().items():
        for featured in (graph, with_features(graph, 0.08)):
            stack = drawn_stack(model, 3, featured.num_features, arguments=arguments)
            ragged, shared = Ragged([featured] * 3), Shared(featured, 3)
            with torch.no_grad():
                apart, together = stack.embed(ragged), stack.embed(shared)
                pairs = [(apart, together), (stack.head(apart, ragged), stack.head(together, shared))]
            for wanted, found in pairs:
                for one, other in zip(ragged.split(wanted, None), shared.split(found, None), strict=True):
                    torch.testing.assert_close(other, one, atol=1e-5, rtol=1e-5, msg=kind)


@pytest.mark.parametrize("model", MODELS)
def test_the_padded_product_equals_the_ragged_one(model):
    graphs = shards(4)
    stack = drawn_stack(model, 4, 8)
    results = []
    for padding in (False, True):
        rows = logits(stack, Ragged(graphs, padded=padding))
        results.append((rows, *torch.autograd.grad(rows.square().mean(), list(stack.parameters()))))
    for ragged, batched in zip(*results, strict=True):
        torch.testing.assert_close(ragged, batched, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("model", MODELS)
def test_every_model_learns_and_is_finite_on_odd_graphs(model):
    graphs = list(odd_graphs().values())
    networks = train_networks(toy_task(model=model, epochs=60), graphs, range(len(graphs)))
    answers = networks.predict(graphs)
    for (embedding, answer), graph in zip(answers, graphs, strict=True):
        assert embedding.shape == (graph.num_nodes, 64)
        assert answer.shape == (graph.num_nodes, 3)
        assert bool(torch.isfinite(embedding).all())
        assert bool(torch.isfinite(answer).all())
    assert float((answers[0][1].argmax(dim=1) == graphs[0].y).double().mean()) > 0.6


@pytest.mark.parametrize("model", MODELS)
def test_a_model_looks_at_edges_unless_it_is_the_control(model):
    graph = toy_graph(num_nodes=20)
    stack = drawn_stack(model, 1, graph.num_features)
    with torch.no_grad():
        same = torch.equal(logits(stack, Ragged([graph])), logits(stack, Ragged([with_edges(graph, NO_EDGES)])))
    assert same is (model == "mlp")


def test_dropout_is_a_part_of_training_and_its_rate_a_parameter():
    for model in MODELS:
        graph = toy_graph()
        states = [
            train_networks(toy_task(model=f"{model}[dropout={rate}]", epochs=3), [graph], [0]).state(0)
            for rate in ("0", "0.5")
        ]
        assert any(not torch.equal(states[0][name], states[1][name]) for name in states[0]), model


@pytest.mark.parametrize("model", ["gat", "gatv2"])
def test_heads_must_share_the_columns_equally(model):
    with pytest.raises(UsageError, match="heads=8"):
        resolve(load_catalogue(), "model", f"{model}[hidden=20]")


def test_parameters_reach_the_layers():
    shapes = {name: tuple(view.shape) for name, view in drawn_stack("gat[hidden=24,heads=3]", 1, 8).own(0).items()}
    assert shapes["conv1.weight"] == (8, 24)
    assert shapes["conv2.attention"] == (2, 24)
    assert drawn_stack("jknet[layers=2]", 1, 8).own(0)["jump.weight"].shape == (2, 64, 64)
    graph = toy_graph()
    for one, other in (("appnp", "appnp[steps=2]"), ("appnp", "appnp[alpha=0.5]"), ("sgc", "sgc[steps=1]")):
        with torch.no_grad():
            rows = [logits(drawn_stack(model, 1, 8), Ragged([graph])) for model in (one, other)]
        assert not torch.allclose(rows[0], rows[1])


def some_edges():
    return Edges(torch.tensor([2, 0, 0, 1, 2, 0]), torch.tensor([0, 1, 1, 1, 2, 0]), 3)


def test_sums_and_softmax_along_edges_by_hand():
    edges = some_edges()
    # By target, then source: (0, 0), (0, 1), (0, 1), (1, 1), (2, 0), (2, 2).
    assert edges.targets.index.tolist() == [0, 0, 0, 1, 2, 2]
    assert edges.sources.index.tolist() == [0, 1, 1, 1, 0, 2]
    values = torch.tensor([1.0, 2, 3, 4, 5, 6])
    assert edges.targets.add(values).tolist() == [6, 4, 11]
    assert edges.sources.add(values).tolist() == [6, 9, 6]
    assert edges.sources.add(values.unsqueeze(1).expand(-1, 2)).tolist() == [[6, 6], [9, 9], [6, 6]]
    rows = torch.tensor([[1.0, 0], [0, 1], [10, 10]])
    assert edges.weighted_sum(values, rows).tolist() == [[1, 5], [0, 4], [65, 60]]
    assert edges.weighted_sum(values, rows, turned=True).tolist() == [[51, 50], [5, 4], [60, 60]]
    assert edges.dots(rows, rows).tolist() == [1, 0, 0, 1, 10, 200]
    shares = edges.softmax(torch.log(values) + 200)
    torch.testing.assert_close(shares, torch.tensor([1 / 6, 2 / 6, 3 / 6, 1, 5 / 11, 6 / 11]))


def test_attention_looks_at_each_node_itself_once_and_at_doubles_twice():
    edges = attention_edges(torch.tensor([[0, 0, 1, 1, 1], [0, 0, 0, 0, 1]]), 3, 2)
    pairs = list(zip(edges.targets.index.tolist(), edges.sources.index.tolist(), strict=True))
    assert pairs == [(0, 0), (0, 2), (0, 2), (1, 1), (1, 3), (1, 3), (2, 2), (3, 3), (4, 4), (5, 5)]


def test_every_new_operation_can_be_differentiated_twice():
    def drawn(*shape, seed=0):
        return torch.randn(*shape, dtype=torch.float64, generator=seeded(seed), requires_grad=True)

    edges = some_edges()
    matrix = from_entries(torch.tensor([0, 1, 1, 2]), torch.tensor([1, 0, 2, 2]), torch.rand(4), (3, 3))
    matrix = SparseMatrix(matrix.csr.double(), matrix.transposed.double())
    cases = [
        (edges.targets.take, (drawn(3),)),
        (edges.sources.take, (drawn(3, 2),)),
        (edges.targets.add, (drawn(6),)),
        (edges.sources.add, (drawn(6, 2),)),
        (edges.softmax, (drawn(6),)),
        (edges.weighted_sum, (drawn(6), drawn(3, 2))),
        (lambda values, rows: edges.weighted_sum(values, rows, True), (drawn(6), drawn(3, 2))),
        (edges.dots, (drawn(3, 2), drawn(3, 2, seed=1))),
        (elu, (drawn(9),)),
        (lambda rows: pagerank(matrix, rows, 3, 0.2), (drawn(3, 2),)),
    ]
    for function, inputs in cases:
        assert torch.autograd.gradcheck(function, inputs)
        assert torch.autograd.gradgradcheck(function, inputs)


@pytest.mark.parametrize("sparse", [False, True], ids=["dense", "sparse"])
@pytest.mark.parametrize("model", COUNTERPARTS)
def test_second_derivatives_equal_pygs(model, sparse):
    graph = with_features(toy_graph(num_nodes=20), 0.08 if sparse else 0.9)
    stack = drawn_stack(model, 1, graph.num_features)
    module = COUNTERPARTS[model](graph.num_features, 3).take(stack.own(0)).eval()

    def product(rows, parameters):
        """The Hessian of the loss times the parameters."""
        loss = functional.cross_entropy(rows[:, :3], graph.y)
        grads = torch.autograd.grad(loss, parameters, create_graph=True)
        along = sum((grad * parameter.detach()).sum() for grad, parameter in zip(grads, parameters, strict=True))
        return torch.autograd.grad(along, parameters)

    ours = product(logits(stack, Ragged([graph])), list(stack.parameters()))
    theirs = product(module(graph.x, graph.edge_index), list(module.parameters()))
    with torch.no_grad():
        for parameter, value in zip(stack.parameters(), ours, strict=True):
            parameter.copy_(value)
        for parameter, value in zip(module.parameters(), theirs, strict=True):
            parameter.copy_(value)
    for wanted, found in module.pairs(stack.own(0)):
        torch.testing.assert_close(found.reshape(wanted.shape), wanted.detach(), atol=1e-4, rtol=1e-4)


def test_blocks_of_a_parameter_are_views_of_what_is_stored():
    stack = drawn_stack("sage[hidden=20]", 2, 8)
    layer = stack.layers()["conv1"]
    assert isinstance(layer, StackedLayer)
    assert layer.weight.shape == (2, 8, 64)
    layer.own(1)["weight"][:, 1] = 7
    assert bool((layer.weight[1, :, 32:52] == 7).all())
    assert not bool((layer.weight[1, :, :32] == 7).any())
    assert not bool(layer.weight[1, :, 52:].any())


@pytest.mark.parametrize("model", MODELS)
def test_features_that_are_all_zero_train(model):
    graph = toy_graph(num_nodes=20)
    empty = Graph(torch.zeros(20, 8), graph.y, graph.edge_index, graph.ids, 3)
    networks = train_networks(toy_task(model=model, epochs=3), [empty, graph], [0, 1])
    for _, answer in networks.predict([empty, graph]):
        assert bool(torch.isfinite(answer).all())
    alone = train_networks(toy_task(model=model, epochs=3), [empty], [0])
    for name, value in alone.state(0).items():
        assert torch.equal(value, networks.state(0)[name])
