import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import ValidationError
from torch_geometric.nn import SAGEConv

from unlearnbench.component import Spec
from unlearnbench.gnn import GCN
from unlearnbench.gnn.sparse import from_dense
from unlearnbench.graph import Graph
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task, Training
from unlearnbench.unlearning.partitioning import checked_partition, partition_statistics, shard_bounds
from unlearnbench_graphrevoker.assignment import assign_released, fill_empty, paper_capacity
from unlearnbench_graphrevoker.gpa import GraphPropertyAware, Objective
from unlearnbench_graphrevoker.network import (
    MeanConvolution,
    PartitionNetwork,
    assignment_in_chunks,
    neighbour_mean,
    prepare_inputs,
)


def rng(seed=0):
    return torch.Generator().manual_seed(seed)


def communities(num_blocks=4, size=15, seed=0, noise=0.02):
    """Blocks of nodes with dense edges inside and few between; labels are independent of the blocks."""
    n = num_blocks * size
    block = torch.arange(n) % num_blocks
    draw = torch.rand(n, n, generator=rng(seed))
    wanted = torch.where(block[:, None] == block[None, :], 0.4, noise)
    upper = torch.triu(draw < wanted, diagonal=1).nonzero().t()
    x = torch.nn.functional.one_hot(block, num_blocks).float() + 0.1 * torch.randn(n, num_blocks, generator=rng(1))
    y = torch.div(torch.arange(n), num_blocks, rounding_mode="floor") % 3
    return Graph(x, y, torch.cat([upper, upper.flip(0)], dim=1), torch.arange(n) + 100, 3)


def make_task(graph=None, seed=0):
    model = Spec("model", "gcn", GCN.version, GCN, GCN.Params())
    return Task(communities() if graph is None else graph, model, Training(epochs=3), torch.device("cpu"), seed)


def gpa(**params):
    return GraphPropertyAware(GraphPropertyAware.Params(**params))


def probabilities(seed, n, num_shards, sharpness=2.0):
    return torch.softmax(sharpness * torch.randn(n, num_shards, generator=rng(seed)), dim=1)


@pytest.mark.parametrize("form", ["dense", "sparse", "averaged"])
def test_convolution_equals_sage_of_pyg(form):
    edges = torch.tensor([[0, 1, 1, 2, 2, 2, 4], [1, 0, 2, 1, 3, 3, 4]])
    x = torch.randn(6, 5, generator=rng())
    ours = MeanConvolution(5, 7, rng(1))
    theirs = SAGEConv(5, 7)
    with torch.no_grad():
        theirs.lin_l.weight.copy_(ours.neighbours.weight.t())
        theirs.lin_r.weight.copy_(ours.own.weight.t())
        theirs.lin_l.bias.copy_(ours.own.bias)
    mean = neighbour_mean(edges, 6)
    given_x = from_dense(x) if form == "sparse" else x
    result = ours(given_x, mean, mean @ x if form == "averaged" else None)
    assert torch.allclose(result, theirs(x, edges), atol=1e-6)


def test_weights_start_as_those_of_pyg():
    ours, theirs = MeanConvolution(400, 300, rng()), SAGEConv(400, 300)
    for mine, other in (
        (ours.neighbours.weight, theirs.lin_l.weight),
        (ours.own.weight, theirs.lin_r.weight),
        (ours.own.bias, theirs.lin_l.bias),
    ):
        assert float(mine.detach().abs().max()) <= 1 / math.sqrt(400)
        assert float(mine.detach().std()) == pytest.approx(float(other.detach().std()), rel=0.15)


@pytest.mark.parametrize("width", [4, 40])
def test_probabilities_do_not_depend_on_how_features_are_stored(width):
    graph = communities()
    wide = torch.zeros(graph.num_nodes, width)
    wide[:, :4] = graph.x * (graph.x > 0.5)
    network = PartitionNetwork(width, 8, 5, rng())
    inputs = prepare_inputs(wide, graph.edge_index, 8)
    plain = type(inputs)(wide, inputs.mean)
    assert (inputs.averaged is not None) == (width == 4)
    assert (not isinstance(inputs.x, torch.Tensor)) == (width == 40)
    result = network(inputs)
    assert torch.allclose(result, network(plain), atol=1e-6)
    assert torch.allclose(result.sum(dim=1), torch.ones(graph.num_nodes))


def test_temperature_and_mix_soften():
    inputs = prepare_inputs(communities().x, communities().edge_index, 8)
    plain, hot, mixed = (
        PartitionNetwork(4, 8, 5, rng(), *args)(inputs) for args in ((1.0, 0.0), (10.0, 0.0), (1.0, 0.1))
    )
    assert float(hot.detach().max()) < float(plain.detach().max())
    assert torch.allclose(mixed, 0.9 * plain + 0.02)


def test_capacity_of_the_paper():
    assert paper_capacity(1895, 20, 0.005) == 104
    assert paper_capacity(100, 10, 0.005) == 11


def walk_by_confidence(p, low, high):
    """Visit nodes by descending confidence; each takes its most probable shard that has room."""
    n, num_shards = p.shape
    shard, sizes = [-1] * n, [0] * num_shards
    for step, v in enumerate(sorted(range(n), key=lambda node: (-float(p[node].max()), node))):
        for k in sorted(range(num_shards), key=lambda index: (-float(p[v, index]), index)):
            missing = sum(max(0, low - sizes[j] - (j == k)) for j in range(num_shards))
            if sizes[k] < high and n - step - 1 >= missing:
                shard[v] = k
                sizes[k] += 1
                break
    return shard


@settings(max_examples=60, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 40), st.integers(1, 7), st.sampled_from([0.0, 0.1, 0.5, 1.0]), st.booleans()
)
def test_confidence_balance_equals_the_plain_walk(seed, n, num_shards, slack, one_sided):
    num_shards = min(num_shards, n)
    p = probabilities(seed, n, num_shards)
    low, high = (1, paper_capacity(n, num_shards, 0.1)) if one_sided else shard_bounds(n, num_shards, slack)
    found = gpa(capacity="paper" if one_sided else "slack", slack=slack, delta=0.1).assign(p)
    assert found.tolist() == walk_by_confidence(p, low, high)
    sizes = torch.bincount(found, minlength=num_shards)
    assert low <= int(sizes.min())
    assert int(sizes.max()) <= high


def walk_released(p, delta):
    """The rule of the public code, node by node."""
    n, num_shards = p.shape
    wish, sizes, shard = p.argmax(dim=1).tolist(), [0] * num_shards, [-1] * n
    for v in sorted(range(n), key=lambda node: (wish[node], node)):
        k = wish[v] if sizes[wish[v]] < n / num_shards + delta * n else sizes.index(min(sizes))
        shard[v] = k
        sizes[k] += 1
    return shard


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 10**6), st.integers(1, 60), st.integers(1, 7), st.sampled_from([0.0, 0.005, 0.013, 0.2]))
def test_released_balance_equals_the_plain_walk(seed, n, num_shards, delta):
    p = probabilities(seed, n, num_shards)
    assert assign_released(p, delta).tolist() == walk_released(p, delta)


def test_without_balance_nodes_keep_their_most_probable_shard():
    p = probabilities(0, 200, 4)
    assert torch.equal(gpa(balance="none").assign(p), p.argmax(dim=1))


def test_empty_shards_get_the_least_confident_nodes_that_are_not_alone():
    p = torch.tensor([[0.9, 0.1, 0, 0], [0.4, 0.3, 0.2, 0.1], [0.1, 0.3, 0.3, 0.3], [0.5, 0.5, 0, 0], [0.8, 0.2, 0, 0]])
    # Node 2 is the least confident of all, but alone in shard 1.
    assert fill_empty(torch.tensor([0, 0, 1, 0, 0]), p).tolist() == [0, 2, 1, 3, 0]


@settings(max_examples=30, deadline=None)
@given(
    st.integers(0, 10**6), st.integers(1, 25), st.integers(1, 25), st.sampled_from(["confidence", "released", "none"])
)
def test_no_rule_leaves_a_shard_empty(seed, n, num_shards, balance):
    num_shards = min(n, num_shards)
    one_wish = torch.softmax(torch.randn(n, 1, generator=rng(seed)) + torch.arange(num_shards, 0, -1), dim=1)
    sizes = torch.bincount(gpa(balance=balance).assign(one_wish), minlength=num_shards)
    assert int(sizes.min()) >= 1
    assert int(sizes.sum()) == n


def test_the_same_task_gives_the_same_answer_and_leaves_global_chance_alone():
    before = torch.get_rng_state()
    first = checked_partition(gpa(epochs=5), make_task(), 4)
    assert torch.equal(first, checked_partition(gpa(epochs=5), make_task(), 4))
    assert not torch.equal(first, gpa(epochs=5).partition(make_task(seed=1), 4))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize("balance", ["confidence", "released"])
def test_sizes_stay_within_limits(balance):
    sizes = torch.bincount(gpa(balance=balance, epochs=5).partition(make_task(), 4))
    low, high = shard_bounds(60, 4, 0.1) if balance == "confidence" else (1, math.ceil(60 / 4 + 0.005 * 60))
    assert low <= int(sizes.min())
    assert int(sizes.max()) <= high


@pytest.mark.parametrize(
    "weights", [{"struct_weight": 1}, {"time_weight": 50}, {"sem_weight": 100, "sem_sign": "paper"}]
)
def test_training_lowers_each_loss(weights):
    only = {"struct_weight": 0, "time_weight": 0, "sem_weight": 0, **weights}
    task, params = make_task(), gpa(**only).params
    objective = Objective(task.graph, params)
    before = objective(gpa(**only, epochs=0).probabilities(task, 4))
    after = objective(gpa(**only, epochs=20).probabilities(task, 4))
    assert float(after) < float(before)


def test_structure_loss_finds_communities():
    task = make_task()
    learned = gpa(time_weight=0, sem_weight=0, epochs=150, slack=0).partition(task, 4)
    random = torch.arange(60)[torch.randperm(60, generator=rng())] % 4
    kept = [partition_statistics(task.graph, shard, 4)["edges_kept"] for shard in (learned, random)]
    assert kept[0] > 0.7
    assert kept[1] < 0.35


@pytest.mark.slow
def test_sign_of_the_semantic_loss_decides_between_mixed_and_pure_shards():
    # Labels are the communities: what keeps edges makes shards pure, unless entropy is rewarded.
    graph = communities()
    graph = Graph(graph.x, torch.arange(60) % 4, graph.edge_index, graph.ids, 4)
    entropy = {}
    for weight, sign in ((0, "intended"), (100, "intended"), (100, "paper")):
        partitioner = gpa(time_weight=0, sem_weight=weight, sem_sign=sign, epochs=150, slack=0)
        shard = partitioner.partition(make_task(graph), 4)
        entropy[weight, sign] = partition_statistics(graph, shard, 4)["label_entropy"]
    assert entropy[100, "paper"] <= entropy[0, "intended"] < 0.5
    assert entropy[100, "intended"] > entropy[0, "intended"] + 0.2


def test_objective_is_the_weighted_sum():
    task, p = make_task(), probabilities(0, 60, 4)
    off = {"struct_weight": 0, "time_weight": 0, "sem_weight": 0}
    alone = {key: float(Objective(task.graph, gpa(**{**off, key: 1}).params)(p)) for key in off}
    whole = Objective(task.graph, gpa(struct_weight=2, time_weight=3, sem_weight=5).params)(p)
    expected = 2 * alone["struct_weight"] + 3 * alone["time_weight"] + 5 * alone["sem_weight"]
    assert float(whole) == pytest.approx(expected, rel=1e-5)
    paper = Objective(task.graph, gpa(**{**off, "time_weight": 1}, time_form="paper").params)(p)
    assert float(paper) == pytest.approx(task.graph.num_edges * alone["time_weight"], rel=1e-5)
    assert float(Objective(task.graph, gpa(**off).params)(p)) == 0


@pytest.mark.parametrize("features", ["posterior", "embedding"])
def test_features_of_a_base_model(features):
    partitioner = gpa(features=features, epochs=2)
    inputs = partitioner.features(make_task())
    assert torch.isfinite(inputs).all()
    if features == "posterior":
        assert torch.allclose(inputs.exp().sum(dim=1), torch.ones(60), atol=1e-5)
        assert inputs.shape == (60, 3)
    assert torch.equal(inputs, partitioner.features(make_task()))
    assert checked_partition(partitioner, make_task(), 4).unique().tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("num_shards", [1, 3, 6])
@pytest.mark.parametrize("edges", [torch.empty(2, 0, dtype=torch.int64), torch.tensor([[0, 0, 2], [1, 1, 2]])])
def test_tiny_and_odd_graphs(num_shards, edges):
    graph = Graph(torch.ones(6, 2), torch.zeros(6, dtype=torch.int64), edges, torch.arange(6), 1)
    p = gpa(epochs=3).probabilities(make_task(graph), num_shards)
    assert torch.isfinite(p).all()
    assert len(checked_partition(gpa(epochs=3), make_task(graph), num_shards).unique()) == num_shards


@pytest.mark.parametrize(
    "params",
    [
        {"lr": 0},
        {"time_form": "cubic"},
        {"slack": 1.5},
        {"mix": 1},
        {"struct_weight": -1},
        {"epoch": 3},
        {"fanouts": "10,"},
        {"batch_nodes": -1},
    ],
)
def test_wrong_parameters_are_refused(params):
    with pytest.raises(ValidationError, match=next(iter(params))):
        gpa(**params)


def test_probabilities_in_chunks_are_those_of_the_whole_graph():
    graph = communities()
    network = PartitionNetwork(4, 8, 5, rng(), temperature=0.5, mix=0.1)
    with torch.no_grad():
        whole = network(prepare_inputs(graph.x, graph.edge_index, 8))
    for chunk in (1, 7, 60, 100):
        found = assignment_in_chunks(network, graph.x, graph.edge_index, chunk)
        assert torch.allclose(found, whole, atol=1e-6)
        assert not found.requires_grad


def test_a_batch_of_all_nodes_is_a_step_on_the_whole_graph():
    # The nodes of a batch come in another order: equal but for rounding.
    whole = gpa(epochs=4).probabilities(make_task(), 4)
    batch = gpa(epochs=4, batch_nodes=60, fanouts="1").probabilities(make_task(), 4)
    assert torch.allclose(batch, whole, atol=1e-4)
    assert not torch.allclose(gpa(epochs=0).probabilities(make_task(), 4), whole, atol=1e-4)


@pytest.mark.parametrize("features", ["raw", "embedding"])
def test_an_epoch_of_batches_takes_every_node_once(features, monkeypatch):
    seen = []

    def noted(graph, params):
        seen.append(graph)
        return Objective(graph, params)

    monkeypatch.setattr("unlearnbench_graphrevoker.gpa.Objective", noted)
    partitioner = gpa(features=features, epochs=2, batch_nodes=25, fanouts="3,2")
    found = partitioner.probabilities(make_task(), 4)
    assert len(seen) == 2 * 3
    whole = communities()
    for first, second, third in (seen[:3], seen[3:]):
        seeds = torch.cat([first.ids[:25], second.ids[:25], third.ids[:10]])
        assert torch.equal(seeds.sort().values, whole.ids)
    # All edges among the nodes of a batch: its degrees are those of the subgraph.
    assert all(part.num_edges == whole.induced(part.ids).num_edges for part in seen)
    assert not torch.equal(seen[0].ids[:25], seen[3].ids[:25])
    assert torch.equal(found, partitioner.probabilities(make_task(), 4))
    assert not torch.equal(found, partitioner.probabilities(make_task(seed=1), 4))


def test_batches_lower_the_loss_and_keep_to_the_limits():
    task, settings = make_task(), {"batch_nodes": 20, "fanouts": "4,4"}
    objective = Objective(task.graph, gpa().params)
    before, after = (objective(gpa(**settings, epochs=count).probabilities(task, 4)) for count in (0, 10))
    assert float(after) < float(before)
    sizes = torch.bincount(gpa(**settings, epochs=1).partition(task, 4), minlength=4)
    low, high = shard_bounds(60, 4, 0.1)
    assert low <= int(sizes.min()) <= int(sizes.max()) <= high


def test_batches_are_named_and_nothing_else_is_changed_by_them():
    catalogue = load_catalogue()
    plain = resolve(catalogue, "partitioner", "gpa")
    assert not {"batch_nodes", "fanouts"} & plain.canonical()["params"].keys()
    batches = resolve(catalogue, "partitioner", 'gpa[batch_nodes=512,fanouts="10,7"]')
    assert batches.label == "gpa[batch_nodes=512]"
    assert batches.canonical()["params"]["batch_nodes"] == 512
    text = 'gpa[batch_nodes=512,fanouts="5,3"]'
    other = resolve(catalogue, "partitioner", text)
    assert other.label == text
    assert other.canonical()["params"]["fanouts"] == "5,3"
