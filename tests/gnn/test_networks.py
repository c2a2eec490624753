"""Networks as methods use them: copied, evaluated with gradients, differentiated twice."""

from dataclasses import replace

import pytest
import torch
from model_samples import MODELS, NO_EDGES, with_edges, with_features
from pyg_models import COUNTERPARTS, PygGCN
from task_samples import task_of
from torch.nn import functional

from unlearnbench.gnn import Noise, train_networks
from unlearnbench.task import Training
from unlearnbench.testing.graphs import toy_graph

GRAPH = toy_graph(num_nodes=24)
SPARSE = with_features(GRAPH, 0.08)
DENSITIES = pytest.mark.parametrize("graph", [GRAPH, SPARSE], ids=["dense", "sparse"])


def trained(graph, model="gcn", epochs=8):
    return train_networks(task_of(graph, model, epochs), [graph], [0])


def loss(networks, graph, noise=None):
    ((_, rows),) = networks.answers([graph], noise)
    return functional.cross_entropy(rows, graph.y)


def gradient(networks, graph):
    return torch.autograd.grad(loss(networks, graph), networks.parameters())


def filled(networks, values):
    """The networks with other values in place of the parameters, whose names and shapes `state` knows."""
    copy = networks.copy()
    with torch.no_grad():
        for parameter, value in zip(copy.parameters(), values, strict=True):
            parameter.copy_(value)
    return copy


@DENSITIES
@pytest.mark.parametrize("model", [*MODELS, "plain"])
def test_answers_have_the_bits_of_predictions_and_a_gradient(model, graph):
    networks = trained(graph, model)
    for seen in (graph, with_edges(graph, NO_EDGES)):
        for found, wanted in zip(networks.answers([seen])[0], networks.predict([seen])[0], strict=True):
            assert torch.equal(found, wanted)
        assert all(bool(part.any()) for part in gradient(networks, seen)[-2:])


@DENSITIES
@pytest.mark.parametrize("model", ["gcn", "gcn[hidden=20]", "sage[hidden=20]"])
def test_gradients_equal_those_of_pygs_modules_and_are_zero_in_the_padding(model, graph):
    networks = trained(graph, model)
    module = COUNTERPARTS[model.partition("[")[0]](graph.num_features, 3, hidden=20 if "20" in model else 64)
    module.take(networks.state(0)).eval()
    functional.cross_entropy(module(graph.x, graph.edge_index), graph.y).backward()
    found = gradient(networks, graph)
    shown = filled(networks, found).state(0)
    for parameter, part in module.pairs(shown):
        torch.testing.assert_close(part.reshape(parameter.shape), parameter.grad, atol=1e-6, rtol=1e-4)
    assert sum(int(part.count_nonzero()) for part in found) == sum(int(p.count_nonzero()) for p in shown.values())


def far_from_kinks(graph):
    """A network no ReLU of which is near zero on this graph, so that differences meet a smooth loss."""
    networks = trained(graph, "gcn[hidden=20]", epochs=0)
    rng = torch.Generator().manual_seed(2)
    for name, view in networks._stack.own(0).items():
        if name.endswith("bias"):
            view.copy_(torch.rand(view.shape, generator=rng).sub(0.5).sign())
        elif name != "mlp.linear2.weight":
            view.mul_(0.1)
    return networks


@DENSITIES
def test_a_product_with_the_hessian_equals_the_difference_of_gradients(graph):
    networks = far_from_kinks(graph)
    here, rng = [parameter.detach() for parameter in networks.parameters()], torch.Generator().manual_seed(3)
    along = [value.sign() * torch.randn(value.shape, generator=rng) for value in here]
    grads = torch.autograd.grad(loss(networks, graph), networks.parameters(), create_graph=True)
    slope = sum((grad * part).sum() for grad, part in zip(grads, along, strict=True))
    product = torch.cat([part.flatten() for part in torch.autograd.grad(slope, networks.parameters())])
    step = 1e-3
    ahead, behind = (
        gradient(filled(networks, [value + way * part for value, part in zip(here, along, strict=True)]), graph)
        for way in (step, -step)
    )
    wanted = torch.cat([(a - b).flatten() / (2 * step) for a, b in zip(ahead, behind, strict=True)])
    assert float(product.norm()) > 0.1
    assert float((product - wanted).norm()) < 0.01 * float(product.norm())


@DENSITIES
def test_one_pass_may_be_differentiated_again_and_both_results_kept(graph):
    networks = trained(graph)
    ((_, rows),) = networks.answers([graph])
    first, second = (
        torch.autograd.grad(functional.cross_entropy(rows[at], graph.y[at]), networks.parameters(), retain_graph=True)
        for at in (slice(0, 12), slice(12, 24))
    )
    mean = [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    torch.testing.assert_close(mean, list(gradient(networks, graph)), atol=1e-6, rtol=1e-4)
    assert not torch.equal(first[0], second[0])


@DENSITIES
@pytest.mark.parametrize("model", ["gcn", "gat", "plain"])
def test_a_step_with_noise_is_a_step_of_training(model, graph):
    task = task_of(graph, model, epochs=2)
    networks = trained(graph, model, epochs=0)
    noise = Noise([task.key("member", "dropout", 0)], task.device)
    parameters, rule = networks.parameters(), Training()
    optimiser = torch.optim.Adam(parameters, lr=rule.lr, weight_decay=rule.weight_decay, fused=True)
    for noise.step in range(2):
        for parameter, part in zip(
            parameters, torch.autograd.grad(loss(networks, graph, noise), parameters), strict=True
        ):
            parameter.grad = part
        optimiser.step()
    wanted = trained(graph, model, epochs=2).state(0)
    torch.testing.assert_close(networks.state(0), wanted)
    assert not torch.equal(loss(networks, graph, noise), loss(networks, graph))
    assert torch.equal(networks.answers([graph])[0][1], networks.predict([graph])[0][1])


@pytest.mark.parametrize("model", ["gcn", "plain"])
def test_a_copy_is_equal_and_of_its_own(model):
    networks = trained(GRAPH, model)
    copy, before = networks.copy(), networks.state(0)
    assert all(torch.equal(value, before[name]) for name, value in copy.state(0).items())
    with torch.no_grad():
        for parameter in copy.parameters():
            parameter.add_(1)
    assert all(torch.equal(value, before[name]) for name, value in networks.state(0).items())
    assert not torch.equal(copy.predict([GRAPH])[0][1], networks.predict([GRAPH])[0][1])


# Changed on the way


ONE_AFTER_THE_OTHER = {"gcn": 2, "gat": 2, "sage": 2, "gin": 2, "gatv2": 2, "jknet": 3}


@pytest.mark.parametrize("model", [*MODELS, "plain"])
def test_only_models_of_one_hop_layers_in_a_row_name_their_convolutions(model):
    columns = trained(GRAPH, model, epochs=0).convolutions()
    assert list(columns) == [f"conv{number}" for number in range(1, 1 + ONE_AFTER_THE_OTHER.get(model, 0))]
    assert set(columns.values()) <= {64}


@pytest.mark.parametrize("model", ONE_AFTER_THE_OTHER)
def test_a_change_that_changes_nothing_keeps_the_bits_and_none_outlasts_its_call(model):
    networks = trained(GRAPH, model)
    plain = networks.predict([GRAPH])[0][1]
    seen = {}
    kept = {name: lambda rows, name=name: seen.setdefault(name, rows) for name in networks.convolutions()}
    assert torch.equal(networks.answers([GRAPH], changes=kept)[0][1], plain)
    assert all(rows.shape == (24, 64) for rows in seen.values())
    assert len(seen) == ONE_AFTER_THE_OTHER[model]
    lost = dict.fromkeys(networks.convolutions(), torch.zeros_like)
    assert not torch.equal(networks.answers([GRAPH], changes=lost)[0][1], plain)
    assert torch.equal(networks.predict([GRAPH])[0][1], plain)

    def broken(rows):
        raise ArithmeticError

    with pytest.raises(ArithmeticError):
        networks.answers([GRAPH], changes={"conv1": broken})
    assert torch.equal(networks.predict([GRAPH])[0][1], plain)


def test_what_is_changed_are_rows_before_the_activation_without_padding():
    networks, seen = trained(GRAPH, "gcn[hidden=20]"), {}
    networks.answers([GRAPH], changes={"conv2": lambda rows: seen.setdefault("rows", rows) * 2})
    module = PygGCN(GRAPH.num_features, 3, hidden=20).take(networks.state(0)).eval()
    wanted = module.conv2(module.conv1(GRAPH.x, GRAPH.edge_index).relu(), GRAPH.edge_index)
    assert seen["rows"].shape == (24, 20)
    assert bool((seen["rows"] < 0).any())
    torch.testing.assert_close(seen["rows"], wanted, atol=1e-5, rtol=1e-5)
    embeddings, _ = networks.answers([GRAPH], changes={"conv2": lambda rows: rows * 2})[0]
    torch.testing.assert_close(embeddings, 2 * wanted.relu(), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("model", ["gcn", "gat", "plain"])
def test_asking_again_and_again_has_the_bits_of_asking_anew(model):
    networks = trained(SPARSE, model)
    noise, other = (Noise([5], torch.device("cpu")) for _ in range(2))
    ask, noisy = networks.answering([SPARSE]), networks.answering([SPARSE], noise)
    for _ in range(2):
        assert torch.equal(ask()[0][1], networks.answers([SPARSE])[0][1])
        assert torch.equal(noisy()[0][1], networks.answers([SPARSE], other)[0][1])
        noise.step = other.step = 1
        with torch.no_grad():
            networks.parameters()[0].add_(0.1)


@pytest.mark.parametrize("model", [*MODELS, "plain"])
def test_networks_that_start_from_parameters_have_the_same_bits_alone_and_in_company(model):
    task = task_of(GRAPH, model)
    start = {3: train_networks(task, [GRAPH], [3]).state(0)}
    parts = [GRAPH.induced(GRAPH.ids[first::3]) for first in range(3)]
    together = train_networks(task, parts, [1, 3, 2], start=start, step=1)
    for place, name in enumerate([1, 3, 2]):
        alone = train_networks(task, [parts[place]], [name], start=start, step=1).state(0)
        assert all(torch.equal(value, alone[key]) for key, value in together.state(place).items())
    drawn = train_networks(task, [parts[1]], [3], step=1).state(0)
    assert not all(torch.equal(value, drawn[key]) for key, value in together.state(1).items())


@pytest.mark.parametrize("model", ["gcn[hidden=20]", "plain"])
def test_a_start_is_copied_and_a_step_changes_dropout_alone(model):
    task = task_of(GRAPH, model)
    first = trained(GRAPH, model).state(0)
    kept = {name: value.clone() for name, value in first.items()}
    nothing = replace(task, training=replace(task.training, epochs=0))
    same = train_networks(nothing, [GRAPH], [0], start={0: first}).state(0)
    assert all(torch.equal(value, first[name]) for name, value in same.items())
    on = [train_networks(task, [GRAPH], [0], start={0: first}, step=step).state(0) for step in (0, 1)]
    assert all(torch.equal(value, kept[name]) for name, value in first.items())
    assert not all(torch.equal(value, on[1][name]) for name, value in on[0].items())
    drawn = [train_networks(nothing, [GRAPH], [0], step=step).state(0) for step in (0, 1)]
    assert all(torch.equal(value, drawn[1][name]) for name, value in drawn[0].items())
