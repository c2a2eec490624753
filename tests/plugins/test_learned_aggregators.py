"""Attention and stacking, and learning out of fold for every aggregator that learns from members."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import LogisticRegression
from torch import Tensor

from unlearnbench.errors import RefusedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning.aggregation import Aggregator, Members, out_of_fold
from unlearnbench_aggregators.attention import dropped
from unlearnbench_aggregators.network import AttentionNetwork
from unlearnbench_aggregators.stacking import Stacking, regress, with_others
from unlearnbench_grapheraser import pools
from unlearnbench_graphrevoker.fusion import Design, Fusion, masked

CATALOGUE = load_catalogue()
OURS = ["attention", "stacking"]
LEARNED = [
    "attention",
    "stacking",
    "weighted",
    "weighted[pool=prob]",
    "weighted[pool=legacy]",
    "contrastive",
    "contrastive[contra_weight=0,recon_weight=0]",
    "contrastive[mask_form=paper,fused=paper,resample=false,contra_weight=1]",
]


def rng(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def sample(n: int = 45, num_classes: int = 3) -> Graph:
    return toy_graph(num_nodes=n, num_classes=num_classes)


def say(graph: Graph, num_members: int = 4, retired: tuple[int, ...] = (), seed: int = 0) -> Members:
    """Members whose embeddings and logits tell the label, more or less."""
    n, size = graph.num_nodes, 6
    signal = torch.nn.functional.one_hot(graph.y, size).float()
    embeddings = signal + 0.3 * torch.randn(num_members, n, size, generator=rng(seed))
    logits = 2 * embeddings[:, :, : graph.num_classes] + 0.1 * torch.randn(
        num_members, n, graph.num_classes, generator=rng(seed + 1)
    )
    sizes = torch.full((num_members,), 10)
    sizes[list(retired)] = 0
    alive = torch.nonzero(sizes)[:, 0]
    return Members(embeddings, logits, alive[torch.arange(n) % len(alive)], sizes)


def build(bracket: str, **more: Any) -> Aggregator:
    name, _, inside = bracket.partition("[")
    settings = [text for text in [inside.rstrip("]"), *(f"{key}={value}" for key, value in more.items())] if text]
    spec = resolve(CATALOGUE, "aggregator", f"{name}[{','.join(settings)}]" if settings else name)
    made: Aggregator = spec.build()
    return made


def learned(bracket: str, members: Members, graph: Graph, **more: Any) -> dict[str, Tensor]:
    aggregator = build(bracket, **more)
    aggregator.fit(toy_task(graph, catalogue=CATALOGUE), members, graph)
    return {name: value.clone() for name, value in aggregator.state().items()}


def same(a: dict[str, Tensor], b: dict[str, Tensor]) -> bool:
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


# --- both -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", OURS)
def test_what_members_know_is_learned_and_rows_stand_alone(name: str) -> None:
    graph = sample(90)
    members = say(graph)
    copies = [t.clone() for t in (members.embeddings, members.logits, members.shard, members.sizes)]
    aggregator = build(name)
    aggregator.fit(toy_task(graph, catalogue=CATALOGUE), members, graph)
    fresh = say(graph, seed=7)
    answer = aggregator.combine(fresh)
    assert answer.dtype == torch.float32
    torch.testing.assert_close(answer.exp().sum(dim=1), torch.ones(90))
    assert float((answer.argmax(dim=1) == graph.y).float().mean()) > 0.9
    parts = torch.cat([aggregator.combine(fresh.chunk(at, at + 1)) for at in range(90)])
    torch.testing.assert_close(answer, parts)
    assert all(
        torch.equal(a, b)
        for a, b in zip(copies, (members.embeddings, members.logits, members.shard, members.sizes), strict=True)
    )


@pytest.mark.parametrize("name", OURS)
def test_retired_members_never_vote(name: str) -> None:
    graph = sample()
    members = say(graph, num_members=4, retired=(1, 3))
    aggregator = build(name)
    aggregator.fit(toy_task(graph, catalogue=CATALOGUE), members, graph)
    first, state = aggregator.combine(members), dict(aggregator.state())
    for silent in (1, 3):
        members.embeddings[silent] = float("nan")
        members.logits[silent] = float("nan")
    assert torch.equal(aggregator.combine(members), first)
    assert same(learned(name, members, graph), state)


@pytest.mark.parametrize("name", OURS)
def test_members_other_than_those_fitted_on_are_refused(name: str) -> None:
    graph = sample()
    with pytest.raises(RefusedError, match=f"Aggregator {name} was asked to combine members it was not fitted on"):
        build(name).combine(say(graph))
    aggregator = build(name)
    aggregator.fit(toy_task(graph, catalogue=CATALOGUE), say(graph), graph)
    with pytest.raises(RefusedError, match="Fit it again whenever members change"):
        aggregator.combine(say(graph, retired=(0,)))


@pytest.mark.parametrize("name", OURS)
def test_the_same_sample_gives_the_same_bits_and_torch_is_left_alone(name: str) -> None:
    graph = sample()
    torch.manual_seed(1)
    state = torch.random.get_rng_state()
    first = learned(name, say(graph), graph)
    assert torch.equal(state, torch.random.get_rng_state())
    torch.manual_seed(2)
    assert same(first, learned(name, say(graph), graph))


@pytest.mark.parametrize("name", OURS)
def test_a_sharded_method_with_it_forgets(name: str) -> None:
    task = toy_task(toy_graph(num_nodes=90, first_id=10**9), catalogue=CATALOGUE)
    method = resolve(CATALOGUE, "unlearner", f"sharded[num_shards=3,aggregator={name}]").build()
    method.fit(task)
    request = Request(task.graph.ids[:4])
    method.unlearn(request, task.without(request))
    never = resolve(CATALOGUE, "unlearner", f"sharded[num_shards=3,aggregator={name}]").build()
    given = {"partition": method.kept()["partition"]}
    never.fit(replace(toy_task(task.graph.without(request.ids), catalogue=CATALOGUE), given=given))
    assert same(dict(method.state()), dict(never.state()))


# --- attention --------------------------------------------------------------------------------


def network_by_hand() -> AttentionNetwork:
    network = AttentionNetwork(2, 2, 2, rng())
    with torch.no_grad():
        network.map.copy_(torch.tensor([[[1.0, 0.0], [0.0, 1.0]], [[0.0, 2.0], [1.0, 0.0]]]))
        network.map_bias.copy_(torch.tensor([[0.0, 1.0], [-1.0, 0.0]]))
        network.attention.copy_(torch.tensor([[1.0], [-1.0]]))
        network.attention_bias.fill_(0.5)
        network.score.fill_(2.0)
        network.classifier.copy_(torch.tensor([[1.0, 0.0], [0.0, -1.0]]))
        network.classifier_bias.copy_(torch.tensor([0.0, 0.25]))
    return network


def test_attention_by_hand() -> None:
    network = network_by_hand()
    # z_1 = (3, 1) + (0, 1) = (3, 2); z_2 = (1, 2) W_2 + (-1, 0) = (2, 2) + (-1, 0) = (1, 2).
    embeddings = torch.tensor([[[3.0, 1.0]], [[1.0, 2.0]]])
    # Scores: 2 relu(3 - 2 + 0.5) = 3; 2 relu(1 - 2 + 0.5) = 0.
    first = math.exp(3) / (math.exp(3) + 1)
    fused, weights = network.fuse(embeddings)
    torch.testing.assert_close(weights, torch.tensor([[first, 1 - first]]))
    torch.testing.assert_close(fused, torch.tensor([[1 + 2 * first, 2.0]]))
    torch.testing.assert_close(network.classify(fused), torch.tensor([[1 + 2 * first, -1.75]]))
    # Squares of W: 2 and 5; of b: 1 and 1.
    assert float(network.penalty().detach()) == pytest.approx(4.5)
    alone, weights = network.fuse(embeddings, torch.tensor([[False, True]]))
    assert weights.tolist() == [[0.0, 1.0]]
    torch.testing.assert_close(alone, torch.tensor([[1.0, 2.0]]))


def test_the_start_of_the_attention() -> None:
    network = AttentionNetwork(20, 64, 7, rng())
    # A normal distribution cut at two deviations has 0.774 of its variance left; Glorot's makes up for that.
    for weight, before in (
        (network.map, 2 / 128 / 0.774),
        (network.attention, 2 / 96),
        (network.map_bias, 2 / 84 / 0.774),
    ):
        drawn = weight.detach()
        assert float(drawn.square().mean()) == pytest.approx(0.774 * before, rel=0.1)
        assert float(drawn.abs().max()) <= 2 * math.sqrt(before) + 1e-3
    assert torch.equal(network.score, torch.full((32,), 0.01))
    assert not network.attention_bias.any()


def test_one_step_of_attention_is_adagrad_from_a_small_accumulator() -> None:
    graph = sample()
    start = learned("attention[epochs=0]", say(graph), graph)
    after = learned("attention[epochs=1,batch_size=1000,lr=0.05,dropout=0]", say(graph), graph)
    # The first step of Adagrad is lr g / (sqrt(1e-8 + g^2) + 1e-10): nearly the sign of the gradient.
    moved = (after["classifier"] - start["classifier"]).abs()
    assert float(moved.min()) == pytest.approx(0.05, rel=0.05)
    assert float(moved.max()) == pytest.approx(0.05, rel=1e-3)


def test_dropout_keeps_the_mean() -> None:
    values = torch.ones(400, 50)
    found = dropped(values, 0.3, rng())
    assert found.unique().tolist() == [0.0, pytest.approx(1 / 0.7)]
    assert float(found.mean()) == pytest.approx(1, abs=0.02)
    assert dropped(values, 0.0, rng()) is values


def test_dropout_and_penalty_act() -> None:
    graph = sample()
    plain = learned("attention[dropout=0,penalty=0]", say(graph), graph)
    assert not same(plain, learned("attention[dropout=0.5,penalty=0]", say(graph), graph))
    held = learned("attention[dropout=0,penalty=1]", say(graph), graph)
    assert float(held["map"].square().sum()) < 0.5 * float(plain["map"].square().sum())


# --- stacking ---------------------------------------------------------------------------------


def test_stacking_is_multinomial_logistic_regression() -> None:
    graph = sample(80)
    said = say(graph).log_probabilities().double()
    weight, bias = regress(said, graph.y, 0.05)
    inputs = said.permute(1, 0, 2).reshape(80, -1).numpy()
    # scikit-learn sums the losses and halves the sum of squares.
    other = LogisticRegression(C=1 / (0.05 * 80), tol=1e-10, max_iter=10_000).fit(inputs, graph.y.numpy())
    expected = np.log(other.predict_proba(inputs))
    logits = torch.einsum("snc,sck->nk", said, weight) + bias
    np.testing.assert_allclose(torch.log_softmax(logits, dim=1).numpy(), expected, atol=1e-4)


def test_stacking_by_hand() -> None:
    # One member that says the same of both nodes, one of each class: nothing but the biases can tell, and they agree.
    said = torch.tensor([[[0.9, 0.1], [0.9, 0.1], [0.9, 0.1]]], dtype=torch.float64).log()
    weight, bias = regress(said, torch.tensor([0, 0, 1]), 10.0)
    logits = said[0] @ weight[0] + bias
    torch.testing.assert_close(
        torch.softmax(logits, dim=1)[0], torch.tensor([2 / 3, 1 / 3], dtype=torch.float64), atol=1e-4, rtol=0
    )
    # The whole gradient vanishes: that of a weight is (p - y) said / n + penalty w.
    probs = torch.softmax(logits, dim=1)
    target = torch.tensor([[1.0, 0.0], [1.0, 0.0], [0.0, 1.0]], dtype=torch.float64)
    gradient = said[0].t() @ (probs - target) / 3 + 10.0 * weight[0]
    assert float(gradient.abs().max()) < 1e-5


def test_a_class_that_no_label_names_still_has_a_probability() -> None:
    graph = sample(num_classes=3)
    few = Graph(graph.x, graph.y % 2, graph.edge_index, graph.ids, 3)
    aggregator = Stacking()
    aggregator.fit(toy_task(few, catalogue=CATALOGUE), say(few), few)
    answer = aggregator.combine(say(few))
    assert answer.shape == (45, 3)
    assert bool(torch.isfinite(answer).all())


def test_what_is_not_heard_is_replaced_by_the_mean_of_the_others() -> None:
    probs = torch.tensor([[[0.5, 0.5]], [[0.9, 0.1]], [[0.2, 0.8]]], dtype=torch.float64)
    found = with_others(probs.log(), torch.tensor([[False, True, True]]))
    assert torch.equal(found[1:], probs[1:].log())
    a, b = math.sqrt(0.9 * 0.2), math.sqrt(0.1 * 0.8)
    torch.testing.assert_close(found[0, 0].exp(), torch.tensor([a / (a + b), b / (a + b)], dtype=torch.float64))


# --- out of fold ------------------------------------------------------------------------------


def test_who_is_heard_by_hand() -> None:
    empty = torch.zeros(3, 4, 1)
    members = Members(empty, empty, torch.tensor([0, 2, 2, -1]), torch.tensor([5, 0, 7]))
    assert out_of_fold(members).tolist() == [[False, True], [True, False], [True, False], [True, True]]


@pytest.mark.parametrize("bracket", LEARNED)
def test_out_of_fold_the_own_member_has_no_influence(bracket: str) -> None:
    graph = sample()
    members = say(graph, num_members=5, retired=(2,))
    other = say(graph, num_members=5, retired=(2,))
    at = torch.arange(graph.num_nodes)
    other.embeddings[other.shard, at] = 3 * torch.randn(graph.num_nodes, 6, generator=rng(5))
    other.logits[other.shard, at] = 9 * torch.randn(graph.num_nodes, 3, generator=rng(6))
    assert same(
        learned(bracket, members, graph, out_of_fold="true"), learned(bracket, other, graph, out_of_fold="true")
    )
    heard = learned(bracket, members, graph, out_of_fold="false")
    assert same(heard, learned(bracket, members, graph))
    assert not same(heard, learned(bracket, other, graph))
    assert not same(heard, learned(bracket, members, graph, out_of_fold="true"))


@pytest.mark.parametrize("bracket", LEARNED)
def test_out_of_fold_changes_learning_alone(bracket: str) -> None:
    """An answer of the whole of members, own ones too, follows from what was learned and from nothing else."""
    graph = sample()
    members = say(graph)
    aggregator = build(bracket, out_of_fold="true")
    aggregator.fit(toy_task(graph, catalogue=CATALOGUE), members, graph)
    answer = aggregator.combine(members)
    stranger = Members(members.embeddings, members.logits, torch.full_like(members.shard, -1), members.sizes)
    assert torch.equal(answer, aggregator.combine(stranger))
    assert bool(torch.isfinite(answer).all())


@pytest.mark.parametrize("bracket", LEARNED)
def test_out_of_fold_with_one_member_is_told(bracket: str) -> None:
    graph = sample()
    with pytest.raises(UsageError, match=r"out_of_fold=true: only one member votes") as told:
        learned(bracket, say(graph, num_members=2, retired=(0,)), graph, out_of_fold="true")
    assert "at least two shards" in str(told.value)


@pytest.mark.parametrize("name", sorted(pools.LOSSES))
def test_pools_out_of_fold_have_the_gradient_of_their_loss(name: str) -> None:
    log_probs = torch.log_softmax(torch.randn(9, 3, 4, generator=rng(), dtype=torch.float64), dim=1)
    labels = torch.arange(9) % 3
    heard = (torch.arange(9)[:, None] % 4 != torch.arange(4)).double()
    weight = torch.rand(4, generator=rng(1), dtype=torch.float64) + 0.1

    def loss(w: Tensor) -> Tensor:
        """Each row as if the others were all there is, with weights of the same sum."""
        rows = []
        for row in range(9):
            those = heard[row] > 0
            scaled = w[those] * w.sum() / w[those].sum()
            if name == "prob":
                rows.append(-(log_probs[row, labels[row], those].exp() @ scaled / w.sum()).log())
                continue
            pooled = log_probs[row][:, those] @ scaled
            again = torch.softmax(pooled, dim=0) if name == "legacy" else pooled
            rows.append(-torch.log_softmax(again, dim=0)[labels[row]])
        return torch.stack(rows).mean()

    found, gradient = pools.LOSSES[name](weight, log_probs, labels, heard)
    wanted = weight.clone().requires_grad_()
    expected = loss(wanted)
    expected.backward()
    torch.testing.assert_close(found, expected.detach())
    torch.testing.assert_close(gradient, wanted.grad)


@pytest.mark.parametrize("name", sorted(pools.LOSSES))
def test_pools_that_hear_everybody_are_the_plain_ones_and_all_zero_weights_stay_finite(name: str) -> None:
    log_probs = torch.log_softmax(torch.randn(9, 3, 4, generator=rng(), dtype=torch.float64), dim=1)
    labels = torch.arange(9) % 3
    weight = torch.rand(4, generator=rng(1), dtype=torch.float64) + 0.1
    plain = pools.LOSSES[name](weight, log_probs, labels)
    for a, b in zip(plain, pools.LOSSES[name](weight, log_probs, labels, torch.ones(9, 4).double()), strict=True):
        torch.testing.assert_close(a, b)
    heard = (torch.arange(9)[:, None] % 4 != torch.arange(4)).double()
    for value in pools.LOSSES[name](torch.zeros(4).double(), log_probs, labels, heard):
        assert bool(torch.isfinite(value).all())


@pytest.mark.parametrize("form", ["softmax", "paper"])
def test_local_views_out_of_fold_by_hand(form: Any) -> None:
    fusion = Fusion(3, 2, 2, Design(local=form, temperature=1.0), rng())
    scores = torch.tensor([[1.0, 2.0, 3.0], [1.0, 2.0, 3.0]])
    heard = torch.tensor([[True, True, False], [False, True, True]])
    silenced = masked(scores, heard)
    torch.testing.assert_close(
        fusion.weights(silenced)[0], torch.tensor([1 / (1 + math.e), math.e / (1 + math.e), 0.0])
    )
    # The first view keeps member 1; the second keeps none that is heard, so all of these.
    mask = torch.tensor([[False, True, True], [True, False, False]])
    views = fusion.local_weights(silenced, mask, heard)
    expected = [0.0, 1.0, 0.0] if form == "softmax" else [0.0, 2 * math.e / (1 + math.e), 0.0]
    torch.testing.assert_close(views[0], torch.tensor(expected))
    torch.testing.assert_close(views[1], fusion.weights(silenced)[1])
