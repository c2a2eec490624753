"""Injected nodes: what they look like, that they are the request, and what is measured."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import unlearnbench
from unlearnbench.errors import UsageError
from unlearnbench.protocol import Protocol, protocol
from unlearnbench.protocol.poison import Poison, inject
from unlearnbench.running.config import make_config
from unlearnbench.testing.graphs import FIRST_ID, toy_graph


@settings(max_examples=30, deadline=None)
@given(nodes=st.integers(1, 30), edges=st.integers(1, 10), seed=st.integers(0, 1000))
def test_an_injected_node_copies_a_training_node_and_is_wrong_about_it(nodes: int, edges: int, seed: int) -> None:
    graph = toy_graph(first_id=FIRST_ID)
    train = graph.ids[10:40]
    before = graph.checksum()
    whole, ids = inject(graph, train, Poison(nodes, edges), torch.Generator().manual_seed(seed))
    assert graph.checksum() == before
    assert ids.tolist() == list(range(FIRST_ID + 60, FIRST_ID + 60 + nodes))
    assert torch.equal(whole.ids, torch.cat([graph.ids, ids]))
    assert torch.equal(whole.edge_index[:, : graph.num_edges], graph.edge_index)
    own = {tuple(row.tolist()): int(label) for row, label in zip(graph.x[10:40], graph.y[10:40], strict=True)}
    for row, label in zip(whole.x[60:], whole.y[60:], strict=True):
        assert own[tuple(row.tolist())] != int(label)
        assert 0 <= int(label) < graph.num_classes
    source, target = whole.ids[whole.edge_index[:, graph.num_edges :]]
    for node in ids:
        there, back = target[source == node], source[target == node]
        assert len(there.unique()) == len(there) == edges
        assert torch.equal(there.sort().values, back.sort().values)
        assert bool(torch.isin(there, train).all())


def test_every_wrong_label_occurs() -> None:
    graph = toy_graph()
    whole, _ = inject(graph, graph.ids, Poison(200, 1), torch.Generator().manual_seed(0))
    assert set(whole.y[60:].tolist()) == {0, 1, 2}


def test_the_request_is_what_was_injected_and_the_split_is_that_of_the_clean_graph() -> None:
    graph = toy_graph()
    found = protocol.repetition_data(Protocol("poison", poison=Poison(5, 3)), graph, 0, "toy", 2)
    clean = protocol.split(graph, 0, "toy", 2)
    assert torch.equal(found.request.ids, torch.arange(60, 65))
    assert torch.equal(found.split.train, torch.cat([clean.train, found.request.ids]))
    assert torch.equal(found.split.test, clean.test)
    assert found.clean is not None
    assert torch.equal(found.clean, clean.train)
    retained = found.request.apply(found.graph.induced(found.split.train))
    assert retained.checksum() == graph.induced(clean.train).checksum()


def test_repetitions_inject_other_nodes_and_the_same_repetition_the_same() -> None:
    graph, rules = toy_graph(), Protocol("poison", poison=Poison(5, 3))
    first, again, other = (protocol.repetition_data(rules, graph, 0, "toy", r).graph.checksum() for r in (0, 0, 1))
    assert first == again != other


def test_a_graph_too_small_is_refused() -> None:
    graph = toy_graph()
    with pytest.raises(UsageError, match="there are 3"):
        inject(graph, graph.ids[:3], Poison(1, 4), torch.Generator())
    with pytest.raises(UsageError, match="one class"):
        inject(toy_graph(num_classes=1), graph.ids, Poison(1, 4), torch.Generator())


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"protocol": "poison", "forget_ratio": 0.1}, "forgets what it injects"),
        ({"set": {"poison.nodes": 5}}, "nothing is injected"),
        ({"protocol": "poison", "set": {"poison.node": 5}}, "no such setting"),
        ({"protocol": "poison", "set": {"poison.nodes": 0}}, "out of range"),
        ({"protocol": "poisson"}, "protocol"),
    ],
)
def test_settings_that_do_not_fit_are_told(values: dict[str, object], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        make_config({"methods": "sisa", **values})


@pytest.mark.slow
def test_a_record_has_the_clean_the_poisoned_the_unlearned_and_a_fresh_score(tmp_path: Path) -> None:
    common = {"methods": "sisa", "num_shards": 3, "epochs": 3, "repetitions": 1, "out": tmp_path}
    plain = {r.label: r for r in unlearnbench.run(**common)}
    poisoned = {r.label: r for r in unlearnbench.run(**common, protocol="poison", set={"poison.nodes": 50})}
    assert {r.key for r in plain.values()}.isdisjoint(r.key for r in poisoned.values())
    for label, record in poisoned.items():
        assert record.status == "ok"
        assert record.requests[0]["count"] == 50
        assert record.cell["protocol"]["forget"] == {"kind": "node", "injected": 50}
        scores = record.metrics["f1_micro"]["full"]
        assert set(scores) == {"before", "after", "clean", "fresh"}
        # What was never poisoned is what an undisturbed run has before its request.
        assert scores["clean"] == plain[label].metrics["f1_micro"]["full"]["before"]
    retrain = poisoned["retrain"].metrics["f1_micro"]["full"]
    assert retrain["after"] == retrain["clean"]
