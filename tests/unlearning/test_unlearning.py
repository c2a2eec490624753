"""What must hold for every method: exact retraining, nothing kept, nothing leaked."""

import errno
import os
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch
from method_samples import METHODS, SHARDED, answers, fitted, same, setting
from tensor_samples import Made

from unlearnbench.audits.exactness.reach import reachable_tensors
from unlearnbench.errors import RefusedError, UnlearnbenchError
from unlearnbench.protocol import Request
from unlearnbench.registry.loading import load_catalogue
from unlearnbench.registry.resolve import resolve
from unlearnbench.task import View, make_query
from unlearnbench.task.task import NoCheckpoints
from unlearnbench.testing.graphs import FIRST_ID, toy_graph, toy_task
from unlearnbench.unlearning import Claim, Sharded, group_training


@pytest.mark.parametrize("text", METHODS)
def test_unlearning_equals_a_run_that_never_saw_the_data(text):
    graph, task, request = setting()
    retained = task.without(request)
    method = fitted(text, task)
    method.unlearn(request, retained)
    given = {name: value.clone() for name, value in method.kept().items()}
    never = fitted(text, replace(retained, given=given))
    assert same(method.state(), never.state()) == []
    for one, other in zip(answers(method, graph, retained), answers(never, graph, retained), strict=True):
        assert torch.equal(one, other)
    assert all(torch.equal(a, b) for a, b in zip(given.values(), never.kept().values(), strict=True))


GROUPED = ["sisa[num_shards=5]", "graphrevoker[num_shards=5,aggregator.sample=60]", "sisa[num_shards=5,slices=3]"]


def groups_trained(monkeypatch, method, do):
    """Do something with a method, and list the groups of shards whose members it trains meanwhile."""
    found, train = [], type(method).train_members

    def noted(self, task, graphs, shards):
        found.append(list(shards))
        return train(self, task, graphs, shards)

    with monkeypatch.context() as patch:
        patch.setattr(type(method), "train_members", noted)
        do()
    return found


@pytest.mark.slow
@pytest.mark.parametrize("text", GROUPED)
@pytest.mark.parametrize("rows", [1, 50])
def test_members_trained_in_groups_are_those_trained_at_once(text, rows, monkeypatch):
    _graph, task, request = setting()
    retained = task.without(request)
    whole = fitted(text, task)
    grouped = resolve(load_catalogue(), "unlearner", text).build()
    assert groups_trained(monkeypatch, grouped, lambda: grouped.fit(task)) == [[0, 1, 2, 3, 4]]
    monkeypatch.setattr(
        group_training, "MOST_TRAINED", rows * group_training.numbers_a_row(task.seen, whole._networks.state(0))
    )
    cut = groups_trained(monkeypatch, grouped, lambda: grouped.fit(task))
    assert [shard for group in cut for shard in group] == [0, 1, 2, 3, 4]
    # Shards have 15 to 24 of the 105 nodes: two fit into 50 rows, four do not.
    assert len(cut) == 5 if rows == 1 else 2 <= len(cut) < 5
    assert same(whole.state(), grouped.state()) == []
    whole.unlearn(request, retained)
    grouped.unlearn(request, retained)
    assert same(whole.state(), grouped.state()) == []


@pytest.mark.parametrize(
    ("nodes", "features", "entries", "edges", "groups"),
    [
        (44_625, 500, None, 450_000, 1),
        (24_145, 8_415, 800_000, 243_000, 1),
        (24_145, 8_415, None, 243_000, 4),
        (1_714_000, 100, None, 60_600_000, 20),
    ],
    ids=["flickr", "physics", "dense-physics", "products"],
)
def test_only_large_graphs_are_trained_in_groups(nodes, features, entries, edges, groups):
    method = fitted("sisa[num_shards=20,aggregator=mean]", setting()[1])
    method._shard = torch.arange(nodes) % 20
    rows = None if entries is None else SimpleNamespace(values=range(entries))
    graph = SimpleNamespace(num_nodes=nodes, num_features=features, num_edges=edges, sparse_rows=rows)
    task = SimpleNamespace(graph=graph, seen=graph, checkpoints=NoCheckpoints())
    assert len(method._groups(task, range(20))) == groups
    assert method._groups(task, []) == []


@pytest.mark.parametrize("text", [METHODS[0], METHODS[2], METHODS[6], METHODS[8]])
def test_methods_that_claim_to_be_exact_need_no_partition_given(text):
    _graph, task, request = setting()
    retained = task.without(request)
    method = fitted(text, task)
    assert method.claim is Claim.EXACT
    method.unlearn(request, retained)
    assert same(method.state(), fitted(text, retained).state()) == []


@pytest.mark.parametrize(
    ("text", "reason"), [(METHODS[1], "ids"), (METHODS[3], "content"), (METHODS[5], "content"), (METHODS[7], "ids")]
)
def test_methods_that_keep_a_partition_say_what_it_depends_on(text, reason):
    method = resolve(load_catalogue(), "unlearner", text).build()
    assert method.claim is Claim.EXACT_GIVEN_PARTITION
    assert method.claim_reason == reason


@pytest.mark.parametrize("text", METHODS)
def test_nothing_reachable_holds_a_forgotten_id_row_or_label(text):
    graph, task, request = setting()
    forgotten = graph.induced(request.ids)
    constants = forgotten.x[forgotten.x > 0]
    retained = task.without(request)
    method = fitted(text, task)
    method.unlearn(request, retained)
    answers(method, graph, retained)
    held = list(reachable_tensors(method))
    assert held
    for tensor in held:
        assert not bool(torch.isin(tensor.double(), request.ids.double()).any())
        assert not bool(torch.isin(tensor.double(), constants.double()).any())
        # A label is a small number and cannot be told from others: no vector of labels may be held at all.
        assert tensor.dtype is not torch.int64 or len(tensor) in (0, retained.graph.num_nodes) or tensor.numel() == 1
    labels = [t for t in held if t.dtype is torch.int64 and t.shape == retained.graph.y.shape]
    assert not any(torch.equal(t, retained.graph.y) for t in labels)


def test_the_search_finds_what_is_hidden():
    class Holder:
        pass

    secret = torch.tensor([FIRST_ID + 3])
    hidden = Holder()
    array = secret.numpy()
    hidden.call = lambda default=array: default
    hidden.inner = [{"a": (secret + 1,)}]
    hidden.result = (torch.ones(2, requires_grad=True) * torch.tensor([5.0, 7.0])).sum()
    values = {float(v) for tensor in reachable_tensors(hidden) for v in tensor.flatten()}
    assert {FIRST_ID + 3.0, FIRST_ID + 4.0, 5.0, 7.0} <= values


@pytest.mark.parametrize("text", METHODS)
def test_a_second_request_works_on_the_result_of_the_first(text):
    _graph, task, request = setting()
    first, second = Request(request.ids[:2]), Request(request.ids[2:])
    method = fitted(text, task)
    middle = task.without(first)
    method.unlearn(first, middle)
    end = middle.without(second)
    method.unlearn(second, end)
    at_once = fitted(text, task)
    at_once.unlearn(request, task.without(request))
    assert same(method.state(), at_once.state()) == []


@pytest.mark.parametrize("text", METHODS)
def test_the_same_task_gives_the_same_bits_and_inputs_stay_unchanged(text):
    graph, task, _ = setting()
    copies = [t.clone() for t in (task.graph.x, task.graph.y, task.graph.edge_index, task.graph.ids)]
    global_state = torch.random.get_rng_state()
    first, second = fitted(text, task), fitted(text, task)
    assert same(first.state(), second.state()) == []
    for one, other in zip(answers(first, graph, task), answers(first, graph, task), strict=True):
        assert torch.equal(one, other)
    after = (task.graph.x, task.graph.y, task.graph.edge_index, task.graph.ids)
    assert all(torch.equal(a, b) for a, b in zip(copies, after, strict=True))
    assert torch.equal(global_state, torch.random.get_rng_state())


@pytest.mark.parametrize("text", METHODS)
def test_predictions_are_log_probabilities_in_the_order_of_the_targets(text):
    graph, task, _ = setting()
    method = fitted(text, task)
    targets = graph.ids[torch.arange(150) % 10 == 9]
    for view in (View.SHARD, View.FULL, View.TARGETS):
        query = make_query(graph, task.graph.ids, targets, view, task.device)
        rows = method.predict(query)
        assert rows.shape == (len(targets), 3)
        torch.testing.assert_close(rows.exp().sum(dim=1), torch.ones(len(targets)), atol=1e-4, rtol=0)
        flipped = method.predict(replace(query, targets=targets.flip(0)))
        torch.testing.assert_close(flipped.flip(0), rows, atol=1e-4, rtol=1e-3)


def test_a_shard_that_becomes_empty_retires_its_member_and_a_run_without_it_agrees():
    graph, task, _ = setting()
    text = "sisa[num_shards=20]"
    method = fitted(text, task)
    partition = method.kept()["partition"]
    request = Request(partition[partition[:, 1] == 4, 0].sort().values)
    retained = task.without(request)
    method.unlearn(request, retained)
    assert not any(name.startswith("members/004") for name in method.state())
    members = method.members(retained.query(retained.graph.ids[:7], View.SHARD))
    assert int(members.sizes[4]) == 0
    assert not bool(members.voting[4])
    assert not bool(members.logits[4].any())
    assert all(not bool(value.any()) for value in method._networks.state(4).values())
    never = fitted(text, replace(retained, given=method.kept()))
    for one, other in zip(answers(method, graph, retained), answers(never, graph, retained), strict=True):
        assert torch.equal(one, other)
    again = Request(retained.graph.ids[:1])
    method.unlearn(again, retained.without(again))


def test_a_given_partition_must_name_every_training_node_once():
    _, task, _ = setting()
    partition = fitted("sisa[num_shards=5]", task).kept()["partition"]
    partition[0, 0] = partition[1, 0]
    with pytest.raises(RefusedError, match="every training node once"):
        fitted("sisa[num_shards=5]", replace(task, given={"partition": partition}))


def test_members_speak_of_their_own_shard_and_of_strangers():
    graph, task, _ = setting()
    method = fitted("sisa[num_shards=5]", task)
    kept = method.kept()["partition"]
    inside = method.members(task.query(kept[:9, 0], View.SHARD))
    assert torch.equal(inside.shard, kept[:9, 1])
    assert inside.embeddings.shape == (5, 9, 64)
    outside = graph.ids[torch.arange(150) % 10 == 9]
    strangers = method.members(make_query(graph, task.graph.ids, outside, View.SHARD, task.device))
    assert set(strangers.shard.tolist()) == {-1}


MODULE = "unlearnbench.unlearning.sharded"
IN_MEMORY = "unlearnbench.unlearning.member_outputs._MOST_IN_MEMORY"


@pytest.mark.parametrize("text", ["sisa[num_shards=5]", "graphrevoker[num_shards=5,partitioner=random]"])
def test_members_are_evaluated_some_at_a_time_with_the_same_result(monkeypatch, text):
    graph, task, _ = setting()
    method = fitted(text, task)
    whole = answers(method, graph, task)
    monkeypatch.setattr(f"{MODULE}._MOST_FEATURES", 1)
    monkeypatch.setattr(IN_MEMORY, 0)
    for one, other in zip(answers(method, graph, task), whole, strict=True):
        assert torch.equal(one, other)
    # A chunk of other size is another product of matrices, whose last bits are BLAS's own.
    monkeypatch.setattr(f"{MODULE}._ROWS_AT_ONCE", 4 * 5)
    for one, other in zip(answers(method, graph, task), whole, strict=True):
        torch.testing.assert_close(one, other)


def test_what_members_say_is_the_same_from_a_file_with_a_retired_one_among_them(monkeypatch):
    _, task, _ = setting()
    method = fitted("sisa[num_shards=20]", task)
    partition = method.kept()["partition"]
    request = Request(partition[partition[:, 1] == 4, 0].sort().values)
    retained = task.without(request)
    method.unlearn(request, retained)
    for view in (View.SHARD, View.FULL):
        query = retained.query(retained.graph.ids[:30], view)
        held = method.members(query)
        with monkeypatch.context() as patch:
            patch.setattr(IN_MEMORY, 0)
            read = method.members(query)
        for name in ("embeddings", "logits", "shard", "sizes"):
            assert torch.equal(getattr(held, name), getattr(read, name))
        assert not bool(read.logits[4].any())


@pytest.mark.parametrize(
    "text",
    [
        "sisa[num_shards=40]",
        "grapheraser[num_shards=40,partitioner=random,aggregator=weighted[sample=40,epochs=1]]",
        "graphrevoker[num_shards=40,partitioner=random,aggregator=contrastive[sample=40,epochs=1]]",
    ],
)
@pytest.mark.parametrize("view", [View.SHARD, View.FULL])
def test_what_all_members_say_of_all_nodes_is_never_held_at_once(monkeypatch, text, view):
    num_shards, num_nodes = 40, 600
    task = toy_task(toy_graph(num_nodes=num_nodes, num_features=8), epochs=1)
    method = fitted(text, task)
    query = task.query(task.graph.ids, view)
    with Made() as made:
        whole = method.predict(query)
    assert made.largest >= num_shards * num_nodes * 64
    monkeypatch.setattr(f"{MODULE}._MOST_ROWS", 1)
    monkeypatch.setattr(f"{MODULE}._ROWS_AT_ONCE", num_shards * 10)
    monkeypatch.setattr(IN_MEMORY, num_nodes)
    monkeypatch.setattr("unlearnbench.gnn.networks._SHARED_NUMBERS", num_nodes)
    with Made() as made:
        parts = method.predict(query)
    # The members' parameters; one member's layer of all nodes and all members' projections of ten nodes are less.
    assert made.largest <= num_shards * 64 * 128 < num_shards * num_nodes * 64 / 4, made.where
    torch.testing.assert_close(parts, whole)


def test_a_full_disk_is_told(monkeypatch, tmp_path):
    _, task, _ = setting()
    method = fitted("sisa[num_shards=5]", task)

    class Full:
        def truncate(self, size):
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        def close(self):
            pass

    monkeypatch.setattr(IN_MEMORY, 0)
    monkeypatch.setattr("tempfile.TemporaryFile", lambda **settings: Full())
    with pytest.raises(UnlearnbenchError, match="No space left on device") as caught:
        method.predict(task.query(task.graph.ids, View.SHARD))
    assert "TMPDIR" in caught.value.hint


def test_one_shard_equals_retrain():
    graph, task, _ = setting()
    method, reference = fitted("sisa[num_shards=1]", task), fitted("retrain", task)
    assert same(method.state(), reference.state()) == []
    for one, other in zip(answers(method, graph, task), answers(reference, graph, task), strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


def test_every_sharded_method_is_built_on_sharded():
    catalogue = load_catalogue()
    for text in SHARDED:
        assert isinstance(resolve(catalogue, "unlearner", text).build(), Sharded)
