"""Shadow pipelines: who is trained with which nodes, and what is read from their predictions."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from audit_samples import toy_subject

from unlearnbench.audits.membership.shadows import (
    Shadows,
    confidence,
    draw_presence,
    neighbours_of,
    presence,
    run_references,
    run_shadows,
)
from unlearnbench.audits.subject import Memory, Subject
from unlearnbench.gnn import training
from unlearnbench.protocol import Request
from unlearnbench.task import View


def test_presence_is_balanced_in_the_first_half_and_a_coin_in_the_second() -> None:
    drawn = draw_presence(64, 300, torch.Generator().manual_seed(0))
    assert drawn.shape == (64, 300)
    assert drawn[:32].sum(dim=0).tolist() == [16] * 300
    second = drawn[32:].double()
    assert float(second.mean()) == pytest.approx(0.5, abs=0.02)
    assert float(second.sum(dim=0).std()) == pytest.approx(32**0.5 / 2, rel=0.15)
    # No two nodes go together.
    joint = torch.corrcoef(drawn.double().T) - torch.eye(300)
    assert abs(float(joint.mean())) < 0.01


def test_confidence_is_the_log_odds_of_the_label() -> None:
    probabilities = torch.tensor([[0.7, 0.2, 0.1], [0.25, 0.5, 0.25]])
    found = confidence(probabilities.log(), torch.tensor([0, 2]))
    assert found.exp().tolist() == pytest.approx([7 / 3, 1 / 3])
    assert found.dtype == torch.float64
    sure = torch.tensor([[0.0, -200.0]])
    assert confidence(sure, torch.tensor([0])).item() == pytest.approx(200)


def test_neighbours_are_the_retained_training_nodes_next_to_forgotten_ones() -> None:
    subject = toy_subject("retrain", ratio=0.2)
    (row, column), near = neighbours_of(subject)
    forgotten, graph = subject.request.ids.tolist(), subject.train_graph
    found = {(forgotten[at], int(near[to])) for at, to in zip(row.tolist(), column.tolist(), strict=True)}
    expected = set()
    for a, b in graph.ids[graph.edge_index].T.tolist():
        expected |= {(one, other) for one, other in ((a, b), (b, a)) if one in forgotten and other not in forgotten}
    assert found == expected
    assert len(row) == len(expected)
    assert sorted({other for _, other in expected}) == near.tolist()


def test_a_pipeline_is_trained_with_its_half_and_forgets_it() -> None:
    subject = toy_subject("noop", ratio=0.2)
    present = presence(subject, 16)
    found = run_shadows(subject, subject.cell.method, present, View.SHARD)
    ids, labels = subject.request.ids, subject.graph.y[subject.graph.positions(subject.request.ids)]
    task = subject.task(3, "membership").without(Request(ids[~present[3]]))
    assert torch.isin(ids, task.graph.ids).tolist() == present[3].tolist()
    built = subject.fit(subject.cell.method, task)
    retained = subject.forget(built, task, Request(ids[present[3]])).graph.ids
    assert set(retained.tolist()) == set(subject.train_graph.ids.tolist()) - set(ids.tolist())
    answers = built.predict(subject.query(ids, retained))
    assert torch.equal(found.unlearned["own"][3], confidence(answers, labels))
    # The weights are kept: before the request, over the retained graph, noop predicts the same.
    assert torch.equal(found.noop["own"], found.unlearned["own"])
    (row, column), near = neighbours_of(subject)
    rows = built.predict(subject.query(near, retained, View.FULL))
    each = confidence(rows, subject.graph.y[subject.graph.positions(near)])
    means = [float(each[column[row == at]].mean()) if bool((row == at).any()) else 0.0 for at in range(len(ids))]
    assert found.unlearned["neighbours"][3].tolist() == pytest.approx(means)


def test_after_retraining_nothing_depends_on_who_was_there() -> None:
    subject = toy_subject("retrain", ratio=0.2)
    some = presence(subject, 16)[:4]
    found = run_shadows(subject, subject.cell.method, some, View.SHARD)
    other = run_shadows(toy_subject("retrain", ratio=0.2), subject.cell.method, ~some, View.SHARD)
    for what in ("own", "neighbours"):
        assert torch.equal(found.unlearned[what], other.unlearned[what])
    assert not torch.equal(found.noop["own"], other.noop["own"])


def test_pipelines_with_all_or_none_of_the_nodes_run_too() -> None:
    subject = toy_subject("scrub", epochs=1, ratio=0.2)
    count = len(subject.request.ids)
    extremes = torch.stack([torch.ones(count), torch.zeros(count)]).bool()
    found = run_shadows(subject, subject.cell.method, extremes, View.FULL)
    assert bool(torch.isfinite(found.unlearned["own"]).all())
    assert torch.equal(found.noop["own"][1], found.unlearned["own"][1])


def test_pipelines_of_references_are_those_of_each_alone_and_train_no_network_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    names, made = ("retrain", "retrain-leak[k=0.5]", "over-forget"), []
    original = training._train_all
    monkeypatch.setattr(training, "_train_all", lambda *given: made.append(1) or original(*given))
    subject = toy_subject("scrub", epochs=1, ratio=0.2)
    present = presence(subject, 16)[:1]
    found = run_references(subject, names, present, View.SHARD)
    # The network before the request, Retrain's after it, and that of the leak.
    assert len(made) == 3
    for name in names:
        alone = run_shadows(toy_subject("scrub", epochs=1, ratio=0.2), subject.find(name), present, View.SHARD)
        for what in ("own", "neighbours"):
            assert torch.equal(found[name].unlearned[what], alone.unlearned[what])
            assert name != "retrain" or torch.equal(found[name].noop[what], alone.noop[what])
    assert found["over-forget"].noop == {}


def test_cells_in_processes_of_their_own_share_the_pipelines_of_references(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def pipelines() -> Shadows:
        # As in another process: only the folder is shared.
        subject = replace(toy_subject("scrub", ratio=0.2), memory=Memory(tmp_path))
        return run_references(subject, ("retrain",), presence(subject, 16)[:2], View.SHARD)["retrain"]

    found = pipelines()
    monkeypatch.setattr(Subject, "fit", None)
    assert torch.equal(found.unlearned["own"], pipelines().unlearned["own"])
    # Of each pipeline its network before the request, and what it answers.
    assert [path.suffix for path in tmp_path.iterdir()] == [".pt"] * 4


@pytest.mark.parametrize("folder", [False, True])
def test_methods_that_begin_with_the_network_of_retrain_train_it_once(
    folder: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    original, made = training._train_all, []
    monkeypatch.setattr(training, "_train_all", lambda *given: made.append(1) or original(*given))
    memory = Memory(tmp_path if folder else None)

    def pipelines(name: str, memory: Memory) -> Shadows:
        subject = replace(toy_subject(name, ratio=0.2), memory=memory)
        return run_shadows(subject, subject.cell.method, presence(subject, 16)[:2], View.SHARD)

    for name, trained in (("scrub", 2), ("noop", 0), ("gif", 0), ("retrain", 2), ("sisa[num_shards=2]", None)):
        before = len(made)
        found = pipelines(name, Memory(tmp_path) if folder else memory)
        assert trained is None or len(made) == before + trained
        alone = pipelines(name, Memory())
        for what in ("own", "neighbours"):
            assert torch.equal(found.unlearned[what], alone.unlearned[what])
            assert torch.equal(found.noop[what], alone.noop[what])


def test_networks_of_a_place_are_released_when_the_next_one_is_asked_for() -> None:
    memory, made = Memory(), []

    def make() -> dict[str, torch.Tensor]:
        made.append(1)
        return {}

    for place in ("one", "one", "two", "one"):
        memory.get_network([place], "key", make)
    assert len(made) == 3
