"""Runs that relearn: which networks, on which nodes and graphs, beside which retrained ones."""

from __future__ import annotations

import pytest
import torch
from audit_samples import toy_subject

from unlearnbench.audits.relearning.curves import Recipe, relearn
from unlearnbench.audits.relearning.runs import (
    OTHER_SEED,
    SAME_SEED,
    NoNetworksError,
    networks_of,
    retrained_run,
    unlearned_run,
)
from unlearnbench.audits.subject import Subject
from unlearnbench.gnn import train_networks

RECIPE = Recipe(steps=3, lr=0.01)


def runs_of(subject: Subject):
    method = subject.cell.method
    run = unlearned_run(subject, method, 1, RECIPE)
    return run, *(retrained_run(subject, method, 1, side, RECIPE, run) for side in (SAME_SEED, OTHER_SEED))


def test_the_networks_of_noop_are_those_from_before_the_request() -> None:
    subject = toy_subject("noop", ratio=0.2)
    run, *_ = runs_of(subject)
    assert torch.equal(run.noop.loss, run.unlearned.loss)
    assert run.noop.steps_to(run.target).tolist() == [0]
    task = subject.task(1)
    trained = train_networks(task, [task.graph], [0])
    assert torch.equal(run.noop.loss, relearn(trained, [task.graph], subject.request.ids, RECIPE).loss)


@pytest.mark.parametrize("method", ["retrain", "sisa[num_shards=3]", "sisa[num_shards=3,partitioner=hash]"])
def test_exact_methods_relearn_as_their_retrained_counterparts_bit_for_bit(method: str) -> None:
    run, same, other = runs_of(toy_subject(method, ratio=0.2))
    assert torch.equal(run.unlearned.loss, same.loss)
    assert not torch.equal(run.unlearned.loss, other.loss)
    assert not torch.equal(run.unlearned.loss, run.noop.loss)
    assert other.loss.shape == run.unlearned.loss.shape


def test_each_member_relearns_the_forgotten_nodes_of_its_shard() -> None:
    subject = toy_subject("sisa[num_shards=3]", ratio=0.1)
    task, ids = subject.task(1), subject.request.ids
    run, *_ = runs_of(subject)
    built = subject.fit(subject.cell.method, task)
    held = built.kept()["partition"]
    gone = torch.isin(held[:, 0], ids)
    assert run.shards == tuple(held[gone, 1].unique().tolist())
    assert run.others == ()
    for place, shard in enumerate(run.shards):
        graph = task.graph.induced(held[held[:, 1] == shard, 0])
        alone = relearn(networks_of(built.state(), task, [shard]), [graph], ids, RECIPE)
        assert torch.allclose(run.noop.loss[:, place], alone.loss[:, 0], rtol=1e-5)


def test_members_of_shards_that_have_become_empty_are_counted_and_left_out() -> None:
    run, same, _ = runs_of(toy_subject("sisa[num_shards=30]", epochs=1, ratio=0.2))
    assert run.retired > 0
    assert len(run.shards) == run.noop.loss.shape[1] == same.loss.shape[1]
    assert bool(torch.isfinite(run.unlearned.loss).all())


@pytest.mark.parametrize(
    ("method", "model", "held"),
    [("tally", "gcn[hidden=16]", "weight"), ("cgu", "sgc", "centre, weight"), ("knowing", "gcn[hidden=16]", "noise")],
)
def test_a_method_without_networks_is_named_with_what_it_holds(method: str, model: str, held: str) -> None:
    with pytest.raises(
        NoNetworksError, match=f"members/000 of the state holds .*{held}, not the parameters of {model[:3]}"
    ):
        runs_of(toy_subject(method, ratio=0.2, model=model))


@pytest.mark.parametrize("model", ["gat[hidden=16]", "sage[hidden=16]", "gin[hidden=16]", "sgc"])
def test_any_base_model_relearns(model: str) -> None:
    run, *_ = runs_of(toy_subject("scrub", ratio=0.2, model=model))
    assert float(run.unlearned.loss[-1]) < float(run.unlearned.loss[0])
