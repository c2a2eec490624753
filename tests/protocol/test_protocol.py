from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from plain_versions import edges_by_id

from unlearnbench import seeds
from unlearnbench.errors import RefusedError, UsageError
from unlearnbench.graph import Graph
from unlearnbench.protocol import Forget, protocol
from unlearnbench.task import View, make_query
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task

FORGET = Forget(0.1)


def test_ten_repetitions_test_every_node_once_and_the_next_ten_use_new_folds():
    graph = toy_graph(num_nodes=103, first_id=FIRST_ID)
    tested = [protocol.split(graph, 0, "toy", r).test for r in range(20)]
    assert torch.equal(torch.cat(tested[:10]).sort().values, graph.ids)
    assert torch.equal(torch.cat(tested[10:]).sort().values, graph.ids)
    assert not torch.equal(tested[0], tested[10])


@settings(max_examples=30, deadline=None)
@given(st.integers(10, 200), st.integers(0, 50), st.integers(0, 25))
def test_splits_cover_all_nodes_in_seven_to_two_to_one(n, base, repetition):
    graph = toy_graph(num_nodes=n, first_id=FIRST_ID)
    parts = protocol.split(graph, base, "toy", repetition)
    everyone = torch.cat([parts.train, parts.val, parts.test])
    assert torch.equal(everyone.sort().values, graph.ids)
    assert abs(len(parts.train) - 0.7 * n) <= 7
    assert abs(len(parts.val) - 0.2 * n) <= 2
    assert abs(len(parts.test) - 0.1 * n) <= 1


def test_unlabelled_nodes_are_in_no_part_of_a_split():
    graph = toy_graph()
    y = graph.y.clone()
    y[::4] = -1
    parts = protocol.split(Graph(graph.x, y, graph.edge_index, graph.ids, 3), 0, "toy", 0)
    assert bool((y[torch.cat([parts.train, parts.val, parts.test])] >= 0).all())


def test_too_few_nodes_for_folds_is_an_error():
    with pytest.raises(UsageError, match="9 labelled nodes"):
        protocol.split(toy_graph(num_nodes=9), 0, "toy", 0)


def test_queries_hold_no_label_and_join_test_nodes_to_training_nodes_and_each_other_only():
    graph = toy_graph(num_nodes=200, edges=900, first_id=FIRST_ID)
    parts = protocol.split(graph, 0, "toy", 0)
    for view in (View.SHARD, View.FULL):
        query = make_query(graph, parts.train, parts.test, view, torch.device("cpu"))
        shard = parts.train[:40]
        seen = query.context(shard)
        expected = shard if view is View.SHARD else parts.train
        assert set(seen.ids.tolist()) == set(torch.cat([expected, parts.test]).tolist())
        assert edges_by_id(seen) == edges_by_id(graph.induced(seen.ids))
        assert bool((seen.y == -1).all())
    targets_only = make_query(graph, parts.train, parts.train[:30], View.TARGETS, torch.device("cpu")).context(shard)
    assert targets_only.ids.tolist() == parts.train[:30].tolist()


def test_a_query_refuses_the_graph_of_forgotten_nodes_but_answers_about_them_as_strangers():
    graph = toy_graph(num_nodes=100, edges=400)
    retained, forgotten = graph.ids[:70], graph.ids[70:73]
    query = make_query(graph, retained, forgotten, View.SHARD, torch.device("cpu"))
    with pytest.raises(RefusedError, match="first is 70"):
        query.context(torch.cat([retained[:5], forgotten[:1]]))
    assert bool(torch.isin(forgotten, query.context(retained[:5]).ids).all())


def test_generators_are_fresh_and_depend_on_seed_and_role():
    task = toy_task()
    first, again = task.generator("a", 1), task.generator("a", 1)
    assert torch.equal(torch.rand(3, generator=first), torch.rand(3, generator=again))
    assert len({task.key("a", 1), task.key("a", 2), task.key("b", 1), replace(task, seed=1).key("a", 1)}) == 4


def test_keyed_hashes_do_not_depend_on_other_ids():
    ids = torch.arange(10**9, 10**9 + 1000)
    whole = seeds.keyed_hash(ids, 5)
    assert torch.equal(whole[::3], seeds.keyed_hash(ids[::3], 5))
    assert bool((whole >= 0).all())
    assert len(whole.unique()) == 1000
    assert not torch.equal(whole, seeds.keyed_hash(ids, 6))
    counts = torch.bincount(whole % 10, minlength=10)
    assert int(counts.min()) > 60
    # splitmix64 of Steele et al. seeded with 0 gives this as its first output.
    assert int(seeds.keyed_hash(torch.tensor([0]), 1)[0]) == 0xE220A8397B1DCDAF >> 1
