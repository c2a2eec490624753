import importlib
import subprocess
import sys

import pluggy
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_versions import rng, walk_all_pairs
from pydantic import ValidationError
from torch_geometric.utils import to_dense_adj

from unlearnbench import hookspecs
from unlearnbench.component import Spec
from unlearnbench.errors import UnlearnbenchError, UsageError
from unlearnbench.gnn import GCN
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import Task, Training, View
from unlearnbench.unlearning.aggregation import Members
from unlearnbench.unlearning.partitioning import assign_by_pairs, checked_partition, shard_bounds
from unlearnbench_grapheraser import embeddings, pools
from unlearnbench_grapheraser.bekm import Bekm, balanced_k_means, cluster_means, distances
from unlearnbench_grapheraser.capacity import paper_capacity
from unlearnbench_grapheraser.embeddings import embed, propagated
from unlearnbench_grapheraser.weighted import Weighted, learn_weights

CPU = torch.device("cpu")


def make_graph(n=60, num_features=12, num_classes=3, seed=0, shuffled_ids=True):
    draw = rng(seed)
    y = torch.arange(n) % num_classes
    x = torch.randn(n, num_features, generator=draw)
    x[torch.arange(n), y] += 3
    pairs = torch.randint(n, (2, 3 * n), generator=draw)
    pairs = pairs[:, pairs[0] != pairs[1]]
    edge_index = torch.unique(torch.cat([pairs, pairs.flip(0)], dim=1), dim=1)
    ids = torch.randperm(10 * n, generator=draw)[:n] if shuffled_ids else torch.arange(n)
    return Graph(x, y, edge_index, ids, num_classes)


def without_edges(x):
    nothing = torch.empty(2, 0, dtype=torch.int64)
    return Graph(x, torch.zeros(len(x), dtype=torch.int64), nothing, torch.arange(len(x)), 2)


def make_task(graph=None, seed=0, epochs=5):
    model = Spec("model", "gcn", GCN.version, GCN, GCN.Params())
    return Task(make_graph() if graph is None else graph, model, Training(epochs=epochs), CPU, seed)


def bekm(**params):
    return Bekm(Bekm.Params(**params))


def weighted(**params):
    return Weighted(Weighted.Params(**params))


# --- assignment -------------------------------------------------------------------------------


@st.composite
def assignment_problems(draw):
    num_shards = draw(st.integers(1, 5))
    low = draw(st.integers(0, 3))
    high = draw(st.integers(max(low, 1), 6))
    n = draw(st.integers(max(num_shards * low, 1), num_shards * high))
    # Few different values, so that ties are common.
    rows = st.lists(st.integers(0, draw(st.integers(0, 9))), min_size=num_shards, max_size=num_shards)
    return draw(st.lists(rows, min_size=n, max_size=n)), low, high


@pytest.mark.slow
@given(assignment_problems())
@settings(max_examples=300, deadline=None)
def test_assignment_is_the_plain_walk(problem):
    cost, low, high = problem
    shard = assign_by_pairs(torch.tensor(cost, dtype=torch.float32), low, high)
    assert shard.tolist() == walk_all_pairs(cost, low, high)


def test_assignment_worked_by_hand():
    # Ascending: (1,0) .1, (0,0) .2, (2,0) .3 finds shard 0 full, (3,1) .5, (2,1) .9.
    cost = torch.tensor([[0.2, 5.0], [0.1, 5.0], [0.3, 0.9], [4.0, 0.5]])
    assert assign_by_pairs(cost, 2, 2).tolist() == [0, 0, 1, 1]


# --- k-means ----------------------------------------------------------------------------------


def test_distances_are_exact_far_from_the_origin():
    points = torch.tensor([[10000.0, 0.0], [10000.0, 0.5]])
    assert distances(points, points[:1]).tolist() == [[0.0], [0.5]]


def test_cluster_means_worked_by_hand():
    points = torch.tensor([[0.0, 2.0], [4.0, 4.0], [2.0, 4.0]])
    assert cluster_means(points, torch.tensor([1, 0, 1]), 2).tolist() == [[4.0, 4.0], [1.0, 3.0]]


def test_k_means_moves_centroids_until_clusters_are_found():
    # Both centroids start in the left group; unbounded assignment puts {0} and {1, 10, 11} first.
    points = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    start = points[:2]
    assert balanced_k_means(points, start, 1, 3, rounds=1).tolist() == [0, 1, 1, 1]
    assert balanced_k_means(points, start, 1, 3, rounds=20).tolist() == [0, 0, 1, 1]


def test_a_large_tolerance_stops_after_the_first_round():
    points = torch.tensor([[0.0], [1.0], [10.0], [11.0]])
    # The first shift is 22/3 - 1 = 19/3.
    assert balanced_k_means(points, points[:2], 1, 3, 20, tolerance=6.4).tolist() == [0, 1, 1, 1]
    assert balanced_k_means(points, points[:2], 1, 3, 20, tolerance=6.3).tolist() == [0, 0, 1, 1]


@pytest.mark.parametrize("embedding", ["propagated", "logits", "hidden"])
@pytest.mark.parametrize("num_shards", [1, 4, 7])
def test_every_shard_keeps_its_bounds(embedding, num_shards):
    task = make_task()
    low, high = shard_bounds(60, num_shards, 0.1)
    sizes = torch.bincount(checked_partition(bekm(embedding=embedding), task, num_shards), minlength=num_shards)
    assert low <= int(sizes.min())
    assert int(sizes.max()) <= high


def test_released_capacity_is_one_sided():
    # 27 nodes in one place, three far away in three directions.
    x = torch.cat([torch.zeros(27, 3), 100 * torch.eye(3)])
    graph = without_edges(x)
    for seed in range(5):
        sizes = torch.bincount(bekm(capacity="paper", delta=0.5).partition(make_task(graph, seed), 3), minlength=3)
        assert int(sizes.max()) <= paper_capacity(30, 3, 0.5) == 20
        assert int(sizes.min()) >= 1
    assert int(sizes.min()) < shard_bounds(30, 3, 0.1)[0]


def test_partition_is_pure_and_depends_on_the_seed():
    graph = make_graph(n=100)
    before = graph.checksum()
    first = bekm().partition(make_task(graph), 5)
    torch.manual_seed(99)
    torch.rand(7)
    assert torch.equal(first, bekm().partition(make_task(graph), 5))
    assert not torch.equal(first, bekm().partition(make_task(graph, seed=1), 5))
    assert graph.checksum() == before


def test_partition_speaks_of_positions_not_ids():
    graph = make_graph(n=50)
    renamed = Graph(graph.x, graph.y, graph.edge_index, torch.arange(50), graph.num_classes)
    assert torch.equal(bekm().partition(make_task(graph), 5), bekm().partition(make_task(renamed), 5))


# --- embeddings -------------------------------------------------------------------------------


def propagated_densely(graph):
    """A A X by a dense matrix, centred, in float64."""
    n = graph.num_nodes
    adjacency = to_dense_adj(graph.edge_index, max_num_nodes=n)[0].t().double() + torch.eye(n, dtype=torch.float64)
    scale = adjacency.sum(dim=1).rsqrt()
    normalised = scale[:, None] * adjacency * scale
    smooth = normalised @ normalised @ graph.x.double()
    return smooth - smooth.mean(dim=0)


@pytest.mark.parametrize("sparse", [False, True])
@pytest.mark.parametrize("components", [3, 12, 500])
def test_propagated_features_are_principal_components(sparse, components):
    graph = make_graph()
    if sparse:
        x = graph.x * (torch.rand(graph.x.shape, generator=rng(5)) < 0.1)
        graph = Graph(x, graph.y, graph.edge_index, graph.ids, graph.num_classes)
    assert embeddings.sparse.is_sparse_enough(graph.x) is sparse
    scores = propagated(graph.x, graph.edge_index, components, rng()).double()
    left, values, _ = torch.linalg.svd(propagated_densely(graph), full_matrices=False)
    kept = min(components, 12)
    wanted = left[:, :kept] * values[:kept]
    assert scores.shape == (60, kept)
    torch.testing.assert_close(scores @ scores.t(), wanted @ wanted.t(), atol=1e-4, rtol=1e-4)


def test_a_subspace_smaller_than_the_matrix_finds_the_leading_components():
    draw = rng(3)
    left = torch.linalg.qr(torch.randn(150, 100, generator=draw)).Q
    right = torch.linalg.qr(torch.randn(100, 100, generator=draw)).Q
    matrix = (left * 0.9 ** torch.arange(100)) @ right.t()
    scores = embeddings.principal_scores(matrix.__matmul__, matrix.t().__matmul__, (150, 100), 8, draw, CPU)
    centred = (matrix - matrix.mean(dim=0)).double()
    values = torch.linalg.svdvals(centred)
    torch.testing.assert_close(scores.double().norm(dim=0), values[:8], atol=1e-4, rtol=1e-4)
    torch.testing.assert_close(scores.mean(dim=0), torch.zeros(8), atol=1e-5, rtol=0)


def test_trained_embeddings_are_those_of_one_network_on_the_training_graph():
    task = make_task(epochs=30)
    logits, hidden = embed(task, "logits", 32), embed(task, "hidden", 32)
    assert hidden.shape == (60, 64)
    torch.testing.assert_close(logits.exp().sum(dim=1), torch.ones(60))
    assert (logits.argmax(dim=1) == task.graph.y).float().mean() > 0.7
    assert torch.equal(logits, embed(task, "logits", 32))


def test_an_embedding_that_is_not_finite_is_an_error():
    graph = make_graph()
    graph = Graph(graph.x * 1e38, graph.y, graph.edge_index, graph.ids, graph.num_classes)
    with pytest.raises(UnlearnbenchError, match="not finite"):
        embed(make_task(graph), "propagated", 4)


# --- pools ------------------------------------------------------------------------------------


def loss_by_autograd(name, weight, log_probs, labels):
    rows = torch.arange(len(labels))
    if name == "prob":
        mixture = (log_probs.exp() * weight).sum(dim=2) / weight.sum()
        return -mixture[rows, labels].log().mean()
    summed = (log_probs * weight).sum(dim=2)
    if name == "legacy":
        summed = torch.softmax(summed, dim=1)
    return torch.nn.functional.cross_entropy(summed, labels)


@pytest.mark.parametrize("name", list(pools.LOSSES))
def test_losses_and_gradients_agree_with_autograd(name):
    draw = rng(2)
    log_probs = torch.log_softmax(2 * torch.randn(11, 4, 5, generator=draw).double(), dim=1)
    labels = torch.randint(4, (11,), generator=draw)
    weight = torch.rand(5, generator=draw).double().requires_grad_()
    wanted = loss_by_autograd(name, weight, log_probs, labels)
    (slope,) = torch.autograd.grad(wanted, weight)
    loss, gradient = pools.LOSSES[name](weight.detach(), log_probs, labels)
    torch.testing.assert_close(loss, wanted.detach())
    torch.testing.assert_close(gradient, slope)


@pytest.mark.parametrize("name", list(pools.LOSSES))
def test_losses_stay_finite_at_the_edges(name):
    log_probs = torch.tensor([[[-200.0, -300.0], [0.0, 0.0]]])
    for weight in (torch.zeros(2), torch.tensor([0.5, 0.5])):
        loss, gradient = pools.LOSSES[name](weight, log_probs, torch.tensor([0]))
        assert torch.isfinite(loss)
        assert torch.isfinite(gradient).all()


def test_a_weighted_geometric_pool_worked_by_hand():
    # Weights 1 and 2: .9 * .2^2 = .036 against .1 * .8^2 = .064.
    said = torch.tensor([[[0.9, 0.1]], [[0.2, 0.8]]]).log()
    wanted = torch.tensor([[0.36, 0.64]])
    for name in ("log_linear", "legacy"):
        torch.testing.assert_close(pools.pool(said, torch.tensor([1.0, 2.0]), name).exp(), wanted)


def test_a_member_of_weight_zero_is_not_looked_at():
    said = torch.tensor([[[0.9, 0.1]], [[float("nan")] * 2]]).log()
    for name in pools.LOSSES:
        torch.testing.assert_close(pools.pool(said, torch.tensor([1.0, 0.0]), name).exp(), torch.tensor([[0.9, 0.1]]))


# --- learned weights --------------------------------------------------------------------------


def members_of(y, num_members=4, num_classes=3, seed=0, sizes=None, least_skill=0.0):
    """Members that know the label the better the higher their number; the first, by default, knows nothing."""
    skill = torch.linspace(least_skill, 3, num_members)[:, None, None]
    logits = torch.randn(num_members, len(y), num_classes, generator=rng(seed))
    logits = logits + skill * torch.nn.functional.one_hot(y, num_classes)
    sizes = torch.full((num_members,), 10) if sizes is None else sizes
    return Members(torch.zeros(num_members, len(y), 2), logits, torch.full_like(y, -1), sizes)


def fitted(members, task, **params):
    aggregator = weighted(**params)
    aggregator.fit(task, members, task.graph)
    return aggregator


@pytest.mark.parametrize("name", list(pools.LOSSES))
def test_weights_follow_skill_and_inputs_stay_as_they_are(name):
    task = make_task(make_graph(n=300))
    members = members_of(task.graph.y)
    before = members.logits.clone()
    aggregator = fitted(members, task, pool=name)
    weight = aggregator.state()["weight"]
    assert weight[3] > 2 * weight[0]
    assert bool((weight >= 0).all())
    first, second = aggregator.combine(members), aggregator.combine(members)
    assert torch.equal(first, second)
    assert torch.equal(members.logits, before)
    torch.testing.assert_close(first.exp().sum(dim=1), torch.ones(300))
    if name == "log_linear":
        assert float(weight.sum()) > 1.1
    else:
        torch.testing.assert_close(weight.sum(), torch.tensor(1.0))


def test_log_linear_weights_reach_the_minimum_found_by_newton_steps():
    task = make_task(make_graph(n=300))
    members = members_of(task.graph.y, num_members=3, least_skill=1.0)
    log_probs = members.log_probabilities().permute(1, 2, 0).double()

    def loss(weight):
        return loss_by_autograd("log_linear", weight, log_probs, task.graph.y)

    best = torch.full((3,), 1 / 3, dtype=torch.float64)
    for _ in range(30):
        slope = torch.func.grad(loss)(best)
        best = best - torch.linalg.solve(torch.func.hessian(loss)(best), slope)
    assert bool((best > 0).all())
    weight = fitted(members, task, lr=0.05, batch_size=300, epochs=2000).state()["weight"]
    torch.testing.assert_close(weight.double(), best, atol=1e-3, rtol=1e-3)


def test_learning_is_pure_and_forgets_earlier_fits():
    task = make_task(make_graph(n=100))
    members, others = members_of(task.graph.y), members_of(task.graph.y, seed=8)
    weight = fitted(members, task).state()["weight"]
    again = fitted(others, task)
    again.fit(task, members, task.graph)
    torch.manual_seed(4)
    assert torch.equal(again.state()["weight"], weight)
    assert not torch.equal(fitted(members, make_task(task.graph, seed=1)).state()["weight"], weight)


def test_retired_members_have_weight_zero_and_change_nothing():
    task = make_task(make_graph(n=100))
    members = members_of(task.graph.y, sizes=torch.tensor([9, 0, 9, 9]))
    members.logits[1] = float("nan")
    alive = torch.tensor([0, 2, 3])
    without = Members(members.embeddings[alive], members.logits[alive], members.shard, members.sizes[alive])
    for name in pools.LOSSES:
        weight = fitted(members, task, pool=name).state()["weight"]
        assert float(weight[1]) == 0
        assert torch.equal(weight[alive], fitted(without, task, pool=name).state()["weight"])
        assert bool(torch.isfinite(fitted(members, task, pool=name).combine(members)).all())


def test_weights_driven_to_zero_become_equal():
    said = torch.log(torch.tensor([[[0.1, 0.9]], [[0.1, 0.9]]]))
    for name in ("log_linear", "legacy"):
        settings = Weighted.Params(pool=name, lr=1.0, keep="last", norm_weight=5.0, epochs=3)
        weight = learn_weights(said, torch.tensor([0]), torch.tensor([True, True]), settings, rng())
        assert weight.tolist() == [0.5, 0.5]


def test_without_epochs_weights_stay_equal():
    task = make_task(make_graph(n=100))
    assert fitted(members_of(task.graph.y), task, epochs=0).state()["weight"].tolist() == [0.25] * 4


def released_by_autograd(log_probs, labels, lr, epochs, batch_size, generator):
    """The released rule, step by step, with autograd."""
    weight = torch.full((log_probs.shape[0],), 1 / log_probs.shape[0], requires_grad=True)
    optimiser = torch.optim.Adam([weight], lr=lr)
    lowest, best = float("inf"), None
    for _ in range(epochs):
        total = 0.0
        for batch in torch.randperm(len(labels), generator=generator).split(batch_size):
            posterior = torch.softmax(torch.einsum("s,snc->nc", weight, log_probs[:, batch]), dim=1)
            loss = torch.nn.functional.cross_entropy(posterior, labels[batch]) + weight.norm()
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            with torch.no_grad():
                weight.clamp_(min=0)
            total += float(loss.detach())
        if total < lowest:
            lowest, best = total, weight.detach().clone()
    return best / best.sum()


def test_legacy_weights_are_those_of_the_released_rule():
    task = make_task(make_graph(n=100))
    members = members_of(task.graph.y)
    wanted = released_by_autograd(members.log_probabilities(), task.graph.y, 0.01, 8, 32, task.generator("weighted"))
    got = fitted(members, task, pool="legacy", lr=0.01, epochs=8).state()["weight"]
    torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-4)
    last = fitted(members, task, pool="legacy", lr=0.01, epochs=8, keep="last").state()["weight"]
    assert not torch.allclose(last, wanted, atol=1e-5)


@given(cut=st.integers(1, 29), name=st.sampled_from(sorted(pools.LOSSES)))
@settings(max_examples=25, deadline=None)
def test_combining_is_row_by_row(cut, name):
    task = make_task(make_graph(n=30))
    members = members_of(task.graph.y)
    aggregator = fitted(members, task, pool=name, epochs=1)
    halves = [aggregator.combine(members.chunk(0, cut)), aggregator.combine(members.chunk(cut, 30))]
    assert torch.equal(torch.cat(halves), aggregator.combine(members))


def test_combining_before_learning_is_an_error():
    with pytest.raises(UsageError, match="learned no weights"):
        weighted().combine(members_of(torch.zeros(2, dtype=torch.int64)))


def test_parameters_follow_the_pool():
    assert weighted().params.model_dump() == {
        "pool": "log_linear", "lr": 0.01, "batch_size": 32, "epochs": 50, "sample": 1000.0, "view": "targets",
        "out_of_fold": False, "norm_weight": 0.0, "normalise": "never", "keep": "last",
    }  # fmt: skip
    legacy = Weighted.Params(pool="legacy")
    assert (legacy.lr, legacy.norm_weight, legacy.normalise, legacy.keep) == (0.001, 1.0, "end", "best")
    assert Weighted.Params(pool="legacy", lr=0.5).lr == 0.5
    assert Weighted.Params(pool="prob").normalise == "end"
    with pytest.raises(ValidationError, match="sum 1"):
        Weighted.Params(pool="prob", normalise="never")
    with pytest.raises(ValidationError):
        Weighted.Params(colour="red")
    assert weighted(view="shard", sample=0.1).view is View.SHARD
    assert weighted(view="shard", sample=0.1).sample == 0.1


# --- the plugin and the method ------------------------------------------------------------------


def test_the_plugin_announces_classes_that_exist_under_those_names():
    import unlearnbench_grapheraser

    manager = pluggy.PluginManager(hookspecs.PROJECT)
    manager.add_hookspecs(hookspecs)
    manager.register(unlearnbench_grapheraser)
    manager.check_pending()
    found = {}
    for hook in hookspecs.KINDS.values():
        getattr(manager.hook, hook)(
            register=lambda name, where, summary, **look: found.update({name: (where, summary)})
        )
    assert sorted(found) == ["bekm", "blpa", "grapheraser", "weighted"]
    for name, (where, summary) in found.items():
        module, _, attribute = where.partition(":")
        cls = getattr(importlib.import_module(module), attribute)
        assert (cls.name, cls.summary) == (name, summary)


def test_announcing_imports_no_torch():
    code = "import sys, unlearnbench_grapheraser; print([m for m in ('torch', 'pydantic') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def make_method(partitioner=None, aggregator=None, num_shards=4):
    from unlearnbench_grapheraser.method import GraphEraser

    return GraphEraser(
        GraphEraser.Params(
            num_shards=num_shards,
            partitioner=Spec("partitioner", "bekm", 1, Bekm, Bekm.Params(**partitioner or {})),
            aggregator=Spec("aggregator", "weighted", 1, Weighted, Weighted.Params(**aggregator or {})),
        )
    )


class FakeEntryPoint:
    name, value, dist = "grapheraser", "unlearnbench_grapheraser", None

    def load(self):
        return importlib.import_module(self.value)


@pytest.fixture(scope="module")
def catalogue():
    return load_catalogue(entry_points=[FakeEntryPoint()])


def test_defaults_of_the_method(catalogue):
    spec = resolve(catalogue, "unlearner", "grapheraser")
    tree = spec.canonical()
    assert (spec.label, tree["preset"], tree["params"]["num_shards"]) == ("grapheraser", "repaired", 20)
    partitioner, aggregator = tree["params"]["partitioner"], tree["params"]["aggregator"]
    assert (partitioner["name"], partitioner["params"]["capacity"]) == ("bekm", "slack")
    assert (aggregator["name"], aggregator["params"]["pool"]) == ("weighted", "log_linear")


@pytest.mark.parametrize(
    ("preset", "expected"),
    [
        ("paper", {"pool": "prob", "normalise": "step", "norm_weight": 0.0, "keep": "last"}),
        ("released", {"pool": "legacy", "normalise": "end", "norm_weight": 1.0, "keep": "best", "lr": 0.001}),
    ],
)
def test_presets(catalogue, preset, expected):
    spec = resolve(catalogue, "unlearner", f"grapheraser[preset={preset},num_shards=4]")
    partitioner, aggregator = (part.params for _, part in spec.parts())
    assert (partitioner.embedding, partitioner.capacity) == ("logits", "paper")
    assert {key: getattr(aggregator, key) for key in expected} == expected
    method = spec.build()
    method.fit(make_task())
    assert set(method.state()) > {"aggregator/weight"}


def test_bare_keys_reach_the_part_that_has_them(catalogue):
    spec = resolve(catalogue, "unlearner", "grapheraser[embedding=hidden,pool=legacy,lr=0.5]")
    partitioner, aggregator = (part.params for _, part in spec.parts())
    assert partitioner.embedding == "hidden"
    assert (aggregator.pool, aggregator.lr, aggregator.norm_weight) == ("legacy", 0.5, 1.0)


def test_forgetting_retrains_the_shards_that_were_hit_and_learns_new_weights():
    task = make_task(make_graph(n=80), epochs=20)
    method = make_method()
    method.fit(task)
    before = {name: value.clone() for name, value in method.state().items()}
    kept = method.kept()["partition"]
    assert sorted(kept[:, 0].tolist()) == sorted(task.graph.ids.tolist())
    forgotten = kept[:2, 0].sort().values
    hit = {f"{shard:03d}" for shard in kept[:2, 1].tolist()}
    request = Request(forgotten)
    retained = task.without(request)
    method.unlearn(request, retained)
    after = method.state()
    changed = {name.split("/")[1] for name in after if not torch.equal(before[name], after[name])}
    assert changed == {*hit, "weight"}
    assert not torch.isin(method.kept()["partition"][:, 0], forgotten).any()
    answer = method.predict(retained.query(retained.graph.ids, View.SHARD))
    torch.testing.assert_close(answer.exp().sum(dim=1), torch.ones(78))


def test_given_the_partition_forgetting_equals_never_having_seen():
    task = make_task(make_graph(n=80), epochs=20)
    method = make_method()
    method.fit(task)
    request = Request(task.graph.ids[:3].sort().values)
    retained = task.without(request)
    method.unlearn(request, retained)
    fresh = make_method()
    fresh.fit(Task(retained.graph, task.model, task.training, CPU, task.seed, given=method.kept()))
    ours, theirs = method.state(), fresh.state()
    assert ours.keys() == theirs.keys()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)
