"""GUIDE: its embedding, repair and weights by hand, and that what it forgets leaves no trace in other shards."""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import pairwise

import numpy as np
import pytest
import torch
from method_samples import CATALOGUE, fitted, same, setting

from unlearnbench.graph import Graph
from unlearnbench.protocol import Request
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import View
from unlearnbench.testing.graphs import toy_graph, toy_task
from unlearnbench.unlearning import Claim
from unlearnbench_guide.guided import (
    distances_to_means,
    embed,
    nearest_orthonormal,
    normalised_adjacency,
    objective,
    rotated,
    target,
)
from unlearnbench_guide.repair import cut_edges, repaired
from unlearnbench_guide.similarity import match, places

TEXT = "guide[num_shards=4,partitioner.rounds=10]"


def graph_of(pairs: list[tuple[int, int]], labels: list[int]) -> Graph:
    edges = torch.tensor(pairs, dtype=torch.int64).reshape(-1, 2).T
    n = len(labels)
    x = torch.arange(2.0 * n).reshape(n, 2)
    ids = torch.arange(n) + 10**9
    return Graph(x, torch.tensor(labels), torch.cat([edges, edges.flip(0)], dim=1), ids, max(labels) + 1)


def classes_of(graph: Graph) -> torch.Tensor:
    return torch.nn.functional.one_hot(graph.y, graph.num_classes).double()


def start(n: int, size: int) -> torch.Tensor:
    return torch.randn(n, size, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


# --- the embedding


def test_the_adjacency_counts_an_edge_once_and_no_loop() -> None:
    edges = torch.tensor([[0, 0, 1, 2], [1, 1, 2, 2]])
    graph = Graph(torch.ones(4, 1), torch.zeros(4, dtype=torch.int64), edges, torch.arange(4), 1)
    half = 1 / math.sqrt(2)
    expected = [[0, half, 0, 0], [half, 0, half, 0], [0, half, 0, 0], [0, 0, 0, 0]]
    assert (normalised_adjacency(graph) @ torch.eye(4, dtype=torch.float64)).numpy() == pytest.approx(
        np.array(expected)
    )


def test_no_round_lowers_the_objective_and_columns_stay_orthonormal() -> None:
    graph = toy_graph()
    matrix, classes, at = normalised_adjacency(graph), classes_of(graph), start(60, 4)
    values = []
    for rounds in range(12):
        embedding = embed(matrix, classes, at, 0.05, rounds)
        assert (embedding.T @ embedding).numpy() == pytest.approx(np.eye(4), abs=1e-12)
        values.append(objective(matrix, classes, embedding, 0.05))
    assert all(after >= before - 1e-12 for before, after in pairwise(values))
    assert values[-1] > values[0] + 0.5


def test_the_objective_of_a_partition_by_hand() -> None:
    # Two pairs, each a shard: tr(H'WH) is 2; each shard has one node of each class of two, as F'H = B wants.
    graph = graph_of([(0, 1), (2, 3)], [0, 1, 0, 1])
    fair = torch.tensor([[1, 0], [1, 0], [0, 1], [0, 1]]).double() / math.sqrt(2)
    assert objective(normalised_adjacency(graph), classes_of(graph), fair, 0.5) == pytest.approx(2)
    # A class a shard: no edge is kept, and |F'H - B|^2 is 4 times (sqrt(2) / 2)^2 = 2.
    unfair = torch.tensor([[1, 0], [0, 1], [1, 0], [0, 1]]).double() / math.sqrt(2)
    assert objective(normalised_adjacency(graph), classes_of(graph), unfair, 0.5) == pytest.approx(-1)


def test_without_penalty_the_embedding_spans_the_leading_eigenvectors() -> None:
    graph = toy_graph(num_nodes=30, edges=200)
    dense = (normalised_adjacency(graph) @ torch.eye(30, dtype=torch.float64)).numpy()
    values, vectors = np.linalg.eigh(dense)
    embedding = embed(normalised_adjacency(graph), classes_of(graph), start(30, 2), 0.0, 2000).numpy()
    assert values[-2] - values[-3] > 0.01
    leading = vectors[:, -2:]
    assert embedding @ embedding.T == pytest.approx(leading @ leading.T, abs=1e-6)


@pytest.mark.parametrize("assignment", ["fast", "rotation"])
def test_groups_that_no_edge_joins_become_shards(assignment: str) -> None:
    cliques = [(a, b) for k in range(3) for a in range(k, 15, 3) for b in range(a + 3, 15, 3)]
    task = toy_task(graph_of(cliques, [0] * 15), seed=1)
    shard = resolve(CATALOGUE, "partitioner", f"guided[alpha=0,assignment={assignment}]").build().partition(task, 3)
    assert [len(shard[k::3].unique()) for k in range(3)] == [1, 1, 1]
    assert len(shard.unique()) == 3


def test_the_penalty_deals_classes_out_equally() -> None:
    # Two cliques, of one class each: the fewest cut edges make unfair shards, the penalty fair ones.
    cliques = [(a, b) for k in range(2) for a in range(k, 12, 2) for b in range(a + 2, 12, 2)]
    task = toy_task(graph_of(cliques, [0, 1] * 6), seed=1)
    fewest, unfair = {}, {}
    for alpha in (0, 10):
        shard = resolve(CATALOGUE, "partitioner", f"guided[alpha={alpha},slack=0]").build().partition(task, 2)
        fewest[alpha] = min(int((task.graph.y[shard == 0] == label).sum()) for label in (0, 1))
        classes = classes_of(task.graph)
        embedding = embed(normalised_adjacency(task.graph), classes, start(12, 2), alpha, 200)
        unfair[alpha] = float((classes.T @ embedding - target(classes, 2)).norm())
    assert fewest[0] == 0 < fewest[10]
    assert unfair[0] > 0.5 > 0.01 > unfair[10]


def test_a_rotated_indicator_is_turned_back() -> None:
    indicator = torch.nn.functional.one_hot(torch.arange(12) % 3, 3).double() / 2
    turned = indicator @ nearest_orthonormal(torch.eye(3, dtype=torch.float64) + 0.3 * start(3, 3))
    shard = rotated(turned).argmax(dim=1)
    assert [len(shard[k::3].unique()) for k in range(3)] == [1, 1, 1]
    assert len(shard.unique()) == 3


def test_means_by_hand() -> None:
    points = torch.tensor([[0.0], [1.0], [9.0], [11.0]], dtype=torch.float64)
    # From 0 and 1 the means move to 0 and 7, then to .5 and 10.
    found = distances_to_means(points, torch.tensor([0, 1]))
    assert found.tolist() == [[0.5, 10.0], [0.5, 9.0], [8.5, 1.0], [10.5, 1.0]]


# --- the repair


def test_cut_edges_by_hand() -> None:
    graph = graph_of([(0, 1), (0, 2), (0, 3), (1, 3)], [0, 0, 1, 1])
    order = torch.tensor([3, 0, 1, 2])
    counts = cut_edges(graph, graph.ids[order], torch.tensor([7, 2, 2, 7]))
    assert {shard: missing.tolist() for shard, missing in counts.items()} == {2: [2, 1], 7: [2, 1]}


@pytest.mark.parametrize("repair", ["zero", "mirror", "mixup"])
def test_repaired_nodes_by_hand(repair: str) -> None:
    graph = graph_of([(0, 1)], [0, 1, 0])
    whole = repaired(graph, torch.tensor([2, 0, 1]), repair, torch.Generator().manual_seed(0))  # type: ignore[arg-type]
    assert whole.y.tolist() == [0, 1, 0, -1, -1, -1]
    assert torch.equal(whole.x[:3], graph.x)
    assert len(whole.ids.unique()) == 6
    joined = whole.edge_index[:, graph.num_edges :]
    assert joined.T.tolist() == [[3, 0], [4, 0], [5, 2], [0, 3], [0, 4], [2, 5]]
    new = whole.x[3:]
    if repair == "zero":
        assert not new.any()
    elif repair == "mirror":
        assert torch.equal(new, graph.x[[0, 0, 2]])
    else:
        # Between the features of 0, which are (0, 1), and those of its neighbour 1, (2, 3); 2 has no neighbour.
        assert torch.equal(new[2], graph.x[2])
        assert bool(((new[:2] > graph.x[0]) & (new[:2] < graph.x[1])).all())
        assert new[:, 1].tolist() == pytest.approx((new[:, 0] + 1).tolist())


# --- the weights


def test_the_pyramid_match_by_hand() -> None:
    # One axis, two levels. Cells of .5: one node of each lies below, one above. Of .25: {0, 2} against {1, 2}.
    first, second = torch.tensor([[0.1], [0.6]]), torch.tensor([[0.3], [0.7]])
    # I(2) = 1, I(1) = 2, I(0) = 2: 1 + (2 - 1) / 2 + (2 - 2) / 4; with itself 2.
    assert match(first.double(), second.double(), 2) == pytest.approx(1.5 / 2)
    assert match(first.double(), first.double(), 2) == 1


def test_nodes_are_placed_by_the_leading_eigenvectors() -> None:
    graph = toy_graph(num_nodes=40, edges=150)
    dense = np.zeros((40, 40))
    dense[tuple(graph.edge_index.numpy())] = 1
    values, vectors = np.linalg.eigh(dense)
    order = np.argsort(-np.abs(values))[:2]
    found = places(graph, start(40, 8), 2).numpy()
    assert found[:, 0] == pytest.approx(np.abs(vectors[:, order[0]]), abs=1e-6)
    assert np.abs(values[order[0]]) > np.abs(values[order[1]])
    # Without an edge there is no place but the corner; with fewer nodes than eigenvectors the rest is 0.
    lone = graph_of([], [0, 0, 0])
    assert not places(lone, start(3, 3), 5).any()
    assert places(lone, start(3, 3), 5).shape == (3, 5)


def test_a_member_counts_by_the_likeness_of_its_shard() -> None:
    _, task, _ = setting()
    method = fitted(TEXT, task)
    weight = method.state()["aggregator/weight"]
    assert float(weight.sum()) == pytest.approx(1)
    assert bool((weight > 0).all())
    query = task.query(task.graph.ids[:5], View.SHARD)
    members = method.members(query)
    expected = torch.einsum("s,snc->nc", weight, torch.softmax(members.logits, dim=-1))
    assert method.predict(query).exp().numpy() == pytest.approx(expected.numpy(), abs=1e-6)


# --- forgetting


@pytest.mark.parametrize("repair", ["zero", "mixup", "none", "mirror"])
@pytest.mark.parametrize("kind", ["node", "edge", "feature"])
def test_after_a_request_it_is_what_it_is_without_the_forgotten(kind: str, repair: str) -> None:
    _, task, nodes = setting()
    text = TEXT.replace("]", f",repair={repair}]")
    method = fitted(text, task)
    held = method.kept()["partition"]
    shard = dict(held.tolist())
    pairs = task.graph.pairs()
    cut = torch.tensor([shard[a] != shard[b] for a, b in pairs.tolist()])
    requests = {"edge": Request(pairs[cut][:2], "edge"), "node": nodes, "feature": Request.of_features(nodes.ids)}
    request = requests[kind]
    retained = task.without(request)
    before = method.state()
    method.unlearn(request, retained)
    given = held[~torch.isin(held[:, 0], request.removed)]
    other = fitted(text, replace(retained, given={"partition": given}))
    assert same(method.state(), other.state()) == []
    assert same(method.memory(), other.memory()) == []
    changed = {name.split("/")[1] for name in same(method.state(), before) if name.startswith("members")}
    if kind == "edge":
        # Both ends of a cut edge lose a neighbour in another shard.
        ends = {f"{shard[node]:03d}" for pair in pairs[cut][:2].tolist() for node in pair}
        assert changed == (set() if repair == "none" else ends)
    assert method.claim is Claim.EXACT_GIVEN_PARTITION
    assert method.claim_reason == "content"


def test_other_shards_features_reach_no_member() -> None:
    _, task, _ = setting()
    method = fitted(TEXT, task)
    held = method.kept()["partition"]
    inside = torch.isin(task.graph.ids, held[held[:, 1] == 0, 0])
    x = torch.where(inside[:, None], task.graph.x, task.graph.x + 1)
    other = fitted(TEXT, replace(task, graph=task.graph.with_features(x), given={"partition": held}))
    changed = {name.split("/")[1] for name in same(method.state(), other.state()) if name.startswith("members")}
    assert changed == {"001", "002", "003"}
